//! Making and writing decisions.
//!
//! A rule of core makes each decision, from the state of the thread as read from the log. One message records what the
//! decision changed. The server accepts that message only if the thread has not changed since. Otherwise the decision
//! is made again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use store_core::{
    Claims, Dispatch, DispatchClaim, Enqueued, Error, ErrorKind, Interrupted, Json, Outcome, Reclaimed, Result,
    Settled, ThreadId, Timestamp, codec::Codec, commit::DecisionContext, length, mailbox::MailboxChange,
};
use tokio::time::Instant;

use crate::{
    codec::{DataRef, DecisionMessage, LargeParts, TenantRecord},
    connection::{RETRY_DELAY, WriteResult},
    key::{Key, token},
    log::{Log, PendingDecision},
    tenant::Tenant,
    view::{Mailbox, MailboxDraft, TenantState},
};

/// The length in bytes above which a payload or result is stored in a message of its own. In the message of its
/// dispatch it would be written again with each change.
const MAX_INLINE_BYTES: usize = 2_048;
/// The approximate size in bytes from which on a message takes no further decisions.
const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// The answer of a decision.
pub(crate) trait Answer: Send + Sync {
    /// Returns the dispatch in the answer, whose payload may be stored elsewhere.
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        None
    }

    /// Whether the answer is returned even if large parts of the dispatch cannot be read. They are then missing.
    const IS_LENIENT: bool = false;
}

impl Answer for Enqueued {}
impl Answer for DispatchClaim {}
impl Answer for Settled {}
impl Answer for Interrupted {}
impl Answer for Reclaimed {}
impl Answer for bool {}

impl Answer for Dispatch {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        Some(self)
    }
}

/// A cancelled dispatch. An unreadable dispatch can be cancelled, too (MB-55).
pub(crate) struct Cancelled(pub(crate) Dispatch);

impl Answer for Cancelled {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        Some(&mut self.0)
    }

    const IS_LENIENT: bool = true;
}

/// The claims of one thread.
impl Answer for Claims {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        self.claimed.first_mut().map(|claimed| &mut claimed.dispatch)
    }
}

impl LargeParts {
    /// Loads the large parts of a dispatch.
    pub(crate) async fn load_into(self, tenant: &Tenant, dispatch: &mut Dispatch) -> Result<()> {
        if let Some(data_ref) = self.payload.filter(|_| dispatch.payload.is_none()) {
            dispatch.payload = Some(load(tenant, data_ref).await?);
        }
        if let Some(data_ref) = self.result.filter(|_| dispatch.result.is_none()) {
            dispatch.result = Some(load(tenant, data_ref).await?);
        }
        Ok(())
    }
}

async fn load(tenant: &Tenant, data_ref: DataRef) -> Result<Json> {
    let connection = &tenant.log().connection;
    let damaged = || Error::corrupt(format!("message {} of the data stream", data_ref.sequence));
    let text = connection.load(&connection.keys.data_stream(), data_ref.sequence).await?.ok_or_else(damaged)?;
    Json::read(&text).map_err(|e| damaged().with_source(e))
}

/// The large parts that were written for a call. A decision that is made again does not write them again.
#[derive(Default)]
struct WrittenParts(Vec<(Json, DataRef)>);

/// The result of one attempt of a call.
enum StepResult<T> {
    /// The answers for the next items.
    Answers(Vec<Result<T>>),
    /// No decision took effect, for example because another caller changed the thread first.
    Conflict,
}

/// What has to be done before decisions about items can be made.
pub(crate) trait Prepare<I>: Send + Sync {
    /// Runs before each attempt. It at least reads the log to its end.
    fn before_attempt<'a>(&'a self, tenant: &'a Tenant, items: &'a [I]) -> BoxFuture<'a, Result<()>>;

    /// Whether the preparation still holds at the position of the log at which the decision is made.
    fn is_still_valid(&self, tenant_state: Option<&TenantState>, item: &I, tenant: &Tenant) -> bool;
}

