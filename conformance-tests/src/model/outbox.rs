//! The outbox (promises OB of the contract): a list of rows for each tenant. Every call searches the list from its
//! beginning.

use async_trait::async_trait;
use serde_json::json;
use store_core::{
    ClaimOutbox, ClaimToken, ClaimedOutbox, ClaimedOutboxRow, Commit, Detail, Error, ExtendOutbox, NewOutboxRow,
    OutboxChoice, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow, OutboxSettlement, OutboxStatus,
    OutboxStore, Page, PurgeOutbox, RequeueOutbox, Requeued, Result, SettleOutbox, Timestamp, check_limit,
};

use super::{
    bug::Bug,
    commit::Environment,
    handle::TenantHandle,
    model_data::{TenantData, record_from_json},
    read::TenantView,
};

/// A row, with the draft that it was made from and data that callers do not see.
#[derive(Debug, Clone)]
pub(super) struct StoredRow {
    row: OutboxRow,
    draft: NewOutboxRow,
    /// The token of its last claim.
    token: Option<ClaimToken>,
    /// Its position among the rows with the same order key.
    order_position: u64,
}

impl StoredRow {
    fn shares_order_key_with(&self, other: &Self) -> bool {
        let (own, theirs) = (&self.draft, &other.draft);
        own.order_key.is_some()
            && (&own.lane, &own.target, &own.order_key) == (&theirs.lane, &theirs.target, &theirs.order_key)
    }

    fn matches(&self, filter: &OutboxFilter) -> bool {
        filter.lane.as_ref().is_none_or(|lane| self.row.lane == *lane)
            && filter.target.as_ref().is_none_or(|target| self.row.target == *target)
            && filter.statuses.as_ref().is_none_or(|statuses| statuses.contains(&self.row.status))
    }

    fn advance_updated_at(&mut self, now: Timestamp) {
        self.row.updated_at = self.row.updated_at.max(now);
    }

    fn finish(&mut self, status: OutboxStatus) {
        (self.row.status, self.row.claim, self.row.finished_at) = (status, None, Some(self.row.updated_at));
    }

    fn fail_attempt(&mut self, error: String, bug: Option<Bug>) {
        self.row.attempts += u32::from(bug != Some(Bug::RowAttemptNotCounted));
        self.row.last_error = Some(error);
        if self.row.attempts >= self.row.max_attempts {
            self.finish(OutboxStatus::DeadLetter);
        } else {
            (self.row.status, self.row.claim) = (OutboxStatus::Pending, None);
        }
    }
}

/// Refuses drafts that exceed a limit, and drafts that allow no attempt.
pub(super) fn check_rows(commit: &Commit, limits: &store_core::Limits) -> Result<()> {
    check_limit("outbox rows", commit.outbox.len() as u64, limits.commit_outbox)?;
    for (at, draft) in commit.outbox.iter().enumerate() {
        let in_part = |error: Error| error.in_part(format!("outbox[{at}]"));
        if draft.max_attempts == 0 {
            return Err(in_part(Error::invalid("max_attempts", "it must be at least 1")));
        }
        check_limit("record bytes", draft.payload.as_str().len() as u64, limits.record_bytes).map_err(in_part)?;
    }
    Ok(())
}

/// Returns all rows of the outbox, including the new rows of a commit, and the id of the row of each draft.
pub(super) fn append(
    tenant: &TenantData,
    commit: &Commit,
    env: &Environment<'_>,
) -> Result<(Vec<StoredRow>, Vec<OutboxId>)> {
    let (mut rows, mut ids) = (tenant.outbox.clone(), Vec::new());
    for (at, draft) in commit.outbox.iter().enumerate() {
        let row_with_key = rows.iter().find(|stored| has_dedupe_key_of(stored, draft, env.bug)).cloned();
        let row_with_key = row_with_key.filter(|_| env.bug != Some(Bug::RowKeyIgnored));
        match row_with_key {
            Some(stored) if stored.draft != *draft && env.bug != Some(Bug::RowKeyContentIgnored) => {
                let key = draft.dedupe_key.iter().map(ToString::to_string).collect();
                return Err(Error::new(Detail::IdempotencyMismatch { key }).in_part(format!("outbox[{at}]")));
            }
            Some(stored) => ids.push(stored.row.id),
            None => {
                let mut stored = new_row(commit, draft, env)?;
                stored.order_position = rows
                    .iter()
                    .filter(|other| other.shares_order_key_with(&stored))
                    .map(|other| other.order_position)
                    .max()
                    .unwrap_or(0)
                    + 1;
                ids.push(stored.row.id.clone());
                rows.push(stored);
            }
        }
    }
    Ok((rows, ids))
}

