//! Making and writing decisions.
//!
//! A rule of `store-core` makes each decision, from the state of the thread as read from the log. One message records
//! what the decision changed. The server accepts that message only if the thread has not changed since. Otherwise the
//! decision is made again.
//!
//! The large parts of a dispatch, which are a large payload and a large result, are stored in messages of their own, in
//! the data stream. The message of the decision refers to them.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use store_core::{
    Claims, Dispatch, DispatchClaim, Enqueued, Error, ErrorKind, Interrupted, Json, Outcome, Reclaimed, Result,
    Settled, ThreadId, Timestamp, codec::Codec, commit::DecisionContext, length, mailbox::MailboxDecision,
};
use tokio::time::Instant;

use crate::{
    codec::{DataRef, DecisionMessage, LargeParts, TenantRecord},
    connection::{RETRY_DELAY, WriteResult},
    log::{Log, PendingDecision},
    server_names::{LogSubject, id_to_token},
    tenant::Tenant,
    view::{Mailbox, MailboxDraft, TenantState},
};

/// The length in bytes above which a payload or result is stored in a message of its own. Otherwise it would be written
/// again with each change of its dispatch.
const MAX_INLINE_BYTES: usize = 2_048;
/// When a message has reached about this size in bytes, further decisions go into another message.
const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// The answer of a decision.
pub(crate) trait Answer: Send + Sync {
    /// Returns the dispatch in the answer, if there is one. Its large parts are added before the caller gets the
    /// answer.
    fn dispatch_mut(&mut self) -> Option<&mut Dispatch> {
        None
    }

    /// Whether the answer is returned without the large parts of the dispatch if these cannot be read.
    const ALLOWS_MISSING_PARTS: bool = false;
}

impl Answer for Enqueued {}
impl Answer for DispatchClaim {}
impl Answer for Settled {}
impl Answer for Interrupted {}
impl Answer for Reclaimed {}
impl Answer for bool {}
/// A restored record.
impl Answer for () {}

impl Answer for Dispatch {
    fn dispatch_mut(&mut self) -> Option<&mut Dispatch> {
        Some(self)
    }
}

/// A cancelled dispatch. A dispatch whose large parts cannot be read can also be cancelled (MB-55).
pub(crate) struct CancelledDispatch(pub(crate) Dispatch);

impl Answer for CancelledDispatch {
    fn dispatch_mut(&mut self) -> Option<&mut Dispatch> {
        Some(&mut self.0)
    }

    const ALLOWS_MISSING_PARTS: bool = true;
}

/// A decision is about one thread, so it claims at most one dispatch.
impl Answer for Claims {
    fn dispatch_mut(&mut self) -> Option<&mut Dispatch> {
        self.claimed.first_mut().map(|claimed_dispatch| &mut claimed_dispatch.dispatch)
    }
}

impl LargeParts {
    /// Loads the large parts and adds them to their dispatch.
    pub(crate) async fn load_into(self, tenant: &Tenant, dispatch: &mut Dispatch) -> Result<()> {
        if let Some(data_ref) = self.payload.filter(|_| dispatch.payload.is_none()) {
            dispatch.payload = Some(load_large_part(tenant, data_ref).await?);
        }
        if let Some(data_ref) = self.result.filter(|_| dispatch.result.is_none()) {
            dispatch.result = Some(load_large_part(tenant, data_ref).await?);
        }
        Ok(())
    }
}

pub(crate) async fn load_large_part(tenant: &Tenant, data_ref: DataRef) -> Result<Json> {
    let connection = &tenant.log().connection;
    let damaged = || Error::corrupt(format!("message {} of the data stream", data_ref.sequence));
    let text = connection.load(&connection.names.data_stream(), data_ref.sequence).await?.ok_or_else(damaged)?;
    Json::read(&text).map_err(|e| damaged().with_source(e))
}

/// The large parts that a call has written. If the call makes a decision again, it does not write them a second time.
#[derive(Default)]
struct WrittenParts {
    parts: Vec<(Json, DataRef)>,
}

/// What a call gets when it tries to make decisions about its next items.
enum TryResult<T> {
    /// The answers for the next items.
    Answers(Vec<Result<T>>),
    /// No decision took effect, for example because another caller changed the thread first.
    Conflict,
}

/// What has to be done before decisions about items can be made, for example reserving ids.
pub(crate) trait Preparation<I>: Send + Sync {
    /// Prepares for decisions about these items. At least reads the log to its end.
    fn prepare<'a>(&'a self, tenant: &'a Tenant, items: &'a [I]) -> BoxFuture<'a, Result<()>>;

    /// Whether the preparation of an item is still valid at the position of the log at which the decision is made.
    fn is_still_valid(&self, tenant_state: Option<&TenantState>, item: &I, tenant: &Tenant) -> bool;
}

