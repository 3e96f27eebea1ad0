//! Tests of compactions: which messages are summarised, which stay, and what happens if the summary fails or the thread
//! changes (CX-15, CX-18, CX-20, CX-21, CX-22).

use std::sync::{Arc, Mutex};

use store_core::{
    AgentId, Block, BlockKind, CommitCoordinator, CommitCoordinatorExt, Compaction, ContextRequest, DeleteRequest,
    ErrorKind, Guard, Interval, Media, MediaSource, Message, NewBody, NewEntry, NewThread, RepairKind, RewindTo, Role,
    RunChange, RunId, RunOutcome, RunStatus, Thinking, ThreadContext, ThreadId, TokenCounts, Usage,
    context::COMPACTION_PROMPT,
};

use super::{call, commit, context_ids, id, memory, new_commit, result, thread};
use crate::{CompactionOutcome, CompactionPlan, Compactor, PlannedCompaction, SummaryError, estimate_tokens};

/// A compactor with a window of 10 tokens, none of which are reserved. It counts one token for each message.
fn compactor(commits: &Arc<dyn CommitCoordinator>) -> Compactor {
    Compactor::new(Arc::clone(commits), 10).with_reserved_tokens(0).with_token_counter(|_| 1)
}

/// Returns the ids of the entries of the messages to be summarised.
fn older_ids(planned: &PlannedCompaction) -> Vec<String> {
    planned.older().iter().map(|message| message.entry.to_string()).collect()
}

async fn plan(compactor: &Compactor) -> PlannedCompaction {
    match compactor.plan_now(&thread()).await.unwrap() {
        CompactionPlan::Ready(planned) => *planned,
        other => panic!("{other:?}"),
    }
}

async fn compact(compactor: &Compactor, summary: &str) -> CompactionOutcome {
    compactor.compact_now(&thread(), async |_| Ok::<_, SummaryError>(summary)).await.unwrap()
}

async fn load(commits: &dyn CommitCoordinator) -> ThreadContext {
    commits.threads().load_context(&thread(), ContextRequest::head()).await.unwrap()
}

/// Adds a user message and an assistant message.
async fn add_exchange(commits: &dyn CommitCoordinator, user: &str, assistant: &str) {
    commit(commits, vec![(user, Message::user(user)), (assistant, Message::assistant(assistant))]).await;
}

#[tokio::test]
async fn the_older_messages_are_replaced_by_their_summary() {
    let (_stores, commits) = memory().await;
    commit(&*commits, vec![("s", Message::new(Role::System, vec![Block::text("Be brief.")]))]).await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let before = load(&*commits).await;
    let outcome = compact(&compactor(&commits), "They counted to two.").await;
    let CompactionOutcome::Compacted(compacted) = outcome else { panic!("{outcome:?}") };
    assert_eq!((compacted.interval.from, compacted.interval.to, compacted.summarized), (id("1"), id("2"), 2));
    assert_eq!(compacted.receipt.entry_ids.len(), 1);
    let compaction = compacted.receipt.entry_ids[0].clone();
    assert_eq!(context_ids(&*commits).await, ["s", &format!("~{compaction}"), "3", "4"]);
    let after = load(&*commits).await;
    let BlockKind::Text(text) = &after.context.messages[1].message.blocks[1].kind else { panic!() };
    assert_eq!(text, "They counted to two.");
    // Nothing else changed: the context of the earlier head is the same.
    let at = ContextRequest::at(before.at.clone().unwrap());
    assert_eq!(commits.threads().load_context(&thread(), at).await.unwrap().context, before.context);
    assert_eq!(after.thread.version, before.thread.version.plus(1));
}

