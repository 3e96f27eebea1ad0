//! Commits that settle their claim, and whose futures are dropped before they end. These commits also consume input,
//! append an event and write an outbox row.

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendPending, ClaimRef, ClaimToken, Commit, DispatchId, EntryId, Message, NewEvent, NewInput,
    NewOutboxRow, OutboxFilter, Scope, TenantStores, ThreadId,
};

use crate::{
    Failure, Given, Verdict,
    call::{Calls, call},
    check::expect_some,
    drop_points::{DropPointTarget, DropPointTest},
    given::{id, keyed_commit_with_message, message_entry},
    log::entry_drafts::json,
    mailbox::helpers::{ack, claim_request, new_dispatch},
    unknown_outcome::{Resolution, ResolveOutcome, check_unknown_outcomes, missing_resolution},
};

/// The stores of a tenant in which each thread of the test has a pending input and a claimed dispatch. The tested
/// commit to such a thread consumes its input and settles its claim.
struct SettlingCommits(TenantStores);

fn dispatch_id(t: &ThreadId) -> DispatchId {
    id(&format!("d {t}"))
}

/// Returns a store of the tenant. Fails if the tenant does not have it.
macro_rules! require {
    ($target:ident.$part:ident) => {
        expect_some($target.0.$part.as_ref(), stringify!($part))?
    };
}

#[async_trait]
impl DropPointTarget for SettlingCommits {
    type Prepared = Commit;

    async fn prepare(&self, _given: &Given, t: &ThreadId) -> Result<Commit, Failure> {
        let input = NewInput::message(Message::user("question")).with_id(id("a"));
        let appended = require!(self.pending).append_pending(AppendPending::new(t.clone(), [input])).await?;
        let mailbox = require!(self.mailbox);
        mailbox.enqueue(vec![new_dispatch(t.as_str(), dispatch_id(t).as_str())]).await?.remove(0)?;
        let claimed = mailbox.claim(claim_request().of_dispatch(dispatch_id(t))).await?.claimed.pop();
        let claimed_dispatch = expect_some(claimed, "dispatch")?;
        Ok(Commit::new(t.clone())
            .with_key(id("dropped"))
            .consuming(appended.inputs)
            .entry(message_entry("answer"))
            .with_events(AppendEvents::new([NewEvent::new(id("answered"), [Scope::Thread(t.clone())])]))
            .with_outbox([NewOutboxRow::new(id(t.as_str()), id("target"), json("1"))])
            .fenced(claimed_dispatch.fence())
            .settling(ack()))
    }

    fn calls<'a>(&'a self, _t: &'a ThreadId, prepared: &'a Commit) -> Calls<'a> {
        let commits = self.0.commits.iter();
        commits.map(|commits| ("commit", call(commits.commit(prepared.clone())))).collect()
    }

    async fn describe(&self, t: &ThreadId) -> Result<String, Failure> {
        let found = expect_some(require!(self.threads).load_thread(t).await?, "thread")?;
        let queue = require!(self.pending).load_queue(t).await?;
        let events = require!(self.events).load_scope(&Scope::Thread(t.clone())).await?.appended;
        let rows = require!(self.outbox).count_outbox(&OutboxFilter::default().of_lane(id(t.as_str()))).await?.pending;
        let stored_dispatch = expect_some(require!(self.mailbox).load_dispatch(&dispatch_id(t)).await?, "dispatch")?;
        let (entries, inputs) = (found.version.number(), queue.inputs.len());
        Ok(format!("{entries} entries, {inputs} inputs, {events} events, {rows} rows, {:?}", stored_dispatch.status))
    }

    async fn make_refused_calls(&self, t: &ThreadId) {
        let (Some(mailbox), Some(pending)) = (&self.0.mailbox, &self.0.pending) else { return };
        let (wrong_claim, unknown_input): (_, EntryId) =
            (ClaimRef::new(dispatch_id(t), ClaimToken::new("another")), id("unknown"));
        let _refused =
            tokio::join!(mailbox.settle(vec![(wrong_claim, ack())]), pending.retract_pending(t, &unknown_input));
    }

    async fn check_nothing_locked(&self, t: &ThreadId) -> Verdict {
        for thread in [t, &id("another")] {
            drop(require!(self.commits).commit(keyed_commit_with_message(thread, &format!("next {t}"), "x")).await?);
        }
        let next = new_dispatch(t.as_str(), &format!("next {t}"));
        require!(self.mailbox).enqueue(vec![next]).await?.remove(0)?;
        Ok(())
    }
}

#[async_trait]
impl ResolveOutcome for SettlingCommits {
    async fn resolve_outcome(&self, call: &str, _t: &ThreadId, prepared: &Commit) -> Result<Resolution, Failure> {
        if call != "commit" {
            return Err(missing_resolution(call));
        }
        Ok(Resolution::ByRepeat(require!(self.commits).commit(prepared.clone()).await?.deduplicated))
    }
}

/// A commit that consumes input, settles its claim and writes to the outbox may be dropped at any await. It then has
/// taken effect in full or not at all.
pub(super) async fn a_dropped_settling_commit_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(SettlingCommits(given.stores()?)).run(given, &["commit"]).await
}

/// If the answer to a commit that consumes input and settles its claim is lost, repeating the commit returns its
/// receipt. The commit takes effect once.
pub(super) async fn an_unknown_outcome_of_a_settling_commit_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, SettlingCommits(given.stores()?), &["commit"]).await
}
