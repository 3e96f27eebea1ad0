//! The rules for rows of the outbox: drafts, claims, leases, settlements.

use super::{
    ClaimOutbox, ClaimedOutbox, ClaimedOutboxRow, ExtendOutbox, NewOutboxRow, OutboxChoice, OutboxClaim, OutboxList,
    OutboxRow, OutboxSettlement, OutboxStatus, OutboxSubset, OutboxTable, OutboxView, PurgeOutbox, RequeueOutbox,
    Requeued, SettleOutbox, StoredOutboxRow, lists::is_due, put_row, remove_row,
};
use crate::{
    claim::{ClaimToken, check_lease},
    codec::{Extra, ObjectWriter, sha256_hex},
    commit::DecisionContext,
    error::{Detail, Error, ErrorKind, Result},
    id::{OutboxId, ThreadId},
    json::Json,
    limits::{Limits, check_limit, length, truncate_text},
    page::{MAX_BYTES_READ, MAX_PAGE},
    time::Timestamp,
};

/// One call of [`claim`] ends at most this many expired claims, and reports at most this many unreadable rows.
const MAX_EXPIRED_OR_UNREADABLE: usize = 1_000;

/// The rows that a commit writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutboxPlan {
    /// New rows with their payloads, in order.
    pub rows: Vec<(StoredOutboxRow, Json)>,
}

/// Refuses drafts that no store can accept.
pub(crate) fn check_drafts(drafts: &[NewOutboxRow], limits: &Limits) -> Result<()> {
    check_limit("outbox rows of a commit", length(drafts.len()), limits.commit_outbox)?;
    for (index, draft) in drafts.iter().enumerate() {
        let name_part = |e: Error| e.in_part(format!("outbox[{index}]"));
        if draft.max_attempts == 0 {
            return Err(name_part(Error::invalid("max_attempts", "it must be 1 or more")));
        }
        check_limit("record bytes", draft.payload_bytes(), limits.record_bytes).map_err(name_part)?;
    }
    Ok(())
}

/// Returns the rows that a commit of `thread` writes, and an id for each draft.
///
/// If an earlier row has the dedupe key of a draft, the id for that draft is the id of the earlier row (OB-2).
pub(crate) fn plan_rows(
    view: &(impl OutboxView + ?Sized),
    drafts: &[NewOutboxRow],
    thread: &ThreadId,
    decision_context: DecisionContext<'_>,
) -> Result<(OutboxPlan, Vec<OutboxId>)> {
    let (mut plan, mut ids) = (OutboxPlan::default(), Vec::new());
    for (index, draft) in drafts.iter().enumerate() {
        let existing_id = find_by_dedupe_key(view, &plan, draft).map_err(|e| e.in_part(format!("outbox[{index}]")))?;
        let id = match existing_id {
            Some(id) => id,
            None => {
                let row = new_row(draft, thread, next_order_number(view, &plan, draft)?, decision_context)?;
                let id = row.id.clone();
                plan.rows.push((row, draft.payload.clone()));
                id
            }
        };
        ids.push(id);
    }
    Ok((plan, ids))
}

/// Returns the id of the row that has the dedupe key of a draft, or none.
fn find_by_dedupe_key(
    view: &(impl OutboxView + ?Sized),
    plan: &OutboxPlan,
    draft: &NewOutboxRow,
) -> Result<Option<OutboxId>> {
    let Some(key) = &draft.dedupe_key else { return Ok(None) };
    let has_same_key = |row: &StoredOutboxRow| {
        row.lane == draft.lane && row.target == draft.target && row.dedupe_key.as_ref() == Some(key)
    };
    let stored = match plan.rows.iter().find(|(row, _)| has_same_key(row)) {
        Some((row, _)) => Some(row.clone()),
        None => {
            let list = OutboxList::Keyed(draft.lane.clone(), draft.target.clone(), key.clone());
            view.next(&list, None)?.map_or(Ok(None), |position| view.row(&position.id))?
        }
    };
    match stored {
        Some(row) if row.digest.as_deref() != Some(&draft_digest(draft)) => {
            Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }))
        }
        stored => Ok(stored.map(|row| row.id)),
    }
}

/// Returns the digest of everything in a draft except its lane, target and dedupe key.
fn draft_digest(draft: &NewOutboxRow) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    object
        .field("payload", &draft.payload)
        .maybe("order_key", draft.order_key.as_ref())
        .maybe("available_at", draft.available_at.as_ref())
        .field("max_attempts", &draft.max_attempts);
    object.close();
    format!("1:{}", sha256_hex(&text))
}

