//! Tests of kimi-cli sessions with random histories. They are imported at random steps. The context must be what
//! kimi-cli would send.

use std::{fs, path::Path};

use serde_json::{Value, json};
use sessions::{ImportOptions, ImportReport, IssueCode, import};
use store_core::{Body, CommitCoordinator, ContextRequest, Message, ThreadId};
use tempfile::tempdir;

use crate::{
    helpers::{custom_kind, entries, new_store},
    kimi_exports::{append, check_exact, entry, export_session, import_copy_without_issues, kinds},
};

/// The messages that a model receives, each as its role and its blocks.
pub(crate) async fn context_json(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Value {
    let context = commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context;
    let messages = context.messages.iter().map(|found| {
        let message = serde_json::to_value(&found.message).unwrap();
        json!([message["role"], message["blocks"]])
    });
    messages.collect()
}

/// What kimi-cli sends for a context file in which all messages are text. The result contains kimi-cli's own marker of
/// a compaction, which `with_our_marker` replaces by ours.
fn expected_context(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages =
        lines.filter(|line| ["user", "assistant", "_system_prompt"].contains(&line["role"].as_str().unwrap()));
    let message = |line: Value| {
        let role = line["role"].as_str().unwrap().replace("_system_prompt", "system");
        let parts = match &line["content"] {
            Value::String(text) => json!([{"text": text}]),
            parts => parts.as_array().unwrap().iter().map(|part| json!({"text": part["text"]})).collect(),
        };
        json!([role, parts])
    };
    messages.map(message).collect()
}

fn with_our_marker(context: &Value) -> String {
    let ours = "[summary of the earlier conversation]";
    let theirs = "<system>Previous context has been compacted. Here is the compaction output:</system>";
    context.to_string().replace(theirs, ours)
}

/// Writes to a session as kimi-cli does.
struct SessionSimulator<'a> {
    folder: &'a Path,
    rotations: u32,
    next_checkpoint: u64,
    message_count: u64,
    random_state: u64,
}