fn has_dedupe_key_of(stored: &StoredRow, draft: &NewOutboxRow, bug: Option<Bug>) -> bool {
    let is_freed = stored.row.finished_at.is_some() && bug == Some(Bug::RowKeyFreedEarly);
    draft.dedupe_key.is_some()
        && !is_freed
        && (&stored.draft.lane, &stored.draft.target) == (&draft.lane, &draft.target)
        && stored.draft.dedupe_key == draft.dedupe_key
}

fn new_row(commit: &Commit, draft: &NewOutboxRow, env: &Environment<'_>) -> Result<StoredRow> {
    let mut row: OutboxRow = record_from_json(&json!({
        "id": OutboxId::new(env.id_source.next_id())?, "thread": commit.thread, "lane": draft.lane,
        "target": draft.target, "payload": null, "available_at": draft.available_at.unwrap_or(env.now),
        "max_attempts": draft.max_attempts, "status": "pending", "attempts": 0, "created_at": env.now,
        "updated_at": env.now,
    }))?;
    row.payload = draft.payload.clone();
    row.dedupe_key.clone_from(&draft.dedupe_key);
    row.order_key.clone_from(&draft.order_key);
    Ok(StoredRow { row, draft: draft.clone(), token: None, order_position: 0 })
}

fn check_batch_limit(limit: u32) -> Result<()> {
    if (1..=1_000).contains(&limit) { Ok(()) } else { Err(Error::invalid("limit", "it must be from 1 to 1000")) }
}

fn check_lease(lease: std::time::Duration) -> Result<()> {
    let day = std::time::Duration::from_secs(86_400);
    if lease.is_zero() || lease > day {
        Err(Error::invalid("lease", "it must be above 0 and at most 24 hours"))
    } else {
        Ok(())
    }
}

/// Ends the claims whose leases have expired, and then claims rows.
fn claim(tenant: &mut TenantData, request: &ClaimOutbox, env: &Environment<'_>) -> Result<ClaimedOutbox> {
    check_batch_limit(request.limit)?;
    check_lease(request.lease)?;
    let bug = env.bug;
    let mut filter = OutboxFilter::default().of_lane(request.lane.clone());
    filter.target.clone_from(&request.target);
    let rows = &mut tenant.outbox;
    for stored in rows.iter_mut().filter(|stored| stored.matches(&filter)) {
        let lateness = std::time::Duration::from_millis(u64::from(bug == Some(Bug::RowLeaseExpiresLate)));
        let is_expired = |until: Timestamp| until.saturating_add(lateness) <= env.now;
        if stored.row.claim.as_ref().is_some_and(|claim| is_expired(claim.lease_until)) {
            stored.advance_updated_at(env.now);
            let is_uncounted = bug == Some(Bug::RowLostLeaseNotCounted);
            stored.fail_attempt(
                "lease expired".to_owned(),
                if is_uncounted { Some(Bug::RowAttemptNotCounted) } else { bug },
            );
        }
    }
    let mut claimed = Vec::new();
    while claimed.len() < request.limit as usize {
        let candidates = (0..rows.len()).filter(|at| {
            rows.get(*at).is_some_and(|stored| stored.matches(&filter) && is_ready(rows, stored, (env.now, bug)))
        });
        let rank = |at: &usize| {
            rows.get(*at).map(|stored| (stored.row.available_at, stored.row.created_at, stored.row.id.clone()))
        };
        let Some(stored) = candidates.min_by_key(rank).and_then(|at| rows.get_mut(at)) else { break };
        stored.advance_updated_at(env.now);
        stored.row.status = OutboxStatus::Claimed;
        let lease_until = stored.row.updated_at.saturating_add(request.lease);
        stored.row.claim = Some(record_from_json(&json!({ "worker": request.worker, "lease_until": lease_until }))?);
        let token = ClaimToken::new(env.id_source.next_id());
        stored.token = Some(token.clone());
        claimed.push(ClaimedOutboxRow::new(stored.row.clone(), token));
    }
    if claimed.is_empty() && bug == Some(Bug::ClaimedRowGivenAgain) {
        let matching_rows = rows.iter().filter(|stored| stored.matches(&filter));
        claimed.extend(
            matching_rows.filter_map(|stored| Some(ClaimedOutboxRow::new(stored.row.clone(), stored.token.clone()?))),
        );
    }
    Ok(ClaimedOutbox::new(claimed, Vec::new()))
}