/// Returns the next number among the rows with the draft's order key, or 0 if the draft has none.
fn next_order_number(view: &(impl OutboxView + ?Sized), plan: &OutboxPlan, draft: &NewOutboxRow) -> Result<u64> {
    let Some(key) = &draft.order_key else { return Ok(0) };
    let has_same_key = |row: &StoredOutboxRow| {
        row.lane == draft.lane && row.target == draft.target && row.order_key.as_ref() == Some(key)
    };
    if let Some((row, _)) = plan.rows.iter().rev().find(|(row, _)| has_same_key(row)) {
        return Ok(row.order + 1);
    }
    let group = super::OrderGroup { lane: draft.lane.clone(), target: draft.target.clone(), key: key.clone() };
    Ok(view.last(&OutboxList::AllOfGroup(group))?.map_or(1, |position| position.order_number() + 1))
}

fn new_row(
    draft: &NewOutboxRow,
    thread: &ThreadId,
    order: u64,
    decision_context: DecisionContext<'_>,
) -> Result<StoredOutboxRow> {
    Ok(StoredOutboxRow {
        id: OutboxId::new(decision_context.ids.next_id())?,
        thread: thread.clone(),
        lane: draft.lane.clone(),
        target: draft.target.clone(),
        dedupe_key: draft.dedupe_key.clone(),
        digest: draft.dedupe_key.as_ref().map(|_| draft_digest(draft)),
        order_key: draft.order_key.clone(),
        order,
        revision: 1,
        available_at: draft.available_at.unwrap_or(decision_context.now),
        max_attempts: draft.max_attempts,
        status: OutboxStatus::Pending,
        attempts: 0,
        claim: None,
        token: None,
        last_error: None,
        created_at: decision_context.now,
        updated_at: decision_context.now,
        finished_at: None,
        extra: Extra::default(),
    })
}

fn check_row_limit(limit: u32) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) { Ok(()) } else { Err(Error::invalid("limit", "it must be from 1 to 1000")) }
}

/// Changes of a row. Each returns the next record of the row.
impl StoredOutboxRow {
    /// Returns the row with the next revision and `now` as the time of its last change. That time never goes back
    /// (PR-5).
    fn with_change_at(mut self, now: Timestamp) -> Self {
        self.revision += 1;
        self.updated_at = self.updated_at.max(now);
        self
    }

    fn without_claim(self) -> Self {
        Self { claim: None, token: None, ..self }
    }

    fn into_pending(mut self, available_at: Timestamp) -> Self {
        (self.status, self.available_at) = (OutboxStatus::Pending, available_at);
        self.without_claim()
    }

    fn into_final(mut self, status: OutboxStatus) -> Self {
        (self.status, self.finished_at) = (status, Some(self.updated_at));
        self.without_claim()
    }

    /// Returns the row after a failed attempt. If an attempt is left, the row is available at `retry_at` (OB-6).
    fn after_failed_attempt(mut self, retry_at: Timestamp, error: String) -> Self {
        self.attempts += 1;
        self.last_error = Some(error);
        if self.attempts >= self.max_attempts {
            self.into_final(OutboxStatus::DeadLetter)
        } else {
            self.into_pending(retry_at)
        }
    }

    fn after_settlement(self, settlement: OutboxSettlement, decision_context: DecisionContext<'_>) -> Self {
        let row = self.with_change_at(decision_context.now);
        let truncate = |mut error: String| {
            truncate_text(&mut error, decision_context.limits);
            error
        };
        match settlement {
            OutboxSettlement::Delivered => row.into_final(OutboxStatus::Delivered),
            OutboxSettlement::Retry { after, error } => {
                let retry_at = row.updated_at.saturating_add(after);
                row.after_failed_attempt(retry_at, truncate(error))
            }
            OutboxSettlement::DeadLetter { error } => {
                let row = Self { attempts: row.attempts + 1, last_error: Some(truncate(error)), ..row };
                row.into_final(OutboxStatus::DeadLetter)
            }
            OutboxSettlement::Release => {
                let available_at = row.available_at;
                row.into_pending(available_at)
            }
        }
    }

    fn claimed_by(self, token: &ClaimToken, request: &ClaimOutbox, now: Timestamp) -> Self {
        let mut row = self.with_change_at(now);
        let lease_until = row.updated_at.saturating_add(request.lease);
        row.status = OutboxStatus::Claimed;
        row.claim = Some(OutboxClaim { worker: request.worker.clone(), lease_until, extra: Extra::default() });
        row.token = Some(token.digest());
        row
    }
}