impl SessionSimulator<'_> {
    fn random(&mut self, below: u64) -> u64 {
        self.random_state =
            self.random_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random_state >> 33) % below
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("context.jsonl")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn append(&self, line: &str) {
        let mut lines = self.lines();
        lines.push(line.to_owned());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.folder.join("context.jsonl"), text).unwrap();
    }

    fn message(&mut self, role: &str) {
        // Some texts are repeated, so that equal lines are frequent.
        self.message_count += 1;
        let text = if self.random(3) == 0 { "again".to_owned() } else { format!("text {}", self.message_count) };
        self.append(&format!(r#"{{"role":"{role}","content":"{text}"}}"#));
    }

    fn checkpoint(&mut self) {
        self.append(&format!(r#"{{"role": "_checkpoint", "id": {}}}"#, self.next_checkpoint));
        self.next_checkpoint += 1;
    }

    fn rotate(&mut self) -> Vec<String> {
        let lines = self.lines();
        self.rotations += 1;
        let rotated = self.folder.join(format!("context_{}.jsonl", self.rotations));
        fs::rename(self.folder.join("context.jsonl"), rotated).unwrap();
        fs::write(self.folder.join("context.jsonl"), "").unwrap();
        lines
    }

    /// Chooses and begins the next action. Returns the lines that the action still has to append. An import may run
    /// before each of them.
    fn next_action(&mut self) -> Vec<String> {
        let prompt = r#"{"role":"_system_prompt","content":"be brief"}"#.to_owned();
        let first_checkpoint = r#"{"role": "_checkpoint", "id": 0}"#.to_owned();
        match self.random(12) {
            0 => {
                self.rotate();
                self.next_checkpoint = 1;
                vec![prompt, first_checkpoint]
            }
            1 if self.next_checkpoint > 1 => {
                let to = self.random(self.next_checkpoint);
                let checkpoint_line = format!(r#"{{"role": "_checkpoint", "id": {to}}}"#);
                let lines = self.rotate();
                self.next_checkpoint = to;
                lines.into_iter().take_while(|line| *line != checkpoint_line).collect()
            }
            2 => {
                let lines = self.rotate();
                self.next_checkpoint = 1;
                let messages: Vec<_> = lines.into_iter().filter(|line| line.starts_with(r#"{"role":""#)).collect();
                let conversation: Vec<_> =
                    messages.into_iter().filter(|line| !line.contains("_system_prompt")).collect();
                let kept = conversation.iter().skip(conversation.len().saturating_sub(2)).cloned();
                let summary = r#"{"role":"user","content":[{"type":"text","text":"<system>Previous context has been compacted. Here is the compaction output:</system>"},{"type":"text","text":"in short"}]}"#;
                [prompt, first_checkpoint, summary.to_owned()].into_iter().chain(kept).collect()
            }
            3 | 4 => {
                self.checkpoint();
                Vec::new()
            }
            5 => vec![format!(r#"{{"role": "_usage", "token_count": {}}}"#, self.message_count)],
            6..=8 => {
                self.message("user");
                Vec::new()
            }
            _ => {
                self.message("assistant");
                Vec::new()
            }
        }
    }
}

/// Imports a session, and compares its context with what kimi-cli sends.
pub(crate) async fn check_session_context(commits: &dyn CommitCoordinator, folder: &Path) -> Option<ImportReport> {
    let mut reports = import(commits, folder, &ImportOptions::default()).await.unwrap();
    let report = reports.remove(0);
    let thread = report.thread.clone()?;
    let found = context_json(commits, &thread).await;
    assert_eq!(
        with_our_marker(&found),
        with_our_marker(&expected_context(&folder.join("context.jsonl"))),
        "{}",
        folder.display()
    );
    Some(report)
}

/// Adds a message to an imported thread, and checks that its export has the same context.
async fn check_continued(commits: &dyn CommitCoordinator, thread: &ThreadId) {
    append(commits, thread, vec![entry("added", Message::user("go on"))]).await;
    let (folder, exported) = export_session(commits, thread).await;
    assert_eq!((exported.exact, kinds(&exported.losses)), (false, Vec::new()));
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    // All summaries are equal here. If two of them follow each other, the second looks like a copy of the first, and
    // becomes an ordinary message, with the marker of kimi-cli.
    let (expected, found) = (context_json(commits, thread).await, context_json(&*other_store, &copy).await);
    assert_eq!(with_our_marker(&found), with_our_marker(&expected));
    check_exact(&*other_store, &copy, folder.path()).await;
}

#[tokio::test]
async fn the_context_is_what_kimi_cli_would_send_after_any_actions_and_imports() {
    let mut counts = [0; 3];
    for seed in 0..40 {
        let temp = tempdir().unwrap();
        let folder = temp.path().join("session");
        fs::create_dir(&folder).unwrap();
        let mut simulator = SessionSimulator {
            folder: &folder,
            rotations: 0,
            next_checkpoint: 0,
            message_count: 0,
            random_state: seed,
        };
        simulator.append(r#"{"role":"_system_prompt","content":"be brief"}"#);
        simulator.checkpoint();
        let commits = new_store();
        // Depending on the seed, an import runs at every step, at some steps, or almost only at the end.
        let import_interval = [1, 3, 20, 1000][usize::try_from(seed % 4).unwrap()];
        for _ in 0..60 {
            let remaining_lines = simulator.next_action();
            if simulator.random(import_interval) == 0 {
                check_session_context(&*commits, &folder).await;
            }
            for line in remaining_lines {
                simulator.append(&line);
                if simulator.random(import_interval) == 0 {
                    check_session_context(&*commits, &folder).await;
                }
            }
        }
        let Some(report) = check_session_context(&*commits, &folder).await else { continue };
        assert_eq!(report.count(IssueCode::ChangedFile), 0, "seed {seed}");
        assert_eq!(commits.threads().count_threads(&store_core::ThreadFilter::default()).await.unwrap(), 1);
        let again = check_session_context(&*commits, &folder).await.unwrap();
        assert_eq!(again.added, 0, "seed {seed}");
        check_exact(&*commits, report.thread.as_ref().unwrap(), &folder).await;
        // Exactly one entry represents each line.
        let all = entries(&*commits, report.thread.as_ref().unwrap()).await;
        let lines = all.iter().filter(|entry| entry.origin.as_ref().unwrap().line > 0).count();
        assert_eq!(lines as u64, report.lines, "seed {seed}");
        counts[0] += all.iter().filter(|entry| matches!(&*entry.body, Body::Compaction(_))).count();
        counts[1] += all.iter().filter(|entry| matches!(&*entry.body, Body::Rewind(_))).count();
        counts[2] += all.iter().filter(|entry| custom_kind(entry) == "kimi-cli.shared").count();
        check_continued(&*commits, report.thread.as_ref().unwrap()).await;
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

#[tokio::test]
async fn changed_instructions_are_sent_before_the_summary() {
    let temp = tempdir().unwrap();
    let folder = temp.path().join("upgraded");
    fs::create_dir(&folder).unwrap();
    let mut simulator =
        SessionSimulator { folder: &folder, rotations: 0, next_checkpoint: 0, message_count: 0, random_state: 0 };
    for role in ["user", "assistant", "user", "assistant"] {
        simulator.message(role);
    }
    let kept = simulator.rotate().split_off(2);
    simulator.append(r#"{"role":"_system_prompt","content":"be brief"}"#);
    simulator.checkpoint();
    simulator.append(r#"{"role":"user","content":[{"type":"text","text":"<system>Previous context has been compacted. Here is the compaction output:</system>"},{"type":"text","text":"in short"}]}"#);
    kept.iter().for_each(|line| simulator.append(line));
    simulator.message("user");
    let commits = new_store();
    let report = check_session_context(&*commits, &folder).await.unwrap();
    let all = entries(&*commits, &report.thread.unwrap()).await;
    assert!(all.iter().any(|entry| entry.id.as_str() == "2.L3" && matches!(&*entry.body, Body::Compaction(_))));
}