#[tokio::test]
async fn a_compaction_is_due_when_the_context_and_the_reserved_tokens_reach_the_window() {
    let (_stores, commits) = memory().await;
    for turn in 0..4 {
        add_exchange(&*commits, &format!("u{turn}"), &format!("a{turn}")).await;
    }
    let is_due_and_size = async |compactor: Compactor| match compactor.plan_if_due(&thread()).await.unwrap() {
        CompactionPlan::NotDue(tokens) => (false, tokens.size()),
        CompactionPlan::Ready(planned) => (true, planned.tokens().size()),
        other @ CompactionPlan::NothingToCompact(_) => panic!("{other:?}"),
    };
    assert_eq!(is_due_and_size(compactor(&commits)).await, (false, 8));
    assert_eq!(is_due_and_size(compactor(&commits).with_reserved_tokens(1)).await, (false, 8));
    assert_eq!(is_due_and_size(compactor(&commits).with_reserved_tokens(2)).await, (true, 8));
    assert_eq!(is_due_and_size(compactor(&commits).with_token_counter(|_| 2)).await, (true, 16));
    let outcome = compactor(&commits).compact_if_due(&thread(), async |_| Err::<String, _>("not asked for")).await;
    assert!(matches!(outcome, Ok(CompactionOutcome::NotDue(tokens)) if tokens.size() == 8));
    // A size that the provider reported also counts, but only until the next compaction.
    let reported = Message::assistant("a").with_usage(Usage::from(TokenCounts::new(9, 1)));
    commit(&*commits, vec![("reported", reported)]).await;
    assert_eq!(is_due_and_size(compactor(&commits)).await, (true, 10));
    assert!(matches!(compact(&compactor(&commits), "short").await, CompactionOutcome::Compacted(_)));
    assert_eq!(is_due_and_size(compactor(&commits)).await, (false, 3));
}

#[test]
fn tokens_are_estimated_from_the_text() {
    let tokens = |blocks| estimate_tokens(&Message::new(Role::User, blocks));
    assert_eq!(tokens(vec![]), 4);
    assert_eq!(tokens(vec![Block::text("abcde")]), 6);
    let image = Media::new(None, MediaSource::Base64("x".repeat(1_000_000)));
    assert_eq!(tokens(vec![Block::new(BlockKind::Image(image))]), 1_604);
    assert_eq!(estimate_tokens(&call("abcd")), 4 + 3);
    assert_eq!(estimate_tokens(&result("abcd", "12345678")), 4 + 3);
}

