//! The steps of the demo.

use std::fs;

use agentstore::{
    CommitCoordinatorExt, ContextRequest, EntryId, Error, ErrorKind, Expect, Fork, Guard, IgnoreProgress, Message,
    NewEntry, Receipt, RewindTo, Thread, ThreadId,
};
use serde_json::json;
use sessions::{ExportOptions, ExportTarget, ImportOptions};

use super::{
    Demo,
    deliver::deliver_input,
    report::{DemoReport, StepResult, now},
    resume, session_file,
    turn::{ENTRIES_PER_TURN, Turn},
    work::interrupt_and_complete,
};
use crate::{
    command::{import, tree},
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
    text::{self, with_noun},
};

/// Runs all steps of the demo in their order.
pub(super) async fn run_all(demo: &Demo, report: &mut DemoReport<'_>) -> Result<()> {
    let mut session = demo.open(Access::Create).await?;
    let thread = import_session(demo, &session, report).await?;
    commit_turn(demo, &session, &thread, report).await?;
    deliver_input(demo, &session, &thread, report).await?;
    interrupt_and_complete(demo, &session, &thread, report).await?;
    if demo.urls.store.outlives_process() {
        session.close().await?;
        session = resume::crash_and_resume(demo, &thread, report).await?;
    } else {
        report.add_skipped_step(
            "crash",
            "a store in memory is lost when its process ends: run the demo on a `file:` store",
        )?;
        report.add_skipped_step("resume", "there is no store to open again")?;
    }
    fork(demo, &session, &thread, report).await?;
    rewind(&session, &thread, report).await?;
    verify(&session, report).await?;
    print_tree_and_context(&session, &thread, report.out()).await?;
    session.close().await
}

/// Imports a session of another tool, exports it, and checks that the bytes are the same.
async fn import_session(demo: &Demo, session: &Session, report: &mut DemoReport<'_>) -> Result<ThreadId> {
    let started_at = now();
    let file = demo.folder.join("units.jsonl");
    let text = session_file::generate();
    fs::write(&file, &text).map_err(|error| Failure::io("the session file cannot be written", error))?;
    let commits = session.commits()?;
    let import_reports =
        sessions::import(&*commits, &file, &ImportOptions::default()).await.map_err(import::to_failure)?;
    let [import_report] = import_reports.as_slice() else {
        return Err(Error::corrupt("the session file of the demo does not contain exactly one session").into());
    };
    let Some(thread) = import_report.thread.clone() else {
        return Err(Error::corrupt("the session of the demo was not imported").into());
    };
    let mut failed_checks = Vec::new();
    let mut exported = Vec::new();
    let is_new = import_report.added > 0;
    if is_new {
        let threads = session.threads()?;
        let options = ExportOptions::new("pi-v3".parse().map_err(import::to_failure)?);
        let target = ExportTarget::Stream(&mut exported);
        sessions::export(&*threads, &thread, &options, target).await.map_err(import::to_failure)?;
        check(&mut failed_checks, exported == text.as_bytes(), "the exported session differs from the imported file");
    }
    let proved = if is_new {
        "no line was lost: the export is the same file, byte for byte"
    } else {
        "an earlier demo had imported it: importing it again changed nothing"
    };
    let sizes = format!(
        "{} lines, {} entries, {}",
        import_report.lines,
        import_report.entries,
        with_noun(import_report.bytes, "byte")
    );
    let did = format!("imported a session file of the tool pi: {sizes}, as thread {thread}");
    let figures = json!({ "thread": thread, "lines": import_report.lines, "entries": import_report.entries,
        "added": import_report.added, "messages": import_report.messages, "bytes": import_report.bytes });
    report.add_step("import", started_at, StepResult { did, proved, failed_checks, figures })?;
    Ok(thread)
}

