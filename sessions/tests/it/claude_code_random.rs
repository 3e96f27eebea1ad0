//! Tests of random threads that are written as sessions of Claude Code: the context is the same after an import.

use std::sync::Arc;

use store_core::{
    Block, Commit, CommitCoordinator, Compaction, Custom, EntryId, Expect, Interval, Json, Label, Message, NewBody,
    NewEntry, ParentRef, Provenance, RewindTo, Role, ThreadId, TokenCounts, UsageRecord,
};

use crate::{
    claude_code_export::{context_blocks, export_text, reimport},
    helpers::{head_path, new_store},
    mutations::Random,
};

/// A thread that grows by random entries.
struct RandomThread<'a> {
    commits: &'a dyn CommitCoordinator,
    id: ThreadId,
    random: Random,
    /// The entries that are not side entries.
    entries: Vec<EntryId>,
    /// The calls so far.
    calls: Vec<String>,
    /// The number of the next entry.
    next_number: usize,
}

impl RandomThread<'_> {
    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn any_entry(&mut self) -> Option<EntryId> {
        if self.entries.is_empty() {
            return None;
        }
        let at = self.random.below(self.entries.len());
        Some(self.entries[at].clone())
    }

    fn assistant(&mut self) -> Message {
        let mut blocks = vec![Block::text(format!("answer {}", self.next_number))];
        for _ in 0..self.random.below(4) {
            let call = format!("c{}", self.calls.len());
            blocks.push(Block::tool_use(call.as_str(), "read", Json::parse(r#"{"n":1.0}"#).unwrap()));
            self.calls.push(call);
        }
        let mut message = Message::new(Role::Assistant, blocks);
        if self.chance(50) {
            // Two entries may be parts of one message.
            let mut provenance = Provenance::default();
            provenance.message_id = Some(format!("m{}", self.next_number / 2));
            message.provenance = Some(provenance);
        }
        message
    }

    fn results(&mut self) -> Message {
        let mut blocks = Vec::new();
        for _ in 0..=self.random.below(3) {
            let call = if self.calls.is_empty() || self.chance(5) {
                "unknown".to_owned()
            } else {
                self.calls[self.calls.len() - 1 - self.random.below(self.calls.len().min(3))].clone()
            };
            blocks.push(Block::tool_result(call, vec![Block::text(format!("output {}", self.next_number))]));
            if self.chance(10) {
                blocks.push(Block::text("beside"));
            }
        }
        Message::new(Role::Tool, blocks)
    }

    /// A compaction that covers a random number of entries from the beginning of the path, or no entry.
    async fn compaction(&mut self) -> Compaction {
        let path = if self.next_number == 0 { Vec::new() } else { head_path(self.commits, &self.id).await };
        let mut compaction = Compaction::default();
        compaction.summary = vec![Block::text(format!("summary {}", self.next_number))];
        if !path.is_empty() && self.chance(90) {
            let end = self.random.below(path.len());
            compaction.covers = Some(Interval::new(path[0].id.clone(), path[end].id.clone()));
        }
        compaction
    }

    async fn body(&mut self) -> NewBody {
        match self.random.below(14) {
            0..=2 => Message::user(format!("question {}", self.next_number)).into(),
            3..=5 => self.assistant().into(),
            6..=8 => self.results().into(),
            9 => self.compaction().await.into(),
            10 => NewBody::Checkpoint { number: None, label: None },
            11 => Custom::new("note", Json::parse("[1.0]").unwrap()).into(),
            12 => {
                let mut usage = UsageRecord::default();
                usage.spent = Some(TokenCounts::new(1, 2));
                usage.into()
            }
            _ => match self.any_entry() {
                Some(entry) if self.chance(50) => Label::new(entry, Some("here".to_owned())).into(),
                Some(entry) => RewindTo::Entry(entry).into(),
                None => Message::user("hello").into(),
            },
        }
    }

    async fn grow(&mut self) {
        let body = self.body().await;
        let id = EntryId::new(format!("e{}", self.next_number)).unwrap();
        self.next_number += 1;
        let mut entry = NewEntry::new(body).with_id(id.clone());
        let is_side = entry.is_side();
        if !is_side && !matches!(entry.body, NewBody::Compaction(_)) && self.chance(8) {
            entry = match self.any_entry() {
                Some(parent) => entry.below(parent),
                None => entry.with_parent(ParentRef::Root),
            };
        }
        let known = self.commits.threads().load_thread(&self.id).await.unwrap();
        let expect = known.map_or(Expect::Absent, |thread| Expect::Version(thread.version));
        let _receipt = self.commits.commit(Commit::new(self.id.clone()).expecting(expect).entry(entry)).await.unwrap();
        if !is_side {
            self.entries.push(id);
        }
    }
}

/// A random thread. The same seed gives the same thread.
pub(crate) async fn random_thread(seed: u64) -> (Arc<dyn CommitCoordinator>, ThreadId) {
    let commits = new_store();
    let mut thread = RandomThread {
        commits: &*commits,
        id: ThreadId::new(format!("random-{seed}")).unwrap(),
        random: Random(seed),
        entries: Vec::new(),
        calls: Vec::new(),
        next_number: 0,
    };
    for _ in 0..5 + seed % 25 {
        thread.grow().await;
    }
    let id = thread.id.clone();
    (commits, id)
}

#[tokio::test]
async fn random_threads_have_the_same_context_after_export_and_import() {
    let mut compactions = 0;
    for seed in 0..300 {
        let (commits, id) = random_thread(seed).await;
        let (exported, text) = export_text(&*commits, &id).await;
        let kinds: Vec<_> = exported.losses.iter().map(|loss| loss.kind).collect();
        if kinds.contains(&"head") {
            assert_eq!(context_blocks(&*commits, &id).await, [], "seed {seed}");
            continue;
        }
        assert!(kinds.iter().all(|kind| ["time", "compaction"].contains(kind)), "seed {seed}: {kinds:?}");
        compactions += kinds.iter().filter(|kind| **kind == "compaction").count();
        let (other, copy) = reimport(&text).await;
        let (mut before, mut after) = (context_blocks(&*commits, &id).await, context_blocks(&*other, &copy).await);
        if kinds.contains(&"compaction") {
            // A call may have several results. The export writes a text beside a result after the result that counted
            // when the thread was compacted, and not after the latest result.
            before.retain(|(_, block)| !block.contains("beside"));
            after.retain(|(_, block)| !block.contains("beside"));
        }
        assert_eq!(after, before, "seed {seed}:\n{text}");
    }
    assert!(compactions > 30);
}