/// The preparation that only reads the log to its end.
pub(crate) struct CatchUp;

impl<I: Sync> Prepare<I> for CatchUp {
    fn before_attempt<'a>(&'a self, tenant: &'a Tenant, _: &'a [I]) -> BoxFuture<'a, Result<()>> {
        tenant.log().catch_up().boxed()
    }

    fn is_still_valid(&self, _: Option<&TenantState>, _: &I, _: &Tenant) -> bool {
        true
    }
}

/// A call: decisions about one thread, one for each item, in the order of the items.
pub(crate) struct Call<'a, I, R, P = CatchUp> {
    pub(crate) tenant: &'a Tenant,
    /// `None` if the dispatches that the items name do not exist.
    pub(crate) thread: Option<&'a ThreadId>,
    pub(crate) items: &'a [I],
    pub(crate) rule: R,
    pub(crate) prepare: &'a P,
}

impl<I: Sync, R, P: Prepare<I>> Call<'_, I, R, P> {
    /// Makes the decisions. Each item has its own answer: an item that cannot be written does not affect the others.
    pub(crate) async fn decide<T: Answer>(&self) -> Vec<Result<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        let mut answers = Vec::with_capacity(self.items.len());
        let mut large_parts = WrittenParts::default();
        let lock = self.thread.map(|thread| self.tenant.decision_lock(thread));
        let _alone = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let begun = Instant::now();
        while answers.len() < self.items.len() {
            let rest = self.items.get(answers.len()..).unwrap_or_default();
            let step = match self.prepare.before_attempt(self.tenant, rest).await {
                Ok(()) => self.step(rest, &mut large_parts).await,
                Err(error) => Err(error),
            };
            let failed = match step {
                Ok(StepResult::Answers(some)) => {
                    answers.extend(some);
                    continue;
                }
                Ok(StepResult::Conflict) if begun.elapsed() < self.tenant.common.config.deadline => continue,
                Ok(StepResult::Conflict) => Error::unavailable("other callers kept writing at the same time"),
                Err(error) => error,
            };
            for _ in 1..rest.len() {
                answers.push(Err(Error::new(failed.detail().clone())));
            }
            answers.push(Err(failed));
        }
        answers
    }

    /// Makes the decision about one item, without a second attempt. Returns `None` if another caller changed the thread
    /// first.
    pub(crate) async fn decide_once<T: Answer>(&self) -> Result<Option<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        match self.step(self.items, &mut WrittenParts::default()).await? {
            StepResult::Answers(answers) => answers.into_iter().next().transpose(),
            StepResult::Conflict => Ok(None),
        }
    }

    /// Makes the decisions about as many items as fit into one message, and writes the changes.
    async fn step<T: Answer>(&self, items: &[I], large_parts: &mut WrittenParts) -> Result<StepResult<T>>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let mut pending = log.register_decision();
        let now = log.now()?;
        self.promote_due(now)?;
        let decided = {
            let view = log.view();
            let nothing = Mailbox::default();
            let tenant_state = tenant.tenant_state(&view)?;
            let mailbox = tenant_state.map_or(&nothing, |tenant_state| &tenant_state.mailbox);
            let config = &tenant.common.config;
            let is_still_valid = |item: &&I| self.prepare.is_still_valid(tenant_state, item, tenant);
            let ready: Vec<&I> = items.iter().take_while(is_still_valid).collect();
            if ready.is_empty() {
                return Ok(StepResult::Conflict);
            }
            self.apply_rule(mailbox, &ready, DecisionContext::new(now, &config.limits, &*config.ids), &pending.name)
                .map(|decided| (decided, tenant_state.map(|tenant_state| self.key_and_last_message(tenant_state))))
        };
        let ((mut answers, parts, decision), key_and_last_message) = decided?;
        let Some(decision) = decision else {
            self.load_large_parts(&mut answers, &parts).await?;
            return Ok(StepResult::Answers(answers));
        };
        let Some((key, last)) = key_and_last_message.flatten() else {
            create_tenant(tenant).await?;
            return Ok(StepResult::Conflict);
        };
        let decision = write_large_parts(tenant, decision, large_parts, &key).await?;
        self.load_large_parts(&mut answers, &parts).await?;
        match write_decision(log, &mut pending, (&key, last), decision).await? {
            true => Ok(StepResult::Answers(answers)),
            false => Ok(StepResult::Conflict),
        }
    }

    /// Makes the due dispatches of the thread available.
    fn promote_due(&self, now: Timestamp) -> Result<()> {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let incarnation = tenant.tenant_state(&log.view())?.map(|tenant_state| tenant_state.record.incarnation);
        if let (Some(incarnation), Some(thread)) = (incarnation, self.thread)
            && let Some(tenant_state) = log.view_mut().tenant_state_mut(&tenant.name, incarnation)
        {
            tenant_state.mailbox.map.promote_due_of(thread, now);
        }
        Ok(())
    }

    /// Returns the key under which decisions about the thread are written, and its last message.
    fn key_and_last_message(&self, tenant_state: &TenantState) -> Option<(Key, u64)> {
        let thread = self.thread?;
        let key = Key::Thread(self.tenant.name.clone(), tenant_state.record.incarnation, thread.clone());
        Some((key, tenant_state.mailbox.last_message(thread)))
    }

    #[expect(clippy::type_complexity, reason = "it is destructured at once")]
    fn apply_rule<T: Answer>(
        &self,
        mailbox: &Mailbox,
        items: &[&I],
        setting: DecisionContext<'_>,
        decision_name: &str,
    ) -> Result<(Vec<Result<T>>, Vec<LargeParts>, Option<DecisionMessage>)>
    where
        R: Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxChange<T>>,
    {
        let mut draft = MailboxDraft::new(mailbox);
        let (mut answers, mut parts) = (Vec::new(), Vec::new());
        for item in items {
            let mut answer = draft.change(|view| (self.rule)(view, item, setting));
            let shown = answer.as_mut().ok().and_then(Answer::dispatch);
            parts.push(shown.map(|dispatch| mailbox.large_parts(&dispatch.id)).unwrap_or_default());
            answers.push(answer);
            if draft.bytes() > MAX_MESSAGE_BYTES {
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
            if let Some(dispatch) = answer.as_mut().ok().and_then(Answer::dispatch) {
                match large_parts.load_into(self.tenant, dispatch).await {
                    Err(error) if T::IS_LENIENT && error.kind() == ErrorKind::Corrupt => {}
                    filled => filled?,
                }
            }
        }
        Ok(())
    }
}

