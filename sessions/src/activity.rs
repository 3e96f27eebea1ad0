//! Runs and queued input of a source. A thread keeps both beside its entries.

use sha2::{Digest, Sha256};
use store_core::{
    AgentId, AppendPending, Boundary, Commit, CommitCoordinator, CommitKey, Completion, Delivery, EntryId, ErrorKind,
    Json, Message, NewInput, Run, RunChange, RunId, RunOutcome, RunStatus, RunTarget, ThreadId, Timestamp, TokenCounts,
};

use crate::{
    error::Result,
    issue::Issues,
    lines::note_bad_field,
    provenance::{FileProvenance, Provenance},
    session::{Session, StoredEntries},
    source::hex,
    write::commit_at,
};

/// The code in the outcome of a run whose end the source does not contain.
const INTERRUPTED: &str = "interrupted";

/// The runs of a source, and the input that waits in it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The runs, in the order in which they began.
    pub(crate) runs: Vec<SourceRun>,
    /// The input that is still queued, in its order.
    pub(crate) queued_input: Vec<QueuedInput>,
    /// The ids of input that was queued earlier and is not queued any more.
    pub(crate) dequeued_ids: Vec<EntryId>,
}

impl Activity {
    /// No run and no input.
    pub(crate) const NONE: &'static Self =
        &Self { runs: Vec::new(), queued_input: Vec::new(), dequeued_ids: Vec::new() };
}

/// A run of a source.
#[derive(Debug)]
pub(crate) struct SourceRun {
    /// The id that the source gives it. Runs of other sources may have the same id.
    pub(crate) id: String,
    pub(crate) agent: &'static str,
    /// What was requested.
    pub(crate) request: Json,
    /// How it ended. If it is absent, the source does not contain the end: the run was interrupted.
    pub(crate) end: Option<Completion>,
    /// For an interrupted run: the reason for which it was about to stop, if there was one.
    pub(crate) detail: Option<&'static str>,
    pub(crate) steps: u32,
    pub(crate) usage: TokenCounts,
}

/// Input that waits in a source.
#[derive(Debug)]
pub(crate) struct QueuedInput {
    /// The number of its line.
    pub(crate) line: u64,
    /// The id that the entry gets when the input is consumed.
    pub(crate) id: EntryId,
    pub(crate) message: Message,
    /// When a run may take it.
    pub(crate) boundary: Boundary,
    /// The run that it is for, by the id in the source.
    pub(crate) run: Option<String>,
}

/// Writes the runs and the queued input of a session to its thread.
pub(crate) struct ActivityWriter<'a> {
    commits: &'a dyn CommitCoordinator,
    thread: &'a ThreadId,
    activity: &'a Activity,
    /// The number of complete lines that an earlier import read.
    known_lines: u64,
    is_new: bool,
    /// Whether an earlier import was interrupted. This counts only if there is something to write: it is also true
    /// after a complete import of the same bytes.
    was_interrupted: bool,
}

impl<'a> ActivityWriter<'a> {
    pub(crate) fn new(
        (commits, thread): (&'a dyn CommitCoordinator, &'a ThreadId),
        session: &'a dyn Session,
        stored: &StoredEntries,
    ) -> Self {
        let stored_provenance = stored.provenance.as_ref();
        let known_lines = stored_provenance.and_then(Provenance::first_file).map_or(0, FileProvenance::ended_lines);
        // If an earlier import of the same bytes left something to write, it was interrupted.
        let was_interrupted =
            stored_provenance.is_some_and(|provenance| provenance.digest() == session.info().provenance.digest());
        Self {
            commits,
            thread,
            activity: session.activity(),
            known_lines,
            is_new: stored_provenance.is_none(),
            was_interrupted,
        }
    }

    /// Whether the source contains no run and no input.
    pub(crate) const fn is_empty(&self) -> bool {
        self.activity.runs.is_empty() && self.activity.queued_input.is_empty()
    }

    /// Notes that the entry of this line is not stored yet.
    pub(crate) const fn note_missing(&mut self, line: u64) {
        self.was_interrupted |= line > 0 && line <= self.known_lines;
    }

