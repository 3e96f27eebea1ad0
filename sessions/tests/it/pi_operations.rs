//! Tests of the operations and queues of version 4 of pi. Operations become runs, and queued messages become pending
//! input.

use sessions::{ImportOptions, import};
use store_core::{
    Boundary, Commit, CommitCoordinator, CommitKey, PendingBody, PendingInput, Run, RunFilter, RunOutcome, RunQuery,
    RunStatus, ThreadId, TokenCounts,
};
use tempfile::tempdir;

use crate::{
    helpers::{FailingCoordinator, entries, export_bytes, fixtures, format, import_one, new_store, write_file},
    pi_cases::{Imported, import_lines},
};

const HEADER: &str = r#"{"kind":"header","version":4,"id":"four","createdAt":1767607200000,"cwd":"/x"}"#;

/// The lines of a session. `add` gives each line its number.
#[derive(Clone)]
struct Lines(Vec<String>);

impl Lines {
    fn new() -> Self {
        Self(vec![HEADER.to_owned()])
    }

    fn add(mut self, kind: &str, fields: &str) -> Self {
        let seq = self.0.len();
        self.0
            .push(format!(r#"{{"kind":"{kind}","lane":"main",{fields},"seq":{seq},"timestamp":17676072000{seq:02}}}"#));
        self
    }

    fn record(self, name: &str, id: &str, fields: &str) -> Self {
        self.add("record", &format!(r#""type":"{name}","id":"{id}",{fields}"#))
    }

    fn user(self, id: &str, parent: &str) -> Self {
        let message = format!(r#"{{"role":"user","content":"text of {id}"}}"#);
        self.add("entry", &format!(r#""type":"message","id":"{id}","parentId":{parent},"message":{message}"#))
    }

    fn start_operation(self, id: &str) -> Self {
        let intent = r#""sourceLeafId":null,"intent":{"kind":"run","originalPrompt":[],"initialMessages":[]}"#;
        self.record("operation_started", id, intent)
    }

    fn finish_operation(self, run: &str, outcome: &str) -> Self {
        self.record("operation_finished", &format!("end-{run}"), &format!(r#""runId":"{run}",{outcome}"#))
    }

    fn queue_message(self, id: &str, fields: &str) -> Self {
        let message = format!(r#"{{"role":"user","content":"text of {id}"}}"#);
        let target = format!(r#""target":{{"type":"message","id":"{id}","message":{message}}}"#);
        self.record("queue_enqueued", &format!("queue-{id}"), &format!("{fields},{target}"))
    }

    fn text(&self, lines: usize) -> String {
        self.0[..lines].join("\n") + "\n"
    }
}

async fn import_session_lines(lines: Lines) -> Imported {
    import_lines(&lines.0, &ImportOptions::default()).await
}

async fn runs(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<Run> {
    let mut filter = RunFilter::default();
    filter.thread = Some(thread.clone());
    commits.threads().list_runs(RunQuery::new(filter)).await.unwrap().items
}

async fn queue(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<PendingInput> {
    commits.pending().load_queue(thread).await.unwrap().inputs
}

async fn queued_ids(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<String> {
    queue(commits, thread).await.iter().map(|input| input.id.as_str().to_owned()).collect()
}

fn outcome(run: &Run) -> String {
    let RunStatus::Done(completion) = &run.status else { return "open".to_owned() };
    match &completion.outcome {
        RunOutcome::NaturalEnd => "completed".to_owned(),
        RunOutcome::Cancelled => "aborted".to_owned(),
        RunOutcome::Blocked => "declined".to_owned(),
        RunOutcome::Failed { error } => format!("failed: {error}"),
        RunOutcome::Stopped { code, detail } => format!("{code}: {}", detail.as_deref().unwrap_or_default()),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn every_operation_is_a_run_with_its_outcome() {
    let lines = Lines::new().user("a", "null");
    let ends = [
        (r#""outcome":"completed""#, "completed"),
        (r#""outcome":"aborted""#, "aborted"),
        (r#""outcome":"declined""#, "declined"),
        (r#""outcome":"failed","error":{"code":"overloaded","message":"try later"}"#, "failed: try later"),
        (r#""outcome":"exploded""#, "exploded: "),
    ];
    let lines = ends.iter().enumerate().fold(lines, |lines, (at, (end, _))| {
        let id = format!("op{at}");
        lines.start_operation(&id).finish_operation(&id, end)
    });
    let imported = import_session_lines(lines.start_operation("op9")).await;
    assert_eq!(imported.report.issues, []);
    let runs = runs(&*imported.commits, &imported.thread).await;
    let mut expected: Vec<_> = ends.iter().map(|(_, outcome)| (*outcome).to_owned()).collect();
    expected.push("interrupted: ".to_owned());
    assert_eq!(runs.iter().map(outcome).collect::<Vec<_>>(), expected);
    let failed = &runs[3];
    assert_eq!((failed.id.as_str(), failed.agent.as_str()), ("four/op3", "pi"));
    let RunStatus::Done(completion) = &failed.status else { panic!() };
    assert_eq!(completion.error.as_ref().unwrap().as_str(), r#"{"code":"overloaded","message":"try later"}"#);
    assert!(failed.request.as_ref().unwrap().as_str().contains(r#""intent":{"kind":"run""#));
    // The runs do not change the time of the last activity of the thread.
    let thread = imported.commits.threads().load_thread(&imported.thread).await.unwrap().unwrap();
    assert_eq!(thread.updated_at, entries(&*imported.commits, &imported.thread).await.last().unwrap().timestamp);
}

#[tokio::test]
async fn a_run_counts_its_steps_and_tokens() {
    let step_attempt = |step: &str, attempt: u32| {
        format!(r#""runId":"op","step":"assistant","attempt":{attempt},"resultEntryId":"{step}""#)
    };
    let usage = r#""cause":"assistant","runId":"op","usage":{"input":5,"output":2,"cacheRead":1,"cacheWrite":0}"#;
    let lines = Lines::new().user("a", "null").start_operation("op");
    let lines = lines.record("step_attempt", "s1", &step_attempt("x", 1)).record("usage", "u1", usage);
    let lines = lines.record("step_attempt", "s2", &step_attempt("y", 2)).record("usage", "u2", usage);
    let imported = import_session_lines(lines.record("step_attempt", "s3", &step_attempt("z", 1))).await;
    assert_eq!(imported.report.issues, []);
    let runs = runs(&*imported.commits, &imported.thread).await;
    let mut tokens = TokenCounts::new(10, 4);
    tokens.cache_read = 2;
    assert_eq!((runs[0].steps, &runs[0].usage, runs.len()), (2, &tokens, 1));
}

#[tokio::test]
async fn queued_messages_are_pending_input_and_not_in_the_context() {
    let lines = Lines::new().user("a", "null").start_operation("op").start_operation("stopped");
    let lines = lines.queue_message("steer", r#""queue":"steer","runId":"op""#);
    let lines = lines.queue_message("follow", r#""queue":"followUp","runId":"op""#);
    let lines = lines.queue_message("used", r#""queue":"followUp","runId":"op""#);
    let lines = lines.queue_message("next", r#""queue":"nextRun""#);
    let lines =
        lines.queue_message("gone", r#""queue":"nextRun""#).record("queue_cancelled", "c", r#""entryId":"gone""#);
    let lines = lines.queue_message("dropped", r#""queue":"steer","runId":"stopped""#);
    let lines = lines.record("abort_requested", "abort", r#""runId":"stopped""#).user("used", "\"a\"");
    let imported = import_session_lines(lines).await;
    assert_eq!(imported.report.issues, []);
    assert_eq!(imported.context_entries().await, ["a", "used"]);
    let queue = queue(&*imported.commits, &imported.thread).await;
    let ids: Vec<_> = queue.iter().map(|input| (input.id.as_str(), input.delivery.boundary)).collect();
    let expected = [("steer", Boundary::NextStep), ("follow", Boundary::OnNaturalEnd), ("next", Boundary::NewRun)];
    assert_eq!(ids, expected);
    assert_eq!(queue[0].delivery.target.as_ref().unwrap().run.as_str(), "four/op");
    assert_eq!(queue[2].delivery.target, None);
    let PendingBody::Message(message) = &queue[0].body else { panic!() };
    assert_eq!(text_of(message), "text of steer");
    let runs = runs(&*imported.commits, &imported.thread).await;
    let outcomes: Vec<_> = runs.iter().map(outcome).collect();
    assert_eq!(outcomes, ["interrupted: ", "interrupted: it was asked to stop"]);
}

fn text_of(message: &store_core::Message) -> &str {
    match &message.blocks[0].kind {
        store_core::BlockKind::Text(text) => text,
        _ => "",
    }
}

#[tokio::test]
async fn a_queued_message_in_a_file_with_lanes_is_pending_and_the_file_is_exported_unchanged() {
    let commits = new_store();
    let path = fixtures().join("pi/v4-lanes.jsonl");
    let report = import_one(&*commits, &path).await;
    let thread = report.thread.unwrap();
    assert_eq!(queued_ids(&*commits, &thread).await, ["qm"]);
    assert_eq!(runs(&*commits, &thread).await.iter().map(outcome).collect::<Vec<_>>(), ["completed"]);
    let (bytes, exact) = export_bytes(&*commits, &thread, format("pi-v4")).await;
    assert!(exact && bytes == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn a_repeated_import_doubles_nothing_and_undoes_no_change() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let lines = Lines::new().user("a", "null").queue_message("q1", r#""queue":"nextRun""#);
    let lines = lines.queue_message("q2", r#""queue":"nextRun""#).queue_message("q3", r#""queue":"nextRun""#);
    let path = write_file(folder.path(), "four.jsonl", lines.text(5));
    let thread = import_one(&*commits, &path).await.thread.unwrap();
    let pending = commits.pending();
    let inputs = queue(&*commits, &thread).await;
    let _retracted = pending.retract_pending(&thread, &inputs[0].id).await.unwrap();
    let consumed =
        Commit::new(thread.clone()).with_key(CommitKey::new("consume").unwrap()).consuming([inputs[1].to_input_ref()]);
    let _receipt = commits.commit(consumed).await.unwrap();
    assert_eq!(import_one(&*commits, &path).await.added, 0);
    assert_eq!(queued_ids(&*commits, &thread).await, ["q3"]);
    let grown = lines.queue_message("q4", r#""queue":"nextRun""#);
    write_file(folder.path(), "four.jsonl", grown.text(6));
    assert_eq!(import_one(&*commits, &path).await.thread.as_ref(), Some(&thread));
    assert_eq!(queued_ids(&*commits, &thread).await, ["q3", "q4"]);
}

#[tokio::test]
async fn a_grown_session_ends_its_runs_and_consumes_its_queue() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let lines =
        Lines::new().user("a", "null").start_operation("op").queue_message("q", r#""queue":"steer","runId":"op""#);
    let lines = lines.user("q", "\"a\"").finish_operation("op", r#""outcome":"completed""#).user("b", "\"q\"");
    let mut thread = None;
    for (line_count, ids, outcomes) in [
        (4, vec!["q"], vec!["interrupted: "]),
        (5, vec![], vec!["interrupted: "]),
        (6, vec![], vec!["interrupted: ", "completed"]),
        (7, vec![], vec!["interrupted: ", "completed"]),
    ] {
        let path = write_file(folder.path(), "four.jsonl", lines.text(line_count));
        let report = import_one(&*commits, &path).await;
        assert!(report.issues.is_empty() && (thread.is_none() || thread == report.thread), "{:?}", report.issues);
        let id = report.thread.as_ref().unwrap();
        assert_eq!(queued_ids(&*commits, id).await, ids, "{line_count} lines");
        let runs = runs(&*commits, id).await;
        assert_eq!(runs.iter().map(outcome).collect::<Vec<_>>(), outcomes, "{line_count} lines");
        assert!(runs.get(1).is_none_or(|second| second.parent_run.as_ref() == Some(&runs[0].id)));
        let (bytes, exact) = export_bytes(&*commits, id, format("pi-v4")).await;
        assert!(exact && bytes == lines.text(line_count).as_bytes());
        thread = report.thread;
    }
}

#[tokio::test]
async fn an_import_that_was_killed_after_any_commit_can_be_continued() {
    let folder = tempdir().unwrap();
    let lines = Lines::new()
        .user("a", "null")
        .start_operation("op")
        .queue_message("q", r#""queue":"nextRun""#)
        .start_operation("op2");
    let path = write_file(folder.path(), "four.jsonl", lines.user("b", "\"a\"").text(6));
    for commits_before_kill in 0..8 {
        let commits = new_store();
        let failing = FailingCoordinator::after(&*commits, commits_before_kill);
        let result = import(&failing, &path, &ImportOptions::default()).await;
        let was_killed = result.is_err();
        assert!(was_killed || commits_before_kill > 3, "{commits_before_kill}");
        let thread = import_one(&*commits, &path).await.thread.unwrap();
        assert_eq!(queued_ids(&*commits, &thread).await, ["q"], "{commits_before_kill}");
        assert_eq!(runs(&*commits, &thread).await.len(), 2, "{commits_before_kill}");
        assert_eq!(entries(&*commits, &thread).await.len(), 6, "{commits_before_kill}");
    }
}

#[tokio::test]
async fn records_with_wrong_fields_are_reported_and_kept() {
    let lines = Lines::new().user("a", "null").start_operation("op").start_operation("op");
    let lines =
        lines.record("operation_started", "x", r#""intent":7"#).finish_operation("nobody", r#""outcome":"completed""#);
    let lines = lines.queue_message("a2", r#""queue":7"#).queue_message("a3", r#""queue":"side""#);
    let lines = lines.record("queue_enqueued", "y", r#""queue":"nextRun","target":"m""#);
    let lines = lines.record("queue_enqueued", "z", r#""queue":"nextRun","target":{"id":"t","type":"custom"}"#);
    let lines =
        lines.queue_message("a3", r#""queue":"nextRun""#).record("queue_cancelled", "w", r#""entryId":"nobody""#);
    let imported = import_session_lines(lines.queue_message("queue-a3", r#""queue":"nextRun""#)).await;
    let mut codes: Vec<_> = imported.report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
    codes.sort_unstable();
    let expected = [
        (Some(4), "bad_field"),
        (Some(4), "duplicate_id"),
        (Some(5), "bad_field"),
        (Some(6), "bad_field"),
        (Some(7), "bad_field"),
        (Some(8), "unknown_type"),
        (Some(9), "bad_field"),
        (Some(10), "bad_field"),
        (Some(11), "bad_field"),
        (Some(11), "duplicate_id"),
        (Some(12), "bad_field"),
        (Some(13), "bad_field"),
    ];
    assert_eq!(codes, expected);
    assert_eq!(queued_ids(&*imported.commits, &imported.thread).await, ["a3"]);
    assert_eq!(runs(&*imported.commits, &imported.thread).await.len(), 1);
}