/// Writes the large parts of a decision in messages of their own. No reader sees them before the decision, which refers
/// to them, is written.
async fn write_large_parts(
    tenant: &Tenant,
    mut decision: DecisionMessage,
    large_parts: &mut WrittenParts,
    key: &Key,
) -> Result<DecisionMessage> {
    for row in &mut decision.rows {
        let stored = &mut row.stored;
        let payload = stored.body.payload.as_ref().filter(|payload| payload.as_str().len() > MAX_INLINE_BYTES);
        if let Some(payload) = payload {
            row.large_parts.payload = Some(write_large_part(tenant, payload, large_parts, key).await?);
            Arc::make_mut(&mut stored.body).payload = None;
        }
        let result = stored.state.result.as_ref().filter(|result| result.as_str().len() > MAX_INLINE_BYTES);
        if let Some(result) = result {
            row.large_parts.result = Some(write_large_part(tenant, result, large_parts, key).await?);
            stored.state.result = None;
        }
    }
    Ok(decision)
}

async fn write_large_part(tenant: &Tenant, json: &Json, large_parts: &mut WrittenParts, key: &Key) -> Result<DataRef> {
    if let Some((_, data_ref)) = large_parts.0.iter().find(|(written, _)| written == json) {
        return Ok(*data_ref);
    }
    let Key::Thread(name, incarnation, _) = key else { return Err(Error::closed()) };
    let (connection, ids) = (&tenant.log().connection, &tenant.common.config.ids);
    let begun = Instant::now();
    loop {
        let subject = connection.keys.data_subject(name, *incarnation, &token(&ids.next_id()));
        match connection.write(subject, json.as_str().to_owned()).await {
            Ok(sequence) => {
                let data_ref = DataRef { sequence, bytes: length(json.as_str().len()) };
                large_parts.0.push((json.clone(), data_ref));
                return Ok(data_ref);
            }
            // It is unknown whether the part was written. Without a decision that refers to it, it has no effect, so it
            // is written again.
            Err(error) if error.outcome() == Outcome::Unknown => {
                if begun.elapsed() > tenant.common.config.deadline {
                    return Err(Error::unavailable("a payload could not be written").with_source(error));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Creates the tenant if it does not exist. Of several callers that try at the same time, the first one creates it.
pub(crate) async fn create_tenant(tenant: &Tenant) -> Result<()> {
    let log = tenant.log();
    let now = log.now()?;
    let (last, record) = {
        let view = log.view();
        if view.tenant(&tenant.name).is_some() {
            return Ok(());
        }
        let before = view.tenants.get(&tenant.name);
        // The incarnation is above that of any earlier mailbox, including those of an earlier store (MB-25).
        let next = before.map_or(0, |before| before.record.incarnation.saturating_add(1));
        let incarnation = now.as_millis().max(next);
        (before.map_or(0, |before| before.sequence), TenantRecord { incarnation, is_deleted: false })
    };
    match log.write(&Key::Tenant(tenant.name.clone()), last, record.encode()).await {
        // The log shows whether the tenant was created. If it was, an empty tenant remains, which is not listed.
        Err(error) if error.outcome() != Outcome::Unknown => Err(error),
        _ => Ok(()),
    }
}

/// Writes a decision if `last` is still the last message about the thread. Returns whether the decision took effect. It
/// did not if another message came first or if it reached the log after its deadline.
pub(crate) async fn write_decision(
    log: &Arc<Log>,
    pending: &mut PendingDecision<'_>,
    at: (&Key, u64),
    decision: DecisionMessage,
) -> Result<bool> {
    let (key, last) = at;
    let unknown = match log.write_in_time(key, last, decision.encode()).await {
        Ok(WriteResult::Conflict | WriteResult::Busy) => return Ok(false),
        Ok(WriteResult::Accepted(sequence)) => match pending.wait(sequence).await {
            Some(took_effect) => return Ok(took_effect),
            None => Error::commit_unknown(None),
        },
        Err(error) if error.outcome() == Outcome::Unknown => error,
        Err(error) => return Err(error),
    };
    resolve_outcome(log, pending, at).await.ok_or(unknown)
}

/// Writes a message without changes about a thread, if `last` is still its last message. After that, the server no
/// longer accepts a decision that was made before.
pub(crate) async fn write_empty_message(log: &Log, key: &Key, last: u64) -> Result<WriteResult> {
    let pending = log.register_decision();
    let decision = DecisionMessage { decision_name: pending.name.clone(), ..DecisionMessage::default() };
    log.write(key, last, decision.encode()).await
}

/// Finds out what became of a decision whose answer was lost. Returns `None` if that is not possible in time.
async fn resolve_outcome(log: &Arc<Log>, pending: &mut PendingDecision<'_>, (key, last): (&Key, u64)) -> Option<bool> {
    let begun = Instant::now();
    while begun.elapsed() < log.deadline {
        if log.catch_up().await.is_ok()
            && let Some(took_effect) = pending.took_effect()
        {
            return Some(took_effect);
        }
        // After a later message on the subject the decision can no longer be written. A message that is still being
        // replicated may be the decision itself.
        if let Ok(WriteResult::Accepted(_) | WriteResult::Conflict) = write_empty_message(log, key, last).await
            && let Ok(end) = log.touch().await
            && log.wait_until_read(end).await.is_ok()
        {
            // By now all messages up to the end of the log were read, whichever leader reported the end.
            return Some(pending.took_effect().unwrap_or_default());
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
    None
}