/// The preparation that only reads the log to its end.
pub(crate) struct CatchUpOnly;

impl<I: Sync> Preparation<I> for CatchUpOnly {
    fn prepare<'a>(&'a self, tenant: &'a Tenant, _: &'a [I]) -> BoxFuture<'a, Result<()>> {
        tenant.log().catch_up().boxed()
    }

    fn is_still_valid(&self, _: Option<&TenantState>, _: &I, _: &Tenant) -> bool {
        true
    }
}

/// A call that applies a rule to items about one thread, and writes the decisions. The rule makes one decision for each
/// item, in the order of the items.
pub(crate) struct DecisionCall<'a, I, R, P = CatchUpOnly> {
    pub(crate) tenant: &'a Tenant,
    /// `None` if the dispatches that the items name do not exist.
    pub(crate) thread: Option<&'a ThreadId>,
    pub(crate) items: &'a [I],
    pub(crate) rule: R,
    pub(crate) preparation: &'a P,
}

impl<I: Sync, R, P: Preparation<I>> DecisionCall<'_, I, R, P> {
    /// Makes the decisions. Each item has its own answer: an item that cannot be written does not affect the others.
    pub(crate) async fn decide<T: Answer>(&self) -> Vec<Result<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync,
    {
        let mut answers = Vec::with_capacity(self.items.len());
        let mut written_parts = WrittenParts::default();
        let lock = self.thread.map(|thread| self.tenant.decision_lock(thread));
        let _guard = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let started_at = Instant::now();
        while answers.len() < self.items.len() {
            let remaining = self.items.get(answers.len()..).unwrap_or_default();
            let result = match self.preparation.prepare(self.tenant, remaining).await {
                Ok(()) => self.try_decide(remaining, &mut written_parts).await,
                Err(error) => Err(error),
            };
            let error = match result {
                Ok(TryResult::Answers(new_answers)) => {
                    answers.extend(new_answers);
                    continue;
                }
                Ok(TryResult::Conflict) if started_at.elapsed() < self.tenant.shared.config.answer_timeout => continue,
                Ok(TryResult::Conflict) => Error::unavailable("other callers kept writing at the same time"),
                Err(error) => error,
            };
            for _ in 1..remaining.len() {
                answers.push(Err(Error::new(error.detail().clone())));
            }
            answers.push(Err(error));
        }
        answers
    }

    /// Tries once to make the decision about one item. Returns `None` if another caller changed the thread first.
    pub(crate) async fn decide_once<T: Answer>(&self) -> Result<Option<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync,
    {
        match self.try_decide(self.items, &mut WrittenParts::default()).await? {
            TryResult::Answers(answers) => answers.into_iter().next().transpose(),
            TryResult::Conflict => Ok(None),
        }
    }

    /// Tries to make the decisions about as many items as fit into one message, and to write the changes.
    async fn try_decide<T: Answer>(&self, items: &[I], written_parts: &mut WrittenParts) -> Result<TryResult<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync,
    {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let mut pending_decision = log.register_decision();
        let now = log.now()?;
        self.promote_due(now)?;
        let decided = {
            let view = log.view();
            let empty_mailbox = Mailbox::default();
            let tenant_state = tenant.tenant_state(&view)?;
            let mailbox = tenant_state.map_or(&empty_mailbox, |tenant_state| &tenant_state.mailbox);
            let config = &tenant.shared.config;
            let is_still_valid = |item: &&I| self.preparation.is_still_valid(tenant_state, item, tenant);
            let prepared_items: Vec<&I> = items.iter().take_while(is_still_valid).collect();
            if prepared_items.is_empty() {
                return Ok(TryResult::Conflict);
            }
            self.apply_rule(
                mailbox,
                &prepared_items,
                DecisionContext::new(now, &config.limits, &*config.ids),
                &pending_decision.name,
            )
            .map(|decided| (decided, tenant_state.map(|tenant_state| self.subject_and_last_message(tenant_state))))
        };
        let ((mut answers, parts, decision), subject_and_last_message) = decided?;
        let Some(decision) = decision else {
            self.load_large_parts(&mut answers, &parts).await?;
            return Ok(TryResult::Answers(answers));
        };
        let Some((log_subject, last)) = subject_and_last_message.flatten() else {
            create_tenant(tenant, 0).await?;
            return Ok(TryResult::Conflict);
        };
        let decision = write_large_parts(tenant, decision, written_parts, &log_subject).await?;
        self.load_large_parts(&mut answers, &parts).await?;
        match write_decision(log, &mut pending_decision, (&log_subject, last), decision).await? {
            true => Ok(TryResult::Answers(answers)),
            false => Ok(TryResult::Conflict),
        }
    }

    /// Makes the due dispatches of the thread available.
    fn promote_due(&self, now: Timestamp) -> Result<()> {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let incarnation = tenant.tenant_state(&log.view())?.map(|tenant_state| tenant_state.record.incarnation);
        if let (Some(incarnation), Some(thread)) = (incarnation, self.thread)
            && let Some(tenant_state) = log.view_mut().tenant_state_mut(&tenant.name, incarnation)
        {
            tenant_state.mailbox.records.promote_due_of(thread, now);
        }
        Ok(())
    }

    /// Returns the subject on which decisions about the thread are written, and the number of its last message.
    fn subject_and_last_message(&self, tenant_state: &TenantState) -> Option<(LogSubject, u64)> {
        let thread = self.thread?;
        let log_subject = LogSubject::Thread(self.tenant.name.clone(), tenant_state.record.incarnation, thread.clone());
        Some((log_subject, tenant_state.mailbox.last_message(thread)))
    }

    /// Applies the rule to as many items as fit into one message, and writes nothing. Returns the answers, the
    /// locations of the large parts of the dispatch in each answer, and the message to write, if there is a change.
    #[expect(clippy::type_complexity, reason = "it is destructured at once")]
    fn apply_rule<T: Answer>(
        &self,
        mailbox: &Mailbox,
        items: &[&I],
        decision_context: DecisionContext<'_>,
        decision_name: &str,
    ) -> Result<(Vec<Result<T>>, Vec<LargeParts>, Option<DecisionMessage>)>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    {
        let mut draft = MailboxDraft::new(mailbox);
        let (mut answers, mut parts) = (Vec::new(), Vec::new());
        for item in items {
            let mut answer = draft.change(|view| (self.rule)(view, item, decision_context));
            let answered_dispatch = answer.as_mut().ok().and_then(Answer::dispatch_mut);
            parts.push(answered_dispatch.map(|dispatch| mailbox.large_parts(&dispatch.id)).unwrap_or_default());
            answers.push(answer);
            if draft.message_bytes() > MAX_MESSAGE_BYTES {
                break;
            }
        }
        Ok((answers, parts, draft.into_message(decision_name)))
    }

    async fn load_large_parts<T: Answer>(&self, answers: &mut [Result<T>], parts: &[LargeParts]) -> Result<()>
    where
        R: Send + Sync,
    {
        for (answer, large_parts) in answers.iter_mut().zip(parts) {
            if let Some(dispatch) = answer.as_mut().ok().and_then(Answer::dispatch_mut) {
                match large_parts.load_into(self.tenant, dispatch).await {
                    Err(error) if T::ALLOWS_MISSING_PARTS && error.kind() == ErrorKind::Corrupt => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }
}

/// Writes the large parts of a decision in messages of their own. No reader sees them before the decision that refers
/// to them is written.
async fn write_large_parts(
    tenant: &Tenant,
    mut decision: DecisionMessage,
    written_parts: &mut WrittenParts,
    log_subject: &LogSubject,
) -> Result<DecisionMessage> {
    for record in &mut decision.dispatches {
        let stored = &mut record.stored;
        let payload = stored.body.payload.as_ref().filter(|payload| payload.as_str().len() > MAX_INLINE_BYTES);
        if let Some(payload) = payload {
            record.large_parts.payload = Some(write_large_part(tenant, payload, written_parts, log_subject).await?);
            Arc::make_mut(&mut stored.body).payload = None;
        }
        let result = stored.state.result.as_ref().filter(|result| result.as_str().len() > MAX_INLINE_BYTES);
        if let Some(result) = result {
            record.large_parts.result = Some(write_large_part(tenant, result, written_parts, log_subject).await?);
            stored.state.result = None;
        }
    }
    Ok(decision)
}

async fn write_large_part(
    tenant: &Tenant,
    json: &Json,
    written_parts: &mut WrittenParts,
    log_subject: &LogSubject,
) -> Result<DataRef> {
    if let Some((_, data_ref)) = written_parts.parts.iter().find(|(part, _)| part == json) {
        return Ok(*data_ref);
    }
    let LogSubject::Thread(name, incarnation, _) = log_subject else { return Err(Error::closed()) };
    let (connection, ids) = (&tenant.log().connection, &tenant.shared.config.ids);
    let started_at = Instant::now();
    loop {
        let subject = connection.names.data_subject(name, *incarnation, &id_to_token(&ids.next_id()));
        match connection.write(subject, json.as_str().to_owned()).await {
            Ok(sequence) => {
                let data_ref = DataRef { sequence, bytes: length(json.as_str().len()) };
                written_parts.parts.push((json.clone(), data_ref));
                return Ok(data_ref);
            }
            // It is unknown whether the part was written. A part to which no decision refers has no effect, so the part
            // can be written again.
            Err(error) if error.outcome() == Outcome::Unknown => {
                if started_at.elapsed() > tenant.shared.config.answer_timeout {
                    return Err(Error::unavailable("a large payload or result could not be written").with_source(error));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Creates the tenant if it does not exist, with an incarnation of at least `at_least`. Of several callers that try at
/// the same time, the first one creates it.
pub(crate) async fn create_tenant(tenant: &Tenant, at_least: u64) -> Result<()> {
    let log = tenant.log();
    let now = log.now()?;
    let (last, record) = {
        let view = log.view();
        if view.tenant(&tenant.name).is_some() {
            return Ok(());
        }
        let earlier_tenant = view.tenants.get(&tenant.name);
        // The incarnation is above that of any earlier mailbox, including those of an earlier store (MB-25).
        let next = earlier_tenant.map_or(0, |tenant| tenant.record.incarnation.saturating_add(1));
        let incarnation = now.as_millis().max(next).max(at_least);
        (earlier_tenant.map_or(0, |tenant| tenant.sequence), TenantRecord { incarnation, is_deleted: false })
    };
    match log.write(&LogSubject::Tenant(tenant.name.clone()), last, record.encode()).await {
        // If the outcome is unknown, the caller finds out in the log whether the tenant was created. A tenant that was
        // created and stays empty is not listed.
        Err(error) if error.outcome() != Outcome::Unknown => Err(error),
        _ => Ok(()),
    }
}

/// Writes a decision on a subject if the message with the given number is still the last one on that subject. Returns
/// whether the decision took effect. It did not if another message came first, or if the decision reached the log after
/// its deadline.
pub(crate) async fn write_decision(
    log: &Arc<Log>,
    pending_decision: &mut PendingDecision<'_>,
    expected_last: (&LogSubject, u64),
    decision: DecisionMessage,
) -> Result<bool> {
    let (log_subject, last) = expected_last;
    let error = match log.write_in_time(log_subject, last, decision.encode()).await {
        Ok(WriteResult::Conflict | WriteResult::Busy) => return Ok(false),
        Ok(WriteResult::Accepted(sequence)) => match pending_decision.wait(sequence).await {
            Some(took_effect) => return Ok(took_effect),
            None => Error::commit_unknown(None),
        },
        Err(error) if error.outcome() == Outcome::Unknown => error,
        Err(error) => return Err(error),
    };
    resolve_outcome(log, pending_decision, expected_last).await.ok_or(error)
}

/// Writes a message without changes about a thread, if the message with the number `last` is still the last one about
/// that thread. From then on, the server no longer accepts decisions about the thread that were made before.
pub(crate) async fn write_empty_message(log: &Log, log_subject: &LogSubject, last: u64) -> Result<WriteResult> {
    let pending_decision = log.register_decision();
    let decision = DecisionMessage { decision_name: pending_decision.name.clone(), ..DecisionMessage::default() };
    log.write(log_subject, last, decision.encode()).await
}

/// Finds out whether a decision whose answer was lost took effect. Returns `None` if that is not possible in time.
async fn resolve_outcome(
    log: &Arc<Log>,
    pending_decision: &mut PendingDecision<'_>,
    (log_subject, last): (&LogSubject, u64),
) -> Option<bool> {
    let started_at = Instant::now();
    while started_at.elapsed() < log.answer_timeout {
        if log.catch_up().await.is_ok()
            && let Some(took_effect) = pending_decision.took_effect()
        {
            return Some(took_effect);
        }
        // Once a later message on the subject exists, the decision can no longer be written. If a message is still
        // being replicated, it may be the decision itself, so the loop continues.
        if let Ok(WriteResult::Accepted(_) | WriteResult::Conflict) = write_empty_message(log, log_subject, last).await
            && let Ok(end) = log.write_marker().await
            && log.wait_until_read(end).await.is_ok()
        {
            // Now all messages up to the end of the log have been read, even if the leader changed in between. If the
            // decision is not among them, it never takes effect.
            return Some(pending_decision.took_effect().unwrap_or_default());
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
    None
}
