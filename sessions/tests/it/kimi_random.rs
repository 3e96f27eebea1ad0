//! Tests of random threads that are exported as sessions of kimi-cli. The import of the export must have the same
//! context.

use store_core::{
    Block, Commit, CommitCoordinator, Compaction, Custom, EntryId, Expect, Interval, Json, Message, NewBody, NewEntry,
    RewindTo, Role, ThreadId, TokenCounts, ToolResult, UsageRecord,
};

use crate::{
    helpers::{entries, head_path, new_store},
    kimi_exports::{append, check_exact, comparable_context, export_session, import_copy},
};

/// Appends random entries to a thread.
struct RandomThread<'a> {
    commits: &'a dyn CommitCoordinator,
    thread: ThreadId,
    random_state: u64,
    entry_count: u64,
}

impl RandomThread<'_> {
    fn random(&mut self, below: usize) -> usize {
        self.random_state =
            self.random_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.random_state >> 33) % below as u64).unwrap()
    }

    async fn add(&mut self, body: impl Into<NewBody>) {
        self.entry_count += 1;
        let entry = NewEntry::new(body).with_id(EntryId::new(format!("e{}", self.entry_count)).unwrap());
        append(self.commits, &self.thread, vec![entry]).await;
    }

    /// A text. Some texts are repeated.
    fn text(&mut self) -> String {
        if self.random(4) == 0 { "again".to_owned() } else { format!("text {}", self.entry_count) }
    }

    async fn add_call_with_result(&mut self) {
        let id = format!("c{}", self.random(3));
        let blocks = vec![Block::text(self.text()), Block::tool_use(id.as_str(), "read", Json::parse("{}").unwrap())];
        self.add(Message::new(Role::Assistant, blocks)).await;
        let mut result = ToolResult::new(id, vec![Block::text(self.text())]);
        result.is_error = Some(false);
        self.add(Message::new(Role::Tool, vec![Block::new(store_core::BlockKind::ToolResult(result))])).await;
    }

    /// Adds a compaction of the messages that follow the instructions at the beginning of the path.
    async fn add_compaction(&mut self) {
        let path = head_path(self.commits, &self.thread).await;
        let from = path.iter().position(|entry| entry.message().is_some_and(|message| message.role != Role::System));
        let Some(from) = from.filter(|from| from + 2 < path.len()) else { return };
        let to = from + self.random(path.len() - from);
        let is_compaction = |at: usize| matches!(&*path[at].body, store_core::Body::Compaction(_));
        // The interval must contain every earlier compaction on the path.
        if (to + 1..path.len()).any(is_compaction) {
            return;
        }
        let mut compaction = Compaction::default();
        compaction.covers = Some(Interval::new(path[from].id.clone(), path[to].id.clone()));
        compaction.summary = vec![Block::text(format!("summary {}", self.entry_count))];
        self.add(compaction).await;
    }

    async fn rewind(&mut self) {
        let all = entries(self.commits, &self.thread).await;
        let targets: Vec<_> = all.iter().filter(|entry| !entry.side).collect();
        let to = targets[self.random(targets.len())].id.clone();
        self.add(RewindTo::Entry(to)).await;
    }

    async fn step(&mut self) {
        match self.random(16) {
            0..=3 => {
                let text = self.text();
                self.add(Message::user(text)).await;
            }
            4..=6 => {
                let text = self.text();
                self.add(Message::assistant(text)).await;
            }
            7 | 8 => self.add_call_with_result().await,
            9 => {
                let label = Some(format!("label {}", self.entry_count)).filter(|_| self.entry_count.is_multiple_of(2));
                self.add(NewBody::Checkpoint { number: None, label }).await;
            }
            10 => {
                let mut usage = UsageRecord::default();
                usage.context_size = Some(self.entry_count);
                self.add(usage).await;
            }
            11 => self.add(Message::assistant("with usage").with_usage(TokenCounts::new(3, 4).into())).await,
            12 => self.add(Custom::new("note", Json::null())).await,
            13 | 14 => self.add_compaction().await,
            _ => self.rewind().await,
        }
    }
}

/// The context of a thread without the error markers that an export adds to the texts of failed results.
async fn context_without_error_markers(commits: &dyn CommitCoordinator, thread: &ThreadId) -> String {
    let context = comparable_context(commits, thread).await.to_string();
    context.replace("<system>ERROR: no result was recorded</system>", "no result was recorded")
}

#[tokio::test]
async fn the_import_of_an_export_has_the_same_context() {
    let mut summaries = 0;
    for seed in 0..100 {
        let commits = new_store();
        let id = ThreadId::new("random").unwrap();
        let prompt = Message::new(Role::System, vec![Block::text("be brief")]);
        let mut commit =
            Commit::new(id.clone()).expecting(Expect::Absent).entry(NewEntry::new(Custom::new("first", Json::null())));
        if seed % 3 > 0 {
            commit = commit.entry(NewEntry::new(prompt));
        }
        let thread = commits.commit(commit).await.unwrap().thread;
        let mut writer =
            RandomThread { commits: &*commits, thread: thread.clone(), random_state: seed, entry_count: 0 };
        for _ in 0..40 {
            writer.step().await;
        }
        let expected = context_without_error_markers(&*commits, &thread).await;
        summaries += expected.matches("\"summary ").count();
        if expected == "[]" {
            continue;
        }
        let (folder, exported) = export_session(&*commits, &thread).await;
        assert!(!exported.exact);
        let (other_store, report) = import_copy(folder.path()).await;
        let copy = report.thread.unwrap();
        assert_eq!(context_without_error_markers(&*other_store, &copy).await, expected, "seed {seed}");
        check_exact(&*other_store, &copy, folder.path()).await;
        // The export lists only losses of these kinds.
        let expected_kinds = ["custom", "label", "usage", "open_call", "orphan_result", "compaction", "checkpoint"];
        assert!(exported.losses.iter().all(|loss| expected_kinds.contains(&loss.kind)), "{:?}", exported.losses);
    }
    assert!(summaries > 10, "{summaries}");
}