/// Returns whether a claim may take a row now.
fn is_ready(rows: &[StoredRow], stored: &StoredRow, now_and_bug: (Timestamp, Option<Bug>)) -> bool {
    let (now, bug) = now_and_bug;
    let blocks = |other: &&StoredRow| {
        let waits = other.row.available_at > now && bug == Some(Bug::WaitingRowDoesNotBlock);
        let is_earlier = other.order_position < stored.order_position && !other.row.status.is_final() && !waits;
        other.shares_order_key_with(stored) && (is_earlier || other.row.status == OutboxStatus::Claimed)
    };
    let is_dead = stored.row.status == OutboxStatus::DeadLetter && bug == Some(Bug::DeadLetterClaimed);
    (stored.row.status == OutboxStatus::Pending || is_dead)
        && stored.row.available_at <= now
        && (stored.draft.order_key.is_none()
            || bug == Some(Bug::OrderKeyIgnored)
            || !rows.iter().any(|other| blocks(&other)))
}

fn find_claimed_row<'a>(
    tenant: &'a mut TenantData,
    id: &OutboxId,
    token: &ClaimToken,
    bug: Option<Bug>,
) -> Result<&'a mut StoredRow> {
    let is_held = |stored: &StoredRow| {
        stored.row.claim.is_some() && (stored.token.as_ref() == Some(token) || bug == Some(Bug::RowTokenIgnored))
    };
    let found = tenant.outbox.iter_mut().find(|stored| stored.row.id == *id && is_held(stored));
    found.ok_or_else(|| Error::new(Detail::ClaimLost { what: "outbox row", id: id.to_string() }))
}

fn extend(tenant: &mut TenantData, request: &ExtendOutbox, env: &Environment<'_>) -> Result<Timestamp> {
    check_lease(request.lease)?;
    let stored = find_claimed_row(tenant, &request.id, &request.token, env.bug)?;
    stored.advance_updated_at(env.now);
    let until = stored.row.updated_at.saturating_add(request.lease);
    stored.row.claim.iter_mut().for_each(|claim| claim.lease_until = until);
    Ok(until)
}

pub(super) fn settle(
    tenant: &mut TenantData,
    requests: Vec<SettleOutbox>,
    env: &Environment<'_>,
) -> Result<Vec<Result<OutboxStatus>>> {
    check_limit("rows", requests.len() as u64, env.limits.commit_outbox)?;
    let settlements = requests.into_iter().map(|request| {
        let stored = find_claimed_row(tenant, &request.id, &request.token, env.bug)?;
        stored.advance_updated_at(env.now);
        apply_settlement(stored, request.settlement, env);
        Ok(stored.row.status)
    });
    Ok(settlements.collect())
}

fn apply_settlement(stored: &mut StoredRow, settlement: OutboxSettlement, env: &Environment<'_>) {
    let truncate_text = |mut text: String| {
        let max_bytes = usize::try_from(env.limits.text_bytes).unwrap_or(usize::MAX);
        if text.len() > max_bytes {
            while text.len() > max_bytes - 3 {
                text.pop();
            }
            text.push('…');
        }
        text
    };
    match settlement {
        OutboxSettlement::Delivered => stored.finish(OutboxStatus::Delivered),
        OutboxSettlement::Retry { after, error } => {
            stored.fail_attempt(truncate_text(error), env.bug);
            if stored.row.status == OutboxStatus::Pending && env.bug != Some(Bug::RetriedRowNotDelayed) {
                stored.row.available_at = stored.row.updated_at.saturating_add(after);
            }
        }
        OutboxSettlement::DeadLetter { error } => {
            stored.row.attempts += 1;
            stored.row.last_error = Some(truncate_text(error));
            stored.finish(OutboxStatus::DeadLetter);
        }
        OutboxSettlement::Release => (stored.row.status, stored.row.claim) = (OutboxStatus::Pending, None),
    }
}

fn load(tenant: &TenantData, id: &OutboxId) -> Option<OutboxRow> {
    tenant.outbox.iter().find(|stored| stored.row.id == *id).map(|stored| stored.row.clone())
}

/// Returns a page of rows, ordered by creation.
fn list(view: &TenantView<'_>, query: &OutboxQuery) -> Result<Page<OutboxRow>> {
    let page_reader = view.page_reader("list_outbox", &query.cursor_binding(), &query.page)?;
    let rows =
        view.tenant.outbox.iter().filter(|stored| stored.matches(&query.filter)).map(|stored| stored.row.clone());
    let keyed = rows.map(|row| ((row.created_at.as_millis(), row.id.to_string()), row));
    Ok(page_reader.page(keyed.collect(), query.direction))
}