#[tokio::test]
async fn nothing_is_compacted_if_everything_stays() {
    let (_stores, commits) = memory().await;
    let nothing_to_compact = async |keep| {
        let compactor = compactor(&commits).with_kept_messages(keep);
        matches!(compact(&compactor, "s").await, CompactionOutcome::NothingToCompact(_))
    };
    commits.threads().create_thread(NewThread::new(thread())).await.unwrap();
    assert!(nothing_to_compact(2).await);
    add_exchange(&*commits, "1", "2").await;
    assert!(nothing_to_compact(2).await && nothing_to_compact(0).await && nothing_to_compact(9).await);
    add_exchange(&*commits, "3", "4").await;
    assert!(nothing_to_compact(0).await && !nothing_to_compact(2).await);
    // Now only a summary comes before the kept messages.
    assert!(nothing_to_compact(2).await);
    let unknown = ThreadId::new("unknown").unwrap();
    assert_eq!(compactor(&commits).plan_now(&unknown).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_failed_or_blank_summary_changes_nothing() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let before = load(&*commits).await;
    let failed = compactor(&commits).compact_now(&thread(), async |_| Err::<String, _>("no model")).await.unwrap();
    assert!(matches!(&failed, CompactionOutcome::Failed(error) if error.to_string() == "no model"), "{failed:?}");
    assert!(matches!(compact(&compactor(&commits), "").await, CompactionOutcome::EmptySummary));
    assert!(matches!(compact(&compactor(&commits), " \n\t").await, CompactionOutcome::EmptySummary));
    let thinking = Message::new(Role::Assistant, vec![Block::new(BlockKind::Thinking(Thinking::new("x")))]);
    let outcome_of_thinking =
        compactor(&commits).compact_now(&thread(), async |_| Ok::<_, SummaryError>(thinking)).await;
    assert!(matches!(outcome_of_thinking.unwrap(), CompactionOutcome::EmptySummary));
    assert_eq!(load(&*commits).await, before);
}

#[tokio::test]
async fn the_summary_is_asked_for_with_one_message() {
    let (_stores, commits) = memory().await;
    commit(&*commits, vec![("1", Message::user("Look.")), ("2", call("x")), ("3", result("x", "found"))]).await;
    add_exchange(&*commits, "4", "5").await;
    let planned = plan(&compactor(&commits)).await;
    let request = planned.request();
    let texts: Vec<_> = request
        .blocks
        .iter()
        .map(|block| match &block.kind {
            BlockKind::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts[..2], ["## user", "Look."]);
    assert_eq!((request.role, texts.last().copied()), (Role::User, Some(COMPACTION_PROMPT)));
    assert_eq!((older_ids(&planned).join(" "), planned.kept().len()), ("1 2 3".to_owned(), 2));
}

#[tokio::test]
async fn no_call_is_separated_from_its_result() {
    let (_stores, commits) = memory().await;
    // The result of `x` is in the log after two other messages, and the context shows it directly after its call.
    let entries = vec![
        ("1", Message::user("Begin.")),
        ("2", Message::assistant("Well.")),
        ("3", call("x")),
        ("4", Message::user("Meanwhile?")),
        ("5", Message::assistant("Yes.")),
        ("6", result("x", "late")),
        ("7", Message::user("And?")),
        ("8", Message::assistant("Done.")),
    ];
    commit(&*commits, entries).await;
    let older_ids_with_kept =
        async |keep| older_ids(&plan(&compactor(&commits).with_kept_messages(keep)).await).join(" ");
    assert_eq!(older_ids_with_kept(2).await, "1 2 3 6 4 5");
    // With four kept messages, the split would be between the call and the entry of its result.
    assert_eq!(older_ids_with_kept(4).await, "1 2");
    assert_eq!(older_ids_with_kept(3).await, "1 2");
    let outcome = compact(&compactor(&commits).with_kept_messages(4), "They began.").await;
    assert!(matches!(outcome, CompactionOutcome::Compacted(_)), "{outcome:?}");
    let after = load(&*commits).await.context;
    assert!(after.repairs.iter().all(|repair| repair.kind == RepairKind::ResultMoved), "{after:?}");
    assert_eq!(context_ids(&*commits).await[1..], ["3", "6", "4", "5", "7", "8"]);
}

#[tokio::test]
async fn a_call_stays_as_long_as_its_run_may_record_the_result() {
    let (_stores, commits) = memory().await;
    let run = RunId::new("r").unwrap();
    let entry_of_run = |name: &str, message| NewEntry::new(message).with_id(id(name)).with_run(run.clone(), None);
    let first_commit = new_commit()
        .with_run(RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("agent").unwrap()))
        .entries([
            NewEntry::new(Message::user("Go.")).with_id(id("1")),
            entry_of_run("2", Message::assistant("Well.")),
            entry_of_run("3", call("x")),
        ]);
    let _receipt = commits.commit(first_commit).await.unwrap();
    add_exchange(&*commits, "4", "5").await;
    add_exchange(&*commits, "6", "7").await;
    assert_eq!(older_ids(&plan(&compactor(&commits)).await), ["1", "2"]);
    let done = RunChange::new(run.clone(), RunStatus::done(RunOutcome::NaturalEnd));
    let _receipt = commits.commit(new_commit().with_run(done)).await.unwrap();
    // The run has ended, so the result can no longer be recorded. The call is summarised without a result.
    assert_eq!(older_ids(&plan(&compactor(&commits)).await), ["1", "2", "3", "3", "4", "5"]);
}

#[tokio::test]
async fn entries_added_meanwhile_do_not_prevent_the_summary() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let outcome = compactor(&commits)
        .compact_now(&thread(), async |_| {
            add_exchange(&*commits, "5", "6").await;
            Ok::<_, SummaryError>("They counted.")
        })
        .await
        .unwrap();
    assert!(matches!(&outcome, CompactionOutcome::Compacted(_)), "{outcome:?}");
    assert_eq!(context_ids(&*commits).await[1..], ["3", "4", "5", "6"]);
}

