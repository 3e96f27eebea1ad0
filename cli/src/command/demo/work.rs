//! Background work: one dispatch is claimed and interrupted, another one is claimed and completed.

use std::time::Duration;

use agentstore::{
    ClaimRequest, ClaimedDispatch, Commit, CommitKey, DispatchId, DispatchStatus, Error, ErrorKind, Interrupt, Json,
    MailboxStore, Message, NewDispatch, NewEntry, NewOutboxRow, RunId, Settlement, ThreadId,
};
use serde_json::json;

use super::{
    Demo,
    report::{DemoReport, StepResult, now},
    steps::check,
};
use crate::{failure::Result, session::Session};

/// Claims a dispatch and interrupts the thread. After that, the holder of the claim can write nothing. A second
/// dispatch is settled by the commit that adds its answer and an outbox row. If the mailbox is in another store than
/// the threads, a call after the commit settles it.
pub(super) async fn interrupt_and_complete(
    demo: &Demo,
    session: &Session,
    id: &ThreadId,
    report: &mut DemoReport<'_>,
) -> Result<()> {
    let started_at = now();
    let (mailbox, commits) = (session.mailbox()?, session.commits()?);
    let prefixed = |what: &str| format!("{}-{what}", demo.id_prefix);
    let message_commit = |key: &str, text: &str| {
        let entry = NewEntry::new(Message::assistant(text));
        Ok::<_, Error>(Commit::new(id.clone()).with_key(CommitKey::new(prefixed(key))?).entry(entry))
    };
    let enqueue = async |what: &str| {
        let dispatch =
            NewDispatch::new(id.clone(), RunId::new(prefixed(what))?).with_id(DispatchId::new(prefixed(what))?);
        mailbox.enqueue(vec![dispatch]).await?.into_iter().try_for_each(|queued| queued.map(drop))
    };
    enqueue("first").await?;
    let first_claim = claim(&*mailbox, id).await?;
    let _interrupted = mailbox.interrupt(Interrupt::new(id.clone()).because("the user changed their mind")).await?;
    let settles_in_commit = session.stores().capabilities().fenced;
    let late_commit = message_commit("late", "This is not wanted any more.")?.fenced(first_claim.fence());
    let mut refusals = Vec::new();
    if settles_in_commit {
        refusals.push(commits.commit(late_commit.clone()).await.err());
    }
    refusals.push(settle(&*mailbox, &first_claim, None).await.err());
    enqueue("second").await?;
    let second_claim = claim(&*mailbox, id).await?;
    if !settles_in_commit {
        // The store of the threads does not know of the interrupt. It refuses commits with the earlier claim only after
        // a commit with the fence of the next claim.
        let _taken = commits.commit(Commit::new(id.clone()).fenced(second_claim.fence())).await?;
        refusals.push(commits.commit(late_commit).await.err());
    }
    let result = Some(Json::parse(r#"{"answers":1}"#)?);
    let row = NewOutboxRow::new("webhook".parse()?, "billing".parse()?, Json::parse(r#"{"answers":1}"#)?);
    let answer_commit = message_commit("done", "This is wanted.")?.with_outbox([row]).fenced(second_claim.fence());
    let receipt = if settles_in_commit {
        commits.commit(answer_commit.settling(Settlement::Ack { result: result.clone() })).await?
    } else {
        let receipt = commits.commit(answer_commit).await?;
        settle(&*mailbox, &second_claim, result.clone()).await?;
        receipt
    };
    let first = status_and_result(&*mailbox, &first_claim).await?;
    let second = status_and_result(&*mailbox, &second_claim).await?;
    let mut failed_checks = Vec::new();
    let is_stale = |error: &Option<Error>| error.as_ref().is_some_and(|error| error.kind() == ErrorKind::StaleEpoch);
    check(&mut failed_checks, refusals.iter().all(is_stale), "an interrupted worker could still write");
    let is_superseded = first == Some((DispatchStatus::Superseded, None));
    check(&mut failed_checks, is_superseded, "the interrupted dispatch is not superseded");
    let is_acked = second == Some((DispatchStatus::Acked, result));
    check(&mut failed_checks, is_acked, "the second dispatch is not acknowledged");
    let rows = receipt.outbox.len();
    check(&mut failed_checks, rows == 1, "the outbox row is missing");
    let (how_settled, proved) = if settles_in_commit {
        let proved = "after the interrupt the first worker could write nothing; one step wrote the entry and the \
                      outbox row, and acknowledged the dispatch";
        ("and acknowledged it in the commit of its answer", proved)
    } else {
        let proved = "the first worker could write nothing once the next one had taken over; one step wrote the entry \
                      and the outbox row";
        ("committed its answer, then acknowledged it in the other store", proved)
    };
    let step_result = StepResult {
        did: format!(
            "queued a dispatch, claimed it and interrupted it; queued and claimed a second one, {how_settled}"
        ),
        proved,
        failed_checks,
        figures: json!({ "refused": refusals.len(), "outbox_rows": rows }),
    };
    report.add_step("work", started_at, step_result)
}

async fn settle(
    mailbox: &dyn MailboxStore,
    dispatch: &ClaimedDispatch,
    result: Option<Json>,
) -> agentstore::Result<()> {
    let settled = mailbox.settle(vec![(dispatch.claim(), Settlement::Ack { result })]).await?;
    settled.into_iter().try_for_each(|settled| settled.map(drop))
}

async fn status_and_result(
    mailbox: &dyn MailboxStore,
    claimed: &ClaimedDispatch,
) -> Result<Option<(DispatchStatus, Option<Json>)>> {
    let found = mailbox.load_dispatch(&claimed.dispatch.id).await?;
    Ok(found.map(|dispatch| (dispatch.status, dispatch.result)))
}

async fn claim(mailbox: &dyn MailboxStore, id: &ThreadId) -> Result<ClaimedDispatch> {
    let request = ClaimRequest::new("demo".parse()?, Duration::from_secs(60)).of_thread(id.clone());
    let claimed = mailbox.claim(request).await?.claimed.pop();
    Ok(claimed.ok_or_else(|| Error::not_found("ready dispatch of thread", id))?)
}