fn count(tenant: &TenantData, filter: &OutboxFilter) -> OutboxCounts {
    let mut counts = OutboxCounts::default();
    tenant.outbox.iter().filter(|stored| stored.matches(filter)).for_each(|stored| counts.add(stored.row.status, 1));
    counts
}

fn requeue(tenant: &mut TenantData, request: RequeueOutbox, env: &Environment<'_>) -> Result<Vec<Requeued>> {
    let ids = match request.choice {
        OutboxChoice::Ids(ids) => ids,
        OutboxChoice::Filter { lane, target, limit } => {
            check_batch_limit(limit)?;
            let mut filter = OutboxFilter::default().in_status([OutboxStatus::DeadLetter]);
            (filter.lane, filter.target) = (lane, target);
            let mut rows: Vec<_> =
                tenant.outbox.iter().filter(|stored| stored.matches(&filter)).map(|stored| &stored.row).collect();
            rows.sort_by_key(|row| (row.created_at, row.id.clone()));
            rows.into_iter().take(limit as usize).map(|row| row.id.clone()).collect()
        }
    };
    check_limit("rows", ids.len() as u64, env.limits.commit_outbox)?;
    Ok(ids.into_iter().map(|id| Requeued::new(id.clone(), requeue_one(tenant, &id, env))).collect())
}

fn requeue_one(tenant: &mut TenantData, id: &OutboxId, env: &Environment<'_>) -> Result<()> {
    let last_position = tenant.outbox.iter().map(|stored| stored.order_position).max().unwrap_or(0);
    let found = tenant.outbox.iter_mut().find(|stored| stored.row.id == *id);
    let stored = found.ok_or_else(|| Error::not_found("outbox row", id))?;
    if stored.row.status != OutboxStatus::DeadLetter {
        return Err(Error::invalid_transition("outbox row", id, stored.row.status.name(), "pending"));
    }
    stored.advance_updated_at(env.now);
    stored.row.available_at = stored.row.updated_at;
    (stored.row.status, stored.row.attempts, stored.row.finished_at) = (OutboxStatus::Pending, 0, None);
    if env.bug == Some(Bug::RequeuedComesLast) {
        stored.order_position = last_position + 1;
    }
    Ok(())
}

fn purge(tenant: &mut TenantData, request: &PurgeOutbox, bug: Option<Bug>) -> Result<u64> {
    check_batch_limit(request.limit)?;
    let is_old = |stored: &&StoredRow| {
        if !request.ids.is_empty() {
            let spares_claims = bug == Some(Bug::NamedRowPurgeSparesClaims);
            let is_spared = spares_claims && stored.row.status == OutboxStatus::Claimed;
            return request.ids.contains(&stored.row.id) && !is_spared;
        }
        let time = stored.row.finished_at;
        time.is_some_and(|time| {
            time < request.finished_before
                || (time == request.finished_before && bug == Some(Bug::RowPurgeIncludesItsTime))
        })
    };
    let mut rows: Vec<_> =
        tenant.outbox.iter().filter(is_old).map(|stored| (stored.row.finished_at, stored.row.id.clone())).collect();
    rows.sort();
    rows.truncate(request.limit as usize);
    if !request.dry_run {
        tenant.outbox.retain(|stored| !rows.iter().any(|(_, id)| *id == stored.row.id));
    }
    Ok(rows.len() as u64)
}

/// Writes the rows of a refused commit. Only the planted bug `RefusedRowsStay` does this.
pub(super) fn append_refused(tenant: &mut TenantData, commit: &Commit, env: &Environment<'_>) {
    if let Ok((rows, _)) = append(tenant, commit, env) {
        tenant.outbox = rows;
    }
}

#[async_trait]
impl OutboxStore for TenantHandle {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        let claimed = self.write(|tenant, env| claim(tenant, &request, &env));
        self.yield_if_bug(Bug::RowClaimKept).await;
        claimed
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        self.write(|tenant, env| extend(tenant, &request, &env))
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        self.write(|tenant, env| settle(tenant, requests, &env))
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        self.read(|view| Ok(load(view.tenant, id)))
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        self.read(|view| list(&view, &query))
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        self.read(|view| Ok(count(view.tenant, filter)))
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        self.write(|tenant, env| requeue(tenant, request, &env))
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        self.write(|tenant, env| purge(tenant, &request, env.bug))
    }
}