/// Compacts a thread, and calls `change` while the summary is made. The summary must be late, and the compactor must
/// not write to the thread.
async fn expect_late(entries: Vec<(&str, Message)>, change: impl AsyncFnOnce(&Arc<dyn CommitCoordinator>)) {
    let (_stores, commits) = memory().await;
    commit(&*commits, entries).await;
    let context_after_change = Mutex::new(None);
    let outcome = compactor(&commits)
        .compact_now(&thread(), async |_| {
            change(&commits).await;
            *context_after_change.lock().unwrap() = Some(load(&*commits).await);
            Ok::<_, SummaryError>("Too late.")
        })
        .await
        .unwrap();
    assert!(matches!(outcome, CompactionOutcome::ThreadChanged), "{outcome:?}");
    assert_eq!(Some(load(&*commits).await), context_after_change.into_inner().unwrap());
}

fn four_messages() -> Vec<(&'static str, Message)> {
    let message = |name: &'static str, role| (name, Message::new(role, vec![Block::text(name)]));
    vec![
        message("1", Role::User),
        message("2", Role::Assistant),
        message("3", Role::User),
        message("4", Role::Assistant),
    ]
}

async fn rewind(commits: &dyn CommitCoordinator, to: &str) {
    let thread = load(commits).await.thread;
    let _receipt = commits.rewind(Guard::from(&thread), RewindTo::Entry(id(to))).await.unwrap();
}

#[tokio::test]
async fn a_summary_that_no_longer_fits_its_thread_is_late() {
    expect_late(four_messages(), async |commits| rewind(&**commits, "1").await).await;
    // The summarised messages are still there, but too few messages follow them.
    expect_late(four_messages(), async |commits| rewind(&**commits, "2").await).await;
    expect_late(four_messages(), async |commits| rewind(&**commits, "3").await).await;
    // Another branch continues after the summarised messages.
    expect_late(four_messages(), async |commits| {
        rewind(&**commits, "2").await;
        add_exchange(&**commits, "5", "6").await;
    })
    .await;
    // Another process compacted the thread.
    expect_late(four_messages(), async |commits| {
        assert!(matches!(compact(&compactor(commits), "Faster.").await, CompactionOutcome::Compacted(_)));
    })
    .await;
    // The result of a summarised call was recorded.
    let mut entries = four_messages();
    entries[1].1 = call("x");
    expect_late(entries, async |commits| commit(&**commits, vec![("5", result("x", "ok"))]).await).await;
    // The thread was deleted, and another one has its id and the same messages.
    expect_late(four_messages(), async |commits| {
        commits.threads().delete_thread(&thread(), DeleteRequest::default()).await.unwrap();
        commits.threads().create_thread(NewThread::new(thread())).await.unwrap();
        commit(&**commits, four_messages()).await;
    })
    .await;
}

#[tokio::test]
async fn a_second_compaction_covers_the_first() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    assert!(matches!(compact(&compactor(&commits), "First.").await, CompactionOutcome::Compacted(_)));
    add_exchange(&*commits, "5", "6").await;
    let planned = plan(&compactor(&commits)).await;
    assert_eq!(older_ids(&planned)[1..], ["3", "4"]);
    assert!(planned.older()[0].synthetic, "the first summary is summarised");
    assert_eq!((&planned.interval().from, &planned.kept()[0].entry), (&id("1"), &id("5")));
    let outcome = compact(&compactor(&commits), "Second.").await;
    let CompactionOutcome::Compacted(second) = outcome else { panic!("{outcome:?}") };
    let compaction = &second.receipt.entry_ids[0];
    assert_eq!(context_ids(&*commits).await, [&format!("~{compaction}"), "5", "6"]);
}

