//! Runs: one agent at work on a thread.

use std::{collections::BTreeMap, fmt};

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, Object, names, record, serde_by_codec},
    id::{AgentId, DispatchId, RunId, ThreadId},
    json::Json,
    log::{JsonMap, TokenCounts},
    time::Timestamp,
};

/// One agent at work on a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// Unique in the tenant. Fixed.
    pub id: RunId,
    /// The thread. Fixed.
    pub thread: ThreadId,
    /// The agent. Fixed.
    pub agent: AgentId,
    /// The run that started this one; may be of another thread. Fixed.
    pub parent_run: Option<RunId>,
    /// The dispatches that it was worked on under; the last is the current one.
    pub dispatches: Vec<DispatchId>,
    /// What was asked. Fixed.
    pub request: Option<Json>,
    /// Which published definitions it runs with. Fixed once set.
    pub manifest: Option<String>,
    /// Where it stands.
    pub status: RunStatus,
    /// What it read: ranges of the thread's log.
    pub input: Vec<EntryRange>,
    /// What it wrote: ranges of the thread's log.
    pub output: Vec<EntryRange>,
    /// Steps done; never decreases.
    pub steps: u32,
    /// Token counts as its worker gives them; none ever decreases.
    pub usage: TokenCounts,
    /// The sum over the entries that it produced (EN-26).
    pub spent: TokenCounts,
    /// State that is gone with the run.
    pub state: JsonMap,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it first ran.
    pub started_at: Option<Timestamp>,
    /// When it was written last.
    pub updated_at: Timestamp,
    /// When it was done.
    pub finished_at: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Run {
    id: req,
    thread: req,
    agent: req,
    parent_run: opt,
    dispatches: def,
    request: opt,
    manifest: opt,
    status: req,
    input: def,
    output: def,
    steps: def,
    usage: def,
    spent: def,
    state: def,
    created_at: req,
    started_at: opt,
    updated_at: req,
    finished_at: opt,
});

/// Part of a log: sequence numbers, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryRange {
    /// The first entry.
    pub from: u64,
    /// The last entry.
    pub to: u64,
}

impl Codec for EntryRange {
    fn write(&self, out: &mut String) {
        vec![self.from, self.to].write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        match Vec::<u64>::read(raw)?.as_slice() {
            &[from, to] => Ok(Self { from, to }),
            _ => Err(DecodeError::new("is no range")),
        }
    }
}

serde_by_codec!(EntryRange);

/// Where a run stands; what belongs to a status can only be written down with it (RU-2).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunStatus {
    /// Made, not yet running.
    Created,
    /// At work.
    Running,
    /// Waiting for something.
    Waiting(Box<WaitingState>),
    /// Over; never changes again (RU-4).
    Done(Box<Completion>),
}

/// The statuses without their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunPhase {
    /// Made, not yet running.
    Created,
    /// At work.
    Running,
    /// Waiting for something.
    Waiting,
    /// Over.
    Done,
}

names!(RunPhase as "run status" { Created = "created", Running = "running", Waiting = "waiting", Done = "done", });

impl RunStatus {
    /// The status without its data.
    #[must_use]
    pub const fn phase(&self) -> RunPhase {
        match self {
            Self::Created => RunPhase::Created,
            Self::Running => RunPhase::Running,
            Self::Waiting(_) => RunPhase::Waiting,
            Self::Done(_) => RunPhase::Done,
        }
    }

    /// Done with this outcome and nothing else.
    #[must_use]
    pub fn done(outcome: RunOutcome) -> Self {
        Self::Done(Box::new(Completion::new(outcome)))
    }

    /// Waiting for this reason, with nothing else.
    #[must_use]
    pub fn waiting(reason: WaitingReason) -> Self {
        Self::Waiting(Box::new(WaitingState::new(reason)))
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.phase().fmt(f)
    }
}

/// `{"<status>": {…}}`.
impl Codec for RunStatus {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
        let value = object.key(self.phase().name());
        match self {
            Self::Created | Self::Running => value.push_str("{}"),
            Self::Waiting(waiting) => waiting.write(value),
            Self::Done(completion) => completion.write(value),
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let name = fields.first().ok_or_else(|| DecodeError::new("is an empty status"))?.0.to_owned();
        match name.as_str() {
            "created" => Ok(Self::Created),
            "running" => Ok(Self::Running),
            "waiting" => Ok(Self::Waiting(fields.take(&name)?)),
            "done" => Ok(Self::Done(fields.take(&name)?)),
            _ => Err(DecodeError::new("is no run status")),
        }
    }
}

serde_by_codec!(RunStatus);

/// Why a run waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitingReason {
    /// For the permission to use a tool.
    ToolPermission,
    /// For input of a person.
    UserInput,
    /// For work in the background.
    BackgroundTasks,
    /// For something outside.
    ExternalEvent,
    /// For a rate limit to pass.
    RateLimit,
    /// For somebody to let it go on.
    ManualPause,
}

names!(WaitingReason as "waiting reason" {
    ToolPermission = "tool_permission",
    UserInput = "user_input",
    BackgroundTasks = "background_tasks",
    ExternalEvent = "external_event",
    RateLimit = "rate_limit",
    ManualPause = "manual_pause",
});

/// What a waiting run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingState {
    /// Why it waits.
    pub reason: WaitingReason,
    /// What is to be decided.
    pub tickets: Vec<Ticket>,
    /// Words for people.
    pub message: Option<String>,
    /// The dispatch under which the waiting began.
    pub dispatch: Option<DispatchId>,
    /// When to go on by itself.
    pub resume_at: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(WaitingState { reason: req, tickets: def, message: opt, dispatch: opt, resume_at: opt });

