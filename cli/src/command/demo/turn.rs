//! A turn of the conversation, as the demo commits it: four messages, a run and a change of the state in one atomic
//! commit.

use agentstore::{
    AgentId, Block, Commit, CommitKey, EntryId, Json, Message, NewEntry, Result, Role, RunChange, RunId, RunOutcome,
    RunStatus, StateChange, StateOp, ThreadId, TokenCounts,
};

/// The number of entries of a turn.
pub(super) const ENTRIES_PER_TURN: u64 = 4;

/// One turn of a demo. Its ids and its key consist of the prefix of the demo and the number of the turn.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    thread: ThreadId,
    name: String,
    number: u64,
}

impl Turn {
    pub(super) fn new(thread: &ThreadId, id_prefix: &str, number: u64) -> Self {
        Self { thread: thread.clone(), name: format!("{id_prefix}-turn-{number}"), number }
    }

    /// Returns the ids of the entries. They follow from the turn and are not random, so that the demo can look for the
    /// entries after a crash.
    pub(super) fn entry_ids(&self) -> Result<Vec<EntryId>> {
        (1..=ENTRIES_PER_TURN).map(|part| EntryId::new(format!("{}-{part}", self.name))).collect()
    }

    /// Returns the commit key of the turn, which makes the commit safe to repeat.
    pub(super) fn commit_key(&self) -> Result<CommitKey> {
        CommitKey::new(&self.name)
    }

    /// Returns the id of the run of the turn.
    pub(super) fn run_id(&self) -> Result<RunId> {
        RunId::new(&self.name)
    }

    /// Returns the commit of the turn: a question, a call, its result, an answer, the run, and a counter of turns in
    /// the state.
    pub(super) fn to_commit(&self) -> Result<Commit> {
        let call = format!("call-{}", self.number);
        let input = Json::of(&serde_json::json!({ "path": format!("src/part_{}.rs", self.number) }))?;
        let result = Block::tool_result(&call, vec![Block::text("fn part() {}\n".repeat(300))]);
        let answer = Message::assistant(format!("Part {} is read.", self.number));
        let messages = [
            Message::user(format!("Read part {} and say what it does.", self.number)),
            Message::new(Role::Assistant, vec![Block::tool_use(&call, "read_file", input)]),
            Message::new(Role::Tool, vec![result]),
            answer.with_usage(TokenCounts::new(900, 30).into()),
        ];
        let run = self.run_id()?;
        let entries = messages.into_iter().zip(self.entry_ids()?);
        let entries: Vec<_> =
            entries.map(|(message, id)| NewEntry::new(message).with_id(id).with_run(run.clone(), None)).collect();
        let run_change = RunChange::new(run, RunStatus::done(RunOutcome::NaturalEnd)).with_agent(AgentId::new("demo")?);
        let state_change = StateChange::new().with("demo.turns", StateOp::Add(1));
        Ok(Commit::new(self.thread.clone())
            .with_key(self.commit_key()?)
            .entries(entries)
            .with_run(run_change)
            .with_state(state_change))
    }
}