#[tokio::test]
async fn the_messages_of_a_replacement_stay_together() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    let mut replacing_compaction = Compaction::default();
    replacing_compaction.covers = Some(Interval::new(id("1"), id("1")));
    replacing_compaction.replacement = Some(vec![Message::user("a"), Message::assistant("b"), Message::user("c")]);
    let entry = NewEntry::new(NewBody::from(replacing_compaction)).with_id(id("r"));
    let _receipt = commits.commit(new_commit().entry(entry)).await.unwrap();
    add_exchange(&*commits, "3", "4").await;
    // The split would be between the second and the third message of the replacement.
    let compactor = compactor(&commits).with_kept_messages(4);
    assert!(matches!(compact(&compactor, "s").await, CompactionOutcome::NothingToCompact(_)));
    assert_eq!(context_ids(&*commits).await, ["~r", "~r", "~r", "2", "3", "4"]);
    let planned = plan(&compactor.with_kept_messages(2)).await;
    assert_eq!(older_ids(&planned), ["r", "r", "r", "2"]);
}

/// Tests CM-10: a summary that is written twice appears once.
#[tokio::test]
async fn a_repeated_write_has_one_effect() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let (compactor, planned) = (compactor(&commits), plan(&compactor(&commits)).await);
    let first = compactor.write(&planned, "Counted.".into()).await.unwrap();
    let second = compactor.write(&planned, "Counted.".into()).await.unwrap();
    let (CompactionOutcome::Compacted(first), CompactionOutcome::Compacted(second)) = (first, second) else {
        panic!("both are written");
    };
    assert_eq!(first.receipt.entry_ids, second.receipt.entry_ids);
    assert!(second.receipt.deduplicated && !first.receipt.deduplicated);
    assert_eq!(context_ids(&*commits).await.len(), 3);
}

#[tokio::test]
async fn a_compaction_can_run_in_a_task_of_its_own() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let compactor = compactor(&commits);
    let task = tokio::spawn(async move {
        let summarize = async |_: Arc<PlannedCompaction>| {
            tokio::task::yield_now().await;
            Ok::<_, SummaryError>("Counted.")
        };
        compactor.compact_now(&thread(), summarize).await
    });
    assert!(matches!(task.await.unwrap().unwrap(), CompactionOutcome::Compacted(_)));
}

/// Tests CX-21: several tasks write to a thread and compact it at the same time. Each summary is written completely or
/// not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_compactions_leave_one_summary_at_the_beginning() {
    let (_stores, commits) = memory().await;
    add_exchange(&*commits, "1", "2").await;
    add_exchange(&*commits, "3", "4").await;
    let mut tasks = Vec::new();
    for task in 0..6 {
        let (commits, compactor) = (Arc::clone(&commits), compactor(&commits));
        tasks.push(tokio::spawn(async move {
            let mut written_count = 0;
            for round in 0..20 {
                add_exchange(&*commits, &format!("u{task}-{round}"), &format!("a{task}-{round}")).await;
                let summarize = async |_: Arc<PlannedCompaction>| {
                    tokio::task::yield_now().await;
                    Ok::<_, SummaryError>("Counted.")
                };
                match compactor.compact_now(&thread(), summarize).await {
                    Ok(CompactionOutcome::Compacted(_)) => written_count += 1,
                    Ok(CompactionOutcome::ThreadChanged | CompactionOutcome::NothingToCompact(_)) => {}
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    other => panic!("{other:?}"),
                }
            }
            written_count
        }));
    }
    let mut written_count = 0;
    for task in tasks {
        written_count += task.await.unwrap();
    }
    let found = load(&*commits).await;
    let summaries = found.context.messages.iter().filter(|message| message.synthetic).count();
    assert_eq!((summaries, found.context.messages[0].synthetic), (1, true));
    assert!(written_count > 0);
    assert_eq!(found.thread.version.number(), 4 + 6 * 20 * 2 + written_count);
}