/// Claims rows for a consumer (OB-4 to OB-6).
///
/// # Errors
/// Any error of [`OutboxStore::claim_outbox`](super::OutboxStore::claim_outbox).
pub fn claim(
    table: &mut (impl OutboxTable + ?Sized),
    request: &ClaimOutbox,
    decision_context: DecisionContext<'_>,
) -> Result<ClaimedOutbox> {
    check_row_limit(request.limit)?;
    check_lease(request.lease)?;
    let subset = match &request.target {
        Some(target) => OutboxSubset::Target(request.lane.clone(), target.clone()),
        None => OutboxSubset::Lane(request.lane.clone()),
    };
    end_expired_claims(table, &OutboxList::Leased(subset.clone()), decision_context.now)?;
    let ready_list = OutboxList::Ready(subset);
    let (mut answer, mut after, mut bytes) = (ClaimedOutbox::default(), None, 0);
    while length(answer.rows.len()) < u64::from(request.limit)
        && answer.unreadable.len() < MAX_EXPIRED_OR_UNREADABLE
        && bytes < MAX_BYTES_READ
    {
        let Some(position) =
            table.next(&ready_list, after.as_ref())?.filter(|position| is_due(position, decision_context.now))
        else {
            break;
        };
        let payload = table.payload(&position.id);
        match (table.row(&position.id)?, payload) {
            (Some(row), Ok(payload)) if row.status == OutboxStatus::Pending => {
                let token = ClaimToken::generate(table.incarnation(), decision_context.ids);
                let row = row.claimed_by(&token, request, decision_context.now);
                put_row(table, row.clone())?;
                bytes += length(payload.as_str().len());
                answer.rows.push(ClaimedOutboxRow { row: OutboxRow::new(row, payload), token });
            }
            (_, Err(error)) if error.kind() == ErrorKind::Closed => return Err(error),
            (_, Err(_)) | (None, _) => answer.unreadable.push(position.id.clone()),
            // The list is out of date: the row is not pending. The claim leaves the row out.
            (Some(_), Ok(_)) => {}
        }
        after = Some(position);
    }
    Ok(answer)
}

/// Ends the claims of a list whose leases have expired. The attempt of each row is counted, and the row keeps its
/// `available_at` (OB-5, OB-6).
fn end_expired_claims(table: &mut (impl OutboxTable + ?Sized), lease_list: &OutboxList, now: Timestamp) -> Result<()> {
    let mut after = None;
    for _ in 0..MAX_EXPIRED_OR_UNREADABLE {
        let Some(position) = table.next(lease_list, after.as_ref())?.filter(|position| is_due(position, now)) else {
            break;
        };
        // If the row is not claimed, the list is out of date, and the row is left unchanged.
        if let Some(row) = table.row(&position.id)?.filter(|row| row.status == OutboxStatus::Claimed) {
            let available_at = row.available_at;
            put_row(table, row.with_change_at(now).after_failed_attempt(available_at, "lease expired".to_owned()))?;
        }
        after = Some(position);
    }
    Ok(())
}

/// Returns the row whose claim this token proves. Whether the lease has ended does not matter.
fn claimed_row(table: &(impl OutboxTable + ?Sized), id: &OutboxId, token: &ClaimToken) -> Result<StoredOutboxRow> {
    let is_proven = |row: &StoredOutboxRow| {
        row.token.as_deref() == Some(&token.digest()) && token.is_of_incarnation(table.incarnation())
    };
    table
        .row(id)?
        .filter(is_proven)
        .ok_or_else(|| Error::new(Detail::ClaimLost { what: "outbox row", id: id.to_string() }))
}

/// Extends a live claim (OB-8).
///
/// # Errors
/// Any error of [`OutboxStore::extend_outbox`](super::OutboxStore::extend_outbox).
pub fn extend(
    table: &mut (impl OutboxTable + ?Sized),
    request: &ExtendOutbox,
    decision_context: DecisionContext<'_>,
) -> Result<Timestamp> {
    check_lease(request.lease)?;
    let mut row = claimed_row(table, &request.id, &request.token)?.with_change_at(decision_context.now);
    let lease_until = row.updated_at.saturating_add(request.lease);
    row.claim = row.claim.map(|claim| OutboxClaim { lease_until, ..claim });
    put_row(table, row)?;
    Ok(lease_until)
}

