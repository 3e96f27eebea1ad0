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

/// The stores of a tenant. In them, each thread of the test has a pending input and a claimed dispatch. The tested
/// commit to such a thread consumes its input and settles its claim.
struct SettlingCommits {
    stores: TenantStores,
}

fn dispatch_id(thread: &ThreadId) -> DispatchId {
    id(&format!("d {thread}"))
}

/// Returns a store of the tenant. Fails if the tenant does not have it.
macro_rules! require {
    ($target:ident.$part:ident) => {
        expect_some($target.stores.$part.as_ref(), stringify!($part))?
    };
}

#[async_trait]
impl DropPointTarget for SettlingCommits {
    type Prepared = Commit;

    async fn prepare(&self, _given: &Given, thread: &ThreadId) -> Result<Commit, Failure> {
        let input = NewInput::message(Message::user("question")).with_id(id("a"));
        let appended = require!(self.pending).append_pending(AppendPending::new(thread.clone(), [input])).await?;
        let mailbox = require!(self.mailbox);
        mailbox.enqueue(vec![new_dispatch(thread.as_str(), dispatch_id(thread).as_str())]).await?.remove(0)?;
        let claimed = mailbox.claim(claim_request().of_dispatch(dispatch_id(thread))).await?.claimed.pop();
        let claimed_dispatch = expect_some(claimed, "dispatch")?;
        Ok(Commit::new(thread.clone())
            .with_key(id("dropped"))
            .consuming(appended.inputs)
            .entry(message_entry("answer"))
            .with_events(AppendEvents::new([NewEvent::new(id("answered"), [Scope::Thread(thread.clone())])]))
            .with_outbox([NewOutboxRow::new(id(thread.as_str()), id("target"), json("1"))])
            .fenced(claimed_dispatch.fence())
            .settling(ack()))
    }

    fn calls<'a>(&'a self, _thread: &'a ThreadId, prepared: &'a Commit) -> Calls<'a> {
        let commits = self.stores.commits.iter();
        commits.map(|commits| ("commit", call(commits.commit(prepared.clone())))).collect()
    }

    async fn describe(&self, thread: &ThreadId) -> Result<String, Failure> {
        let record = expect_some(require!(self.threads).load_thread(thread).await?, "thread")?;
        let queue = require!(self.pending).load_queue(thread).await?;
        let events = require!(self.events).load_scope(&Scope::Thread(thread.clone())).await?.appended;
        let rows =
            require!(self.outbox).count_outbox(&OutboxFilter::default().of_lane(id(thread.as_str()))).await?.pending;
        let stored_dispatch =
            expect_some(require!(self.mailbox).load_dispatch(&dispatch_id(thread)).await?, "dispatch")?;
        let (entries, inputs) = (record.version.number(), queue.inputs.len());
        Ok(format!("{entries} entries, {inputs} inputs, {events} events, {rows} rows, {:?}", stored_dispatch.status))
    }

    async fn make_refused_calls(&self, thread: &ThreadId) {
        let (Some(mailbox), Some(pending)) = (&self.stores.mailbox, &self.stores.pending) else { return };
        let (wrong_claim, unknown_input): (_, EntryId) =
            (ClaimRef::new(dispatch_id(thread), ClaimToken::new("another")), id("unknown"));
        let _refused =
            tokio::join!(mailbox.settle(vec![(wrong_claim, ack())]), pending.retract_pending(thread, &unknown_input));
    }

    async fn check_nothing_locked(&self, thread: &ThreadId) -> Verdict {
        for written_thread in [thread, &id("another")] {
            drop(
                require!(self.commits)
                    .commit(keyed_commit_with_message(written_thread, &format!("next {thread}"), "x"))
                    .await?,
            );
        }
        let next = new_dispatch(thread.as_str(), &format!("next {thread}"));
        require!(self.mailbox).enqueue(vec![next]).await?.remove(0)?;
        Ok(())
    }
}

#[async_trait]
impl ResolveOutcome for SettlingCommits {
    async fn resolve_outcome(&self, call: &str, _thread: &ThreadId, prepared: &Commit) -> Result<Resolution, Failure> {
        if call != "commit" {
            return Err(missing_resolution(call));
        }
        Ok(Resolution::ByRepeat(require!(self.commits).commit(prepared.clone()).await?.deduplicated))
    }
}

/// If a commit that consumes input, settles its claim and writes to the outbox is dropped at any await, it has taken
/// effect in full or not at all.
pub(super) async fn a_dropped_settling_commit_is_all_or_nothing(given: &Given) -> Verdict {
    DropPointTest::new(SettlingCommits { stores: given.stores()? }).run(given, &["commit"]).await
}

/// If the answer to a commit that consumes input and settles its claim is lost, repeating the commit returns its
/// receipt. The commit takes effect once.
pub(super) async fn an_unknown_outcome_of_a_settling_commit_can_be_resolved(given: &Given) -> Verdict {
    check_unknown_outcomes(given, SettlingCommits { stores: given.stores()? }, &["commit"]).await
}