/// Commits a turn as one atomic step. Its key makes it safe to repeat, and its guard refuses a second writer.
async fn commit_turn(demo: &Demo, session: &Session, id: &ThreadId, report: &mut DemoReport<'_>) -> Result<()> {
    let started_at = now();
    let thread_before = session.require_thread(id).await?;
    let turn = Turn::new(id, &demo.id_prefix, 1);
    let commits = session.commits()?;
    let commit = turn.to_commit()?.expecting(Expect::Version(thread_before.version));
    let receipt = commits.commit(commit.clone()).await?;
    let second_receipt = commits.commit(commit).await?;
    let late_commit = Turn::new(id, &format!("{}-late", demo.id_prefix), 1)
        .to_commit()?
        .expecting(Expect::Version(thread_before.version));
    let refusal = commits.commit(late_commit).await.err().map(|error| error.kind());
    let thread_after = session.require_thread(id).await?;
    let run = session.threads()?.load_run(&turn.run_id()?).await?;
    let mut failed_checks = Vec::new();
    check(
        &mut failed_checks,
        thread_after.version == thread_before.version.plus(ENTRIES_PER_TURN),
        "the turn is incomplete",
    );
    check(
        &mut failed_checks,
        run.is_some_and(|run| run.finished_at.is_some()),
        "the run is missing or has not finished",
    );
    check(
        &mut failed_checks,
        thread_after.state_revision == thread_before.state_revision + 1,
        "the state was not updated",
    );
    check(
        &mut failed_checks,
        second_receipt.deduplicated && second_receipt.version == receipt.version,
        "the repeat was applied again",
    );
    check(
        &mut failed_checks,
        refusal == Some(ErrorKind::Conflict),
        "a commit that expected an old version was accepted",
    );
    let step_result = StepResult {
        did: format!("committed a turn: {ENTRIES_PER_TURN} entries, a run, state; now {}", receipt.version),
        proved: "a commit is one atomic step: a repeat with its key got the first receipt, and a commit that expected \
                 the old version was refused",
        failed_checks,
        figures: json!({ "version": receipt.version.number(), "deduplicated": second_receipt.deduplicated }),
    };
    report.add_step("commit", started_at, step_result)
}

/// Begins a new branch below an earlier entry.
async fn fork(demo: &Demo, session: &Session, id: &ThreadId, report: &mut DemoReport<'_>) -> Result<()> {
    let started_at = now();
    let thread_before = session.require_thread(id).await?;
    let question = first_entry_id(&Turn::new(id, &demo.id_prefix, 1))?;
    let answer = NewEntry::new(Message::assistant("Another answer, without reading the file."));
    let commits = session.commits()?;
    let receipt = commits.fork(Guard::from(&thread_before), Fork::below(question.clone()).entry(answer)).await?;
    let label_receipt = commits
        .label(Guard::from(&receipt), agentstore::Label::new(question, Some("where two answers begin".to_owned())))
        .await?;
    let threads = session.threads()?;
    let old_branch = thread_before.head.clone().map_or_else(ContextRequest::head, ContextRequest::at);
    let old_count = threads.load_context(id, old_branch).await?.context.messages.len();
    let new_count = threads.load_context(id, ContextRequest::head()).await?.context.messages.len();
    let thread_after = session.require_thread(id).await?;
    let mut failed_checks = Vec::new();
    check(&mut failed_checks, thread_after.leaves == thread_before.leaves + 1, "there is no new leaf");
    check(
        &mut failed_checks,
        thread_after.head == receipt.head && label_receipt.head == receipt.head,
        "the head is at another entry",
    );
    check(&mut failed_checks, old_count > 0 && new_count > 0 && old_count != new_count, "the branches do not differ");
    let step_result = StepResult {
        did: format!("forked below an earlier question: now {}", with_noun(u64::from(thread_after.leaves), "leaf")),
        proved: "both branches are in one log: the old branch is still there, and each has its own context",
        failed_checks,
        figures: json!({ "leaves": thread_after.leaves, "messages_of_old_branch": old_count,
            "messages_of_new_branch": new_count }),
    };
    report.add_step("fork", started_at, step_result)
}