/// Ends attempts (OB-7).
///
/// # Errors
/// Any error of [`OutboxStore::settle_outbox`](super::OutboxStore::settle_outbox).
pub fn settle(
    table: &mut (impl OutboxTable + ?Sized),
    requests: Vec<SettleOutbox>,
    decision_context: DecisionContext<'_>,
) -> Result<Vec<Result<OutboxStatus>>> {
    check_limit("outbox rows of a call", length(requests.len()), decision_context.limits.commit_outbox)?;
    let mut answers = Vec::new();
    for request in requests {
        answers.push(match claimed_row(table, &request.id, &request.token) {
            Ok(row) => {
                let row = row.after_settlement(request.settlement, decision_context);
                let status = row.status;
                put_row(table, row)?;
                Ok(status)
            }
            Err(error) if error.kind() == ErrorKind::ClaimLost => Err(error),
            Err(error) => return Err(error),
        });
    }
    Ok(answers)
}

/// Makes dead letters pending again (OB-13).
///
/// # Errors
/// Any error of [`OutboxStore::requeue_outbox`](super::OutboxStore::requeue_outbox).
pub fn requeue(
    table: &mut (impl OutboxTable + ?Sized),
    request: RequeueOutbox,
    decision_context: DecisionContext<'_>,
) -> Result<Vec<Requeued>> {
    let ids = match request.choice {
        OutboxChoice::Ids(ids) => ids,
        OutboxChoice::Filter { lane, target, limit } => {
            check_row_limit(limit)?;
            let filter = super::OutboxFilter { lane, target, statuses: Some(vec![OutboxStatus::DeadLetter]) };
            oldest_dead_letters(table, &filter, limit)?
        }
    };
    check_limit("outbox rows of a call", length(ids.len()), decision_context.limits.commit_outbox)?;
    let mut answers = Vec::new();
    for id in ids {
        let outcome = match table.row(&id)? {
            None => Err(Error::not_found("outbox row", &id)),
            Some(row) if row.status != OutboxStatus::DeadLetter => {
                Err(Error::invalid_transition("outbox row", &id, row.status.name(), OutboxStatus::Pending.name()))
            }
            Some(row) => {
                let row =
                    StoredOutboxRow { attempts: 0, finished_at: None, ..row.with_change_at(decision_context.now) };
                let now = row.updated_at;
                put_row(table, row.into_pending(now))
            }
        };
        answers.push(Requeued::new(id, outcome));
    }
    Ok(answers)
}

/// Returns the ids of the oldest dead letters that pass the filter.
fn oldest_dead_letters(
    table: &(impl OutboxTable + ?Sized),
    filter: &super::OutboxFilter,
    limit: u32,
) -> Result<Vec<OutboxId>> {
    let (subset, _) = filter.list_keys();
    let list = OutboxList::Created(subset, Some(OutboxStatus::DeadLetter));
    let (mut ids, mut after) = (Vec::new(), None);
    while length(ids.len()) < u64::from(limit) {
        let Some(position) = table.next(&list, after.as_ref())? else { break };
        if table.row(&position.id)?.is_some_and(|row| filter.admits(&row)) {
            ids.push(position.id.clone());
        }
        after = Some(position);
    }
    Ok(ids)
}

/// Removes final rows and returns how many (OB-13). With `dry_run` it only counts them.
///
/// # Errors
/// Any error of [`OutboxStore::purge_outbox`](super::OutboxStore::purge_outbox).
pub fn purge(table: &mut (impl OutboxTable + ?Sized), request: &PurgeOutbox) -> Result<u64> {
    check_row_limit(request.limit)?;
    if !request.ids.is_empty() {
        return remove_named(table, request);
    }
    let before = request.finished_before.as_millis();
    let (mut count, mut after) = (0, None);
    while count < u64::from(request.limit) {
        let position =
            table.next(&OutboxList::Finished, after.as_ref())?.filter(|position| position.time_millis() < before);
        let Some(position) = position else { break };
        if !request.dry_run {
            remove_row(table, &position.id)?;
        }
        after = Some(position);
        count += 1;
    }
    Ok(count)
}

/// Removes the rows that a request names, and returns how many (OB-14). With `dry_run` it only counts them.
fn remove_named(table: &mut (impl OutboxTable + ?Sized), request: &PurgeOutbox) -> Result<u64> {
    check_limit("rows of one purge", length(request.ids.len()), u64::from(MAX_PAGE))?;
    let mut count = 0;
    for id in &request.ids {
        if table.row(id)?.is_some() {
            count += 1;
            if !request.dry_run {
                remove_row(table, id)?;
            }
        }
    }
    Ok(count)
}