    /// Removes the dequeued input from the queue of the thread: since an earlier import, the source has used this input
    /// or given it up. This comes before the entries are written, because an entry cannot have the id of an input that
    /// is still in the queue.
    pub(crate) async fn retract_dequeued(&self) -> Result<()> {
        if self.is_new || self.activity.dequeued_ids.is_empty() {
            return Ok(());
        }
        let pending = self.commits.pending();
        for input in pending.load_queue(self.thread).await?.inputs {
            if self.activity.dequeued_ids.contains(&input.id) {
                match pending.retract_pending(self.thread, &input.id).await {
                    // These two errors mean that a run has just taken the input.
                    Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyConsumed) => {
                        return Err(e.into());
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Writes the runs and the queued input. This comes before the last entry is written, so that the next import can
    /// see whether this import was interrupted. `at` is the newest time in the source.
    pub(crate) async fn write(&self, at: Option<Timestamp>, issues: &mut Issues) -> Result<()> {
        for run in &self.activity.runs {
            self.write_run(run, at).await?;
        }
        for input in &self.activity.queued_input {
            // Input of an earlier import that is no longer in the queue was consumed or retracted.
            if self.was_interrupted || input.line > self.known_lines {
                self.append_input(input, issues).await?;
            }
        }
        Ok(())
    }

    /// Writes a run that the thread does not have. A run that is done cannot change. So if an earlier import did not
    /// find the end of a run, and the source contains it now, the rest becomes a run of its own.
    async fn write_run(&self, run: &SourceRun, at: Option<Timestamp>) -> Result<()> {
        let threads = self.commits.threads();
        let id = run_id(self.thread, &run.id)?;
        let Some(stored) = threads.load_run(&id).await? else { return self.commit_run(run.change(id)?, at).await };
        let rest_id = run_id(self.thread, &format!("{}#2", run.id))?;
        if was_interrupted(&stored.status) && run.end.is_some() && threads.load_run(&rest_id).await?.is_none() {
            let mut change = run.change(rest_id)?;
            change.parent_run = Some(id);
            return self.commit_run(change, at).await;
        }
        Ok(())
    }

    async fn commit_run(&self, change: RunChange, at: Option<Timestamp>) -> Result<()> {
        let key = CommitKey::new(format!("import:run:{}", hex(&Sha256::digest(change.id.as_str()))))?;
        let commit = Commit::new(self.thread.clone()).with_key(key).with_run(change);
        let _receipt = commit_at(self.commits, commit, at).await?;
        Ok(())
    }

    async fn append_input(&self, input: &QueuedInput, issues: &mut Issues) -> Result<()> {
        let mut delivery = Delivery::at(input.boundary);
        if let Some(run) = &input.run {
            delivery = delivery.for_run(RunTarget::new(run_id(self.thread, run)?));
        }
        let new = NewInput::message(input.message.clone()).with_id(input.id.clone()).with_delivery(delivery);
        match self.commits.pending().append_pending(AppendPending::new(self.thread.clone(), [new])).await {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::AlreadyConsumed) => {
                if self.is_new {
                    note_bad_field(issues, input.line, format!("the id `{}` is that of another line", input.id));
                }
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }
}

impl SourceRun {
    /// The change that writes the run under this id.
    fn change(&self, id: RunId) -> Result<RunChange> {
        let interrupted = || {
            Completion::new(RunOutcome::Stopped {
                code: INTERRUPTED.to_owned(),
                detail: self.detail.map(str::to_owned),
            })
        };
        let end = self.end.clone().unwrap_or_else(interrupted);
        let mut change = RunChange::new(id, RunStatus::Done(Box::new(end))).with_agent(AgentId::new(self.agent)?);
        change.request = Some(self.request.clone());
        change.steps = Some(self.steps);
        change.usage = Some(self.usage.clone());
        Ok(change)
    }
}

fn was_interrupted(status: &RunStatus) -> bool {
    let RunStatus::Done(completion) = status else { return false };
    matches!(&completion.outcome, RunOutcome::Stopped { code, .. } if code == INTERRUPTED)
}

/// Whether an import made this run. `agent` is the agent that the import gives to its runs.
pub(crate) fn is_imported(run: &Run, agent: &str) -> bool {
    let is_of_thread = run.id.as_str().strip_prefix(run.thread.as_str()).is_some_and(|rest| rest.starts_with('/'));
    is_of_thread && run.agent.as_str() == agent
}

/// The id of a run in the store, where all threads of a tenant share the ids of runs.
fn run_id(thread: &ThreadId, source_id: &str) -> Result<RunId> {
    let text = format!("{thread}/{source_id}");
    Ok(RunId::new(&text).or_else(|_| RunId::new(hex(&Sha256::digest(&text))))?)
}