/// Sets a checkpoint, appends an entry, and rewinds to the checkpoint.
async fn rewind(session: &Session, id: &ThreadId, report: &mut DemoReport<'_>) -> Result<()> {
    let started_at = now();
    let thread_before = session.require_thread(id).await?;
    let commits = session.commits()?;
    let checkpoint_receipt = commits
        .checkpoint(Guard::from(&thread_before), agentstore::NewCheckpoint::new().with_label("before the detour"))
        .await?;
    let detour = NewEntry::new(Message::user("Delete everything."));
    let detour_receipt = commits.commit(Guard::from(&checkpoint_receipt).commit().entry(detour)).await?;
    let rewind_receipt =
        commits.rewind(Guard::from(&detour_receipt), RewindTo::Label("before the detour".to_owned())).await?;
    let detour_entry = session.threads()?.load_entry(id, last_entry_id(&detour_receipt)?).await?;
    let mut failed_checks = Vec::new();
    check(&mut failed_checks, rewind_receipt.head == thread_before.head, "the head is at another entry");
    check(&mut failed_checks, detour_entry.is_some(), "an entry was deleted");
    let step_result = StepResult {
        did: "set a checkpoint, appended an entry, and rewound to the checkpoint".to_owned(),
        proved: "the head is where it was, and nothing was deleted: the appended entry stays readable as a branch",
        failed_checks,
        figures: json!({ "version": rewind_receipt.version.number() }),
    };
    report.add_step("rewind", started_at, step_result)
}

/// Reads and checks the whole store.
async fn verify(session: &Session, report: &mut DemoReport<'_>) -> Result<()> {
    let started_at = now();
    let Some(inspector) = session.stores().store().inspector() else {
        return report.add_skipped_step("verify", "the store cannot be verified");
    };
    let inspection = inspector.verify(&IgnoreProgress).await?;
    let failed_checks =
        inspection.findings.iter().map(|finding| format!("{}: {}", finding.place, finding.detail)).collect();
    let (threads, entries) = (with_noun(inspection.threads, "thread"), with_noun(inspection.entries, "entry"));
    let step_result = StepResult {
        did: format!("verified the store: {threads}, {entries}, {}", with_noun(inspection.runs, "run")),
        proved: "checksums, sequence numbers, parents, heads, runs, counters and token totals agree",
        failed_checks,
        figures: json!({ "threads": inspection.threads, "entries": inspection.entries, "runs": inspection.runs }),
    };
    report.add_step("verify", started_at, step_result)
}

/// Prints the tree and the end of the context, unless the output is JSON.
async fn print_tree_and_context(session: &Session, id: &ThreadId, out: &mut Output) -> Result<()> {
    const SHOWN_MESSAGES: usize = 4;
    if out.is_json() {
        return Ok(());
    }
    let Thread { head, .. } = session.require_thread(id).await?;
    out.print_line("\nthe tree, as `agentstore tree` draws it:\n")?;
    let draws_all = false;
    for line in tree::load_tree(session, id, None).await?.draw(head.as_ref(), draws_all, out).lines {
        out.print_line(line)?;
    }
    let context = session.threads()?.load_context(id, ContextRequest::head()).await?.context;
    let message_count = context.messages.len();
    out.print_line(format!(
        "\nthe last of {message_count} messages that a model would get, as `agentstore context` prints them:\n"
    ))?;
    for message in context.messages.iter().skip(message_count.saturating_sub(SHOWN_MESSAGES)) {
        let role = format!("{:<9}", message.message.role.name());
        let room = out.width().saturating_sub(role.len() + 1);
        out.print_line(format!(
            "{} {}",
            out.style(role).bold(),
            text::one_line(&text::message_text(&message.message), room)
        ))?;
    }
    Ok(())
}

/// Adds `failure_text` to `failed_checks` if the check does not hold.
pub(super) fn check(failed_checks: &mut Vec<String>, holds: bool, failure_text: &str) {
    if !holds {
        failed_checks.push(failure_text.to_owned());
    }
}

fn first_entry_id(turn: &Turn) -> Result<EntryId> {
    let run = turn.run_id()?;
    Ok(turn.entry_ids()?.into_iter().next().ok_or_else(|| Error::not_found("the first entry of run", &run))?)
}

fn last_entry_id(receipt: &Receipt) -> Result<&EntryId> {
    let no_entry = || Error::not_found("the last entry of a commit to thread", &receipt.thread);
    Ok(receipt.entry_ids.last().ok_or_else(no_entry)?)
}