impl WaitingState {
    /// Waiting for this reason.
    #[must_use]
    pub fn new(reason: WaitingReason) -> Self {
        Self { reason, tickets: Vec::new(), message: None, dispatch: None, resume_at: None, extra: Extra::default() }
    }
}

/// Something that somebody has to decide before the run goes on; kept byte for byte (RU-15).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// Unique in the run.
    pub id: String,
    /// The tool call that it is about.
    pub tool_use_id: Option<String>,
    /// The arguments of the call.
    pub arguments: Option<Json>,
    /// How the run goes on after the decision, in the application's own word.
    pub resume_mode: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Ticket { id: req, tool_use_id: opt, arguments: opt, resume_mode: opt });

impl Ticket {
    /// A ticket of this id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), tool_use_id: None, arguments: None, resume_mode: None, extra: Extra::default() }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The outcome.
    pub outcome: RunOutcome,
    /// The final output.
    pub output: Option<Json>,
    /// What the error left behind.
    pub error: Option<Json>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Completion { outcome: req, output: opt, error: opt });

impl Completion {
    /// Over with this outcome.
    #[must_use]
    pub fn new(outcome: RunOutcome) -> Self {
        Self { outcome, output: None, error: None, extra: Extra::default() }
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The agent was done.
    NaturalEnd,
    /// Something stopped it.
    Stopped {
        /// What, in the application's own word.
        code: String,
        /// Words for people.
        detail: Option<String>,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// It was not allowed to go on.
    Blocked,
    /// Another run took its place.
    Superseded,
    /// It failed.
    Failed {
        /// The error; cut at 1 KiB.
        error: String,
    },
}

/// `{"<outcome>": {…}}`.
impl Codec for RunOutcome {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
        match self {
            Self::NaturalEnd => object.key("natural_end").push_str("{}"),
            Self::Stopped { code, detail } => {
                let mut inner = Object::open(object.key("stopped"));
                inner.field("code", code).maybe("detail", detail.as_ref());
                inner.close();
            }
            Self::Cancelled => object.key("cancelled").push_str("{}"),
            Self::Blocked => object.key("blocked").push_str("{}"),
            Self::Superseded => object.key("superseded").push_str("{}"),
            Self::Failed { error } => {
                let mut inner = Object::open(object.key("failed"));
                inner.field("error", error);
                inner.close();
            }
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let outer = Fields::parse(raw)?;
        let (name, data) = outer.first().ok_or_else(|| DecodeError::new("is an empty outcome"))?;
        let mut fields = Fields::parse(data)?;
        Ok(match name {
            "natural_end" => Self::NaturalEnd,
            "stopped" => Self::Stopped { code: fields.take("code")?, detail: fields.maybe("detail")? },
            "cancelled" => Self::Cancelled,
            "blocked" => Self::Blocked,
            "superseded" => Self::Superseded,
            "failed" => Self::Failed { error: fields.take("error")? },
            _ => return Err(DecodeError::new("is no run outcome")),
        })
    }
}

serde_by_codec!(RunOutcome);

/// A new run, or a change of one: part of a commit (RU-1).
///
/// A new run needs `agent`. Of a run that exists, fixed fields may be left out or given as they are (RU-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunChange {
    /// The run.
    pub id: RunId,
    /// The agent; needed for a new run. Fixed.
    pub agent: Option<AgentId>,
    /// The run that started this one. Fixed.
    pub parent_run: Option<RunId>,
    /// What was asked. Fixed.
    pub request: Option<Json>,
    /// Which published definitions it runs with. Fixed once set.
    pub manifest: Option<String>,
    /// The dispatch that it is worked on under from now on.
    pub dispatch: Option<DispatchId>,
    /// Where it stands now.
    pub status: RunStatus,
    /// Further ranges that it read.
    pub input: Vec<EntryRange>,
    /// Further ranges that it wrote.
    pub output: Vec<EntryRange>,
    /// Steps done so far; absent: as before.
    pub steps: Option<u32>,
    /// Token counts so far; absent: as before.
    pub usage: Option<TokenCounts>,
    /// State keys to set (`Some`) or remove (`None`); others stay (RU-12).
    pub state: BTreeMap<String, Option<Json>>,
}

impl RunChange {
    /// The run `id` in this status, everything else as before.
    #[must_use]
    pub fn new(id: RunId, status: RunStatus) -> Self {
        Self {
            id,
            agent: None,
            parent_run: None,
            request: None,
            manifest: None,
            dispatch: None,
            status,
            input: Vec::new(),
            output: Vec::new(),
            steps: None,
            usage: None,
            state: BTreeMap::new(),
        }
    }

    /// The same for a run of this agent.
    #[must_use]
    pub fn with_agent(mut self, agent: AgentId) -> Self {
        self.agent = Some(agent);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Run;
    use crate::codec::Codec;

    #[test]
    fn a_run_comes_back_as_it_was() {
        for status in [
            r#"{"created":{}}"#,
            r#"{"waiting":{"reason":"tool_permission","tickets":[{"id":"t","arguments":{"n":1.0}}],"later":1}}"#,
            r#"{"done":{"outcome":{"stopped":{"code":"limit"}},"output":1e2}}"#,
            r#"{"done":{"outcome":{"failed":{"error":"x"}}}}"#,
        ] {
            let raw = format!(
                r#"{{"id":"r","thread":"t","agent":"a","status":{status},"input":[[1,3]],"created_at":1,"updated_at":2}}"#
            );
            assert_eq!(Run::read(&raw).unwrap().encode(), raw);
        }
    }
}
