//! Deciding a write over the inner store and the deltas that it has not applied, and writing the decision.

use std::time::Duration;

use store_core::{
    Error, Outcome, Result, ThreadId, Timestamp,
    buffer::{DecideOverView, Delta, DeltaKeys, Overlay, OverlayView, StoreConstants, UnreadStore, tenant_key},
    commit::{CommitView, DecisionContext, NeededKeys},
};
use tokio::time::{Instant, sleep};

use super::{
    message::DeltaMessage,
    quarantine::Quarantined,
    stream::{OwnMessage, Published},
    tenant::BufferedTenant,
};

/// The longest delay before a write is decided again after another one came first.
const MAX_RETRY_MILLIS: u64 = 16;

/// The result of a rule.
pub(crate) enum Decided<T> {
    /// There is nothing to write. This is the answer.
    Answer(T),
    /// The delta to write, its keys, and the answer after it was written.
    Write(Delta, DeltaKeys, T),
    /// The rule cannot decide before the deltas up to this position are applied.
    AfterFlush(u64),
}

/// What an attempt to decide and to write came to.
enum Attempt<'a, T> {
    Done(T),
    /// Nothing was written and the node may not have read everything: the decision must be made again after that.
    /// Contains the result if it stands then.
    Unconfirmed(Result<T>),
    /// Another write came first.
    Again,
    /// A server has refused the message, as another one came first.
    Refused(Refused<'a, T>),
}

/// A message that a server has refused, and the answer to the call if it takes effect nevertheless.
struct Refused<'a, T> {
    message: OwnMessage<'a>,
    answer: T,
}

/// A write that a rule decides: the thread, and the records that the rule reads.
pub(crate) struct Write<'a> {
    pub(crate) tenant: &'a BufferedTenant,
    pub(crate) thread: &'a ThreadId,
    pub(crate) needed: NeededKeys,
    /// The position that the decision relies on at the latest, if it relies on more than the rule reads.
    pub(crate) as_of: Option<u64>,
}

impl Write<'_> {
    /// Decides and writes, again and again until a decision takes effect. A refusal is returned only after everything
    /// that was written before the call has been read.
    pub(crate) async fn decide<T: Send>(
        &self,
        rule: impl Fn(&Overlay, &OverlayView<'_>, DecisionContext<'_>) -> Result<Decided<T>> + Send + Sync,
    ) -> Result<T> {
        let lock = self.tenant.decision_lock(self.thread);
        let _deciding = lock.lock().await;
        let mut refused = Vec::new();
        match self.decide_repeatedly(&rule, &mut refused).await {
            Err(error) if error.outcome() == Outcome::NotApplied => match self.resolve(refused).await {
                Ok(answer) => answer.ok_or(error),
                Err(unknown) => Err(unknown.with_source(error)),
            },
            result => result,
        }
    }

    async fn decide_repeatedly<'a, T: Send>(
        &'a self,
        rule: &(impl Fn(&Overlay, &OverlayView<'_>, DecisionContext<'_>) -> Result<Decided<T>> + Send + Sync),
        refused: &mut Vec<Refused<'a, T>>,
    ) -> Result<T> {
        let (shared, started_at) = (&self.tenant.shared, Instant::now());
        let (mut is_caught_up, mut attempts) = (false, 0);
        loop {
            // It is large, and the task of the call is moved before it begins.
            match Box::pin(self.attempt(rule)).await? {
                Attempt::Done(answer) => return Ok(answer),
                Attempt::Unconfirmed(result) if is_caught_up => return result,
                Attempt::Unconfirmed(_) => {
                    shared.catch_up().await?;
                    is_caught_up = true;
                    continue;
                }
                Attempt::Again => {}
                Attempt::Refused(message) => refused.push(message),
            }
            if started_at.elapsed() > shared.stream.connection.answer_timeout {
                return Err(Error::unavailable("other callers kept writing at the same time"));
            }
            attempts += 1;
            let millis = rand_below(MAX_RETRY_MILLIS.min(1 << attempts.min(4)));
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Returns the answer of the message that takes effect although a server has refused it; none if none does.
    ///
    /// # Errors
    /// `CommitUnknown` if that is not known.
    async fn resolve<T>(&self, refused: Vec<Refused<'_, T>>) -> Result<Option<T>> {
        let (stream, name) = (&self.tenant.shared.stream, &self.tenant.name);
        let subject = stream.subject(name.as_str(), self.thread.as_str());
        for Refused { mut message, answer } in refused {
            match stream.resolve(&mut message, &subject).await {
                Some(true) => return Ok(Some(answer)),
                Some(false) => {}
                None => return Err(Error::commit_unknown(None)),
            }
        }
        Ok(None)
    }

    /// Decides once, for a caller that has read the stream to its end. Returns none if another write came first.
    pub(crate) async fn decide_once<T: Send>(
        &self,
        rule: impl Fn(&Overlay, &OverlayView<'_>, DecisionContext<'_>) -> Result<Decided<T>> + Send + Sync,
    ) -> Result<Option<T>> {
        match self.attempt(&rule).await? {
            Attempt::Done(answer) => Ok(Some(answer)),
            Attempt::Unconfirmed(result) => result.map(Some),
            Attempt::Again => Ok(None),
            Attempt::Refused(message) => self.resolve(vec![message]).await,
        }
    }

    async fn attempt<T: Send>(
        &self,
        rule: &(impl Fn(&Overlay, &OverlayView<'_>, DecisionContext<'_>) -> Result<Decided<T>> + Send + Sync),
    ) -> Result<Attempt<'_, T>> {
        let (shared, name) = (&self.tenant.shared, &self.tenant.name);
        shared.check_attached()?;
        shared.check_backlog()?;
        shared.learn_applied().await?;
        let applied_before = shared.stream.state().applied();
        let (mut as_of, mut revision, mut must_ask, mut decided) = (0, 0, false, None);
        let no_overlay = Overlay::default();
        let run_rule = &mut |stored: &dyn CommitView, context: DecisionContext<'_>| {
            let state = shared.stream.state();
            (as_of, revision) = (state.position(), state.quarantine().revision());
            must_ask = state.must_ask();
            let overlay = state.overlay(name).unwrap_or(&no_overlay);
            decided = Some(match overlay.tenant_deletion() {
                Some(deletion) => Ok(Decided::AfterFlush(deletion)),
                None => rule(overlay, &OverlayView::new(overlay, stored, self.thread), context),
            });
            Ok(())
        };
        let now = if self.is_whole() { Some(shared.inner.now().await?) } else { None };
        let was_read = !self.decide_unread(now, run_rule)?;
        if was_read {
            let mut read_rule = |stored: &dyn CommitView, context: DecisionContext<'_>| {
                shared.constants.get_or_init(|| StoreConstants::of(stored, context.limits));
                run_rule(stored, context)
            };
            shared.inner.decide(name, self.thread, &self.needed, &mut read_rule).await?;
        }
        if must_ask || (was_read && shared.stream.state().applied() != applied_before) {
            // The quarantine may have changed, or deltas left the overlay while the inner store was read.
            return Ok(Attempt::Again);
        }
        let unconfirmed = match decided {
            Some(Ok(Decided::Write(delta, keys, answer))) => {
                return self.write((as_of, revision), delta, keys, answer).await;
            }
            Some(Ok(Decided::AfterFlush(position))) => {
                shared.flush(position).await?;
                shared.check_not_quarantined(position)?;
                return Ok(Attempt::Again);
            }
            Some(Ok(Decided::Answer(answer))) => Ok(answer),
            Some(Err(error)) => Err(error),
            None => return Err(Error::corrupt("the inner store of the write buffer ran no rule")),
        };
        if !was_read {
            return Ok(Attempt::Unconfirmed(unconfirmed));
        }
        // The inner store may have shown a part of a delta that this node has not read. A delta that was decided from
        // it takes no effect; an answer must not be given from it.
        let shown = shared.inner.applied_position().await?.position;
        if shown > as_of {
            shared.stream.wait_until_read(shown).await?;
            return Ok(Attempt::Again);
        }
        Ok(Attempt::Unconfirmed(unconfirmed))
    }

    /// Returns whether the overlay has every record of the thread.
    fn is_whole(&self) -> bool {
        self.tenant
            .shared
            .stream
            .state()
            .overlay(&self.tenant.name)
            .is_some_and(|overlay| overlay.is_whole(self.thread))
    }

    /// Runs a rule over the overlay alone, if that has the whole thread. Returns whether that was enough: the inner
    /// store is then not read, and may be away (NB-6).
    fn decide_unread(&self, now: Option<Timestamp>, rule: &mut DecideOverView<'_>) -> Result<bool> {
        let (shared, name) = (&self.tenant.shared, &self.tenant.name);
        let Some((now, constants)) = now.zip(shared.constants.get()) else { return Ok(false) };
        let view = UnreadStore::new(name, constants);
        rule(&view, DecisionContext::new(now, &constants.limits, &*shared.config.servers.ids))?;
        Ok(!view.was_asked())
    }

    /// Writes a delta that was decided at a position and a revision of the quarantine.
    async fn write<T: Send>(
        &self,
        (as_of, revision): (u64, u64),
        delta: Delta,
        mut keys: DeltaKeys,
        answer: T,
    ) -> Result<Attempt<'_, T>> {
        let (shared, name) = (&self.tenant.shared, &self.tenant.name);
        keys.reads.insert(tenant_key());
        let (refusal, has_changed) = {
            let state = shared.stream.state();
            let quarantine = state.quarantine();
            let refusal = quarantine.relied_on(name, &keys).map(Quarantined::refusal);
            (refusal, quarantine.revision() != revision)
        };
        if has_changed {
            return Ok(Attempt::Again);
        }
        if let Some(refusal) = refusal {
            // It may have left the quarantine since.
            shared.ask_inner().await?;
            let is_same = shared.stream.state().quarantine().revision() == revision;
            return if is_same { Err(refusal) } else { Ok(Attempt::Again) };
        }
        let as_of = self.as_of.map_or(as_of, |position| position.min(as_of));
        let subject = shared.stream.subject(name.as_str(), self.thread.as_str());
        let (tenant, delta) = (name.clone(), Some(delta));
        let message = DeltaMessage { tenant, as_of, keys, delta, refreshes: false, detached: None };
        Ok(match shared.stream.publish(&subject, message).await? {
            Published::Effective => Attempt::Done(answer),
            Published::Ineffective => Attempt::Again,
            Published::Refused(message) => Attempt::Refused(Refused { message, answer }),
        })
    }
}

/// Returns a number below `limit` that differs from call to call and from node to node.
fn rand_below(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    // Without random bytes all wait equally long.
    let _result = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes) % limit.max(1)
}
