//! Runs and their statuses.

use std::{collections::BTreeMap, fmt};

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, named_enum, record, serde_by_codec},
    id::{AgentId, DispatchId, RunId, ThreadId},
    json::Json,
    log::{JsonMap, TokenCounts},
    time::Timestamp,
};

/// One execution of an agent on a thread. Fields marked as fixed never change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The id, unique in the tenant. Fixed.
    pub id: RunId,
    /// The thread. Fixed.
    pub thread: ThreadId,
    /// The agent. Fixed.
    pub agent: AgentId,
    /// The run that started this one. It may belong to another thread. Fixed.
    pub parent_run: Option<RunId>,
    /// The dispatches under which the run was worked on. The last is the current one.
    pub dispatches: Vec<DispatchId>,
    /// What was requested. Fixed.
    pub request: Option<Json>,
    /// Which published definitions the run uses. Fixed as soon as it is set.
    pub manifest: Option<String>,
    /// The status.
    pub status: RunStatus,
    /// What the run read: ranges of the thread's log.
    pub input: Vec<EntryRange>,
    /// What the run wrote: ranges of the thread's log.
    pub output: Vec<EntryRange>,
    /// The number of steps done. It never decreases.
    pub steps: u32,
    /// Token counts as the worker reports them. No count ever decreases.
    pub usage: TokenCounts,
    /// The sum of the tokens that the entries of the run spent (EN-26).
    pub spent: TokenCounts,
    /// The state of the run. Unlike the state of the thread, it belongs to this run only.
    pub state: JsonMap,
    /// When the run was created.
    pub created_at: Timestamp,
    /// When the run first got the status `Running`.
    pub started_at: Option<Timestamp>,
    /// When the run was written last.
    pub updated_at: Timestamp,
    /// When the run was done.
    pub finished_at: Option<Timestamp>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
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

/// A range of a log: sequence numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryRange {
    /// The sequence number of the first entry.
    pub from: u64,
    /// The sequence number of the last entry.
    pub to: u64,
}

impl Codec for EntryRange {
    fn write(&self, out: &mut String) {
        vec![self.from, self.to].write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        match Vec::<u64>::read(raw)?.as_slice() {
            &[from, to] => Ok(Self { from, to }),
            _ => Err(DecodeError::new("is not a range")),
        }
    }
}

serde_by_codec!(EntryRange);

/// The status of a run, with the data that belongs to it.
///
/// Data of a status can only be written together with that status (RU-2).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunStatus {
    /// Created, not yet running.
    Created,
    /// Running.
    Running,
    /// Waiting for something.
    Waiting(Box<WaitingState>),
    /// Done. A run that is done never changes again (RU-4).
    Done(Box<Completion>),
}

/// The status of a run without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunPhase {
    /// Created, not yet running.
    Created,
    /// Running.
    Running,
    /// Waiting for something.
    Waiting,
    /// Done.
    Done,
}

named_enum!(RunPhase as "run status" { Created = "created", Running = "running", Waiting = "waiting", Done = "done", });

impl RunStatus {
    /// Returns the status without its data.
    #[must_use]
    pub const fn phase(&self) -> RunPhase {
        match self {
            Self::Created => RunPhase::Created,
            Self::Running => RunPhase::Running,
            Self::Waiting(_) => RunPhase::Waiting,
            Self::Done(_) => RunPhase::Done,
        }
    }

    /// Creates the status `Done` with this outcome and nothing else.
    #[must_use]
    pub fn done(outcome: RunOutcome) -> Self {
        Self::Done(Box::new(Completion::new(outcome)))
    }

    /// Creates the status `Waiting` with this reason and nothing else.
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

/// Written as `{"<status>": {…}}`.
impl Codec for RunStatus {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
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
            _ => Err(DecodeError::new("is not a run status")),
        }
    }
}

serde_by_codec!(RunStatus);

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitingReason {
    /// The permission to use a tool.
    ToolPermission,
    /// The input of a person.
    UserInput,
    /// Work in the background.
    BackgroundTasks,
    /// An external event.
    ExternalEvent,
    /// The end of a rate limit.
    RateLimit,
    /// The end of a manual pause.
    ManualPause,
}

named_enum!(WaitingReason as "waiting reason" {
    ToolPermission = "tool_permission",
    UserInput = "user_input",
    BackgroundTasks = "background_tasks",
    ExternalEvent = "external_event",
    RateLimit = "rate_limit",
    ManualPause = "manual_pause",
});

/// The data of a waiting run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingState {
    /// What the run waits for.
    pub reason: WaitingReason,
    /// The tickets: the questions of the run. Decisions answer them.
    pub tickets: Vec<Ticket>,
    /// Text for people.
    pub message: Option<String>,
    /// The dispatch under which the waiting began.
    pub dispatch: Option<DispatchId>,
    /// When the run continues by itself.
    pub resume_at: Option<Timestamp>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(WaitingState { reason: req, tickets: def, message: opt, dispatch: opt, resume_at: opt });

impl WaitingState {
    /// Creates the data of a run that waits for this reason.
    #[must_use]
    pub fn new(reason: WaitingReason) -> Self {
        Self { reason, tickets: Vec::new(), message: None, dispatch: None, resume_at: None, extra: Extra::default() }
    }
}

/// A ticket: what a waiting run asks, for example the approval of a tool call. A [`Decision`](crate::Decision) answers
/// it.
///
/// A ticket is kept byte for byte (RU-15).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// The id, unique in the run.
    pub id: String,
    /// The tool call that the ticket is about.
    pub tool_use_id: Option<String>,
    /// The arguments of the call.
    pub arguments: Option<Json>,
    /// How the run continues after the decision. The application chooses the word.
    pub resume_mode: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Ticket { id: req, tool_use_id: opt, arguments: opt, resume_mode: opt });

impl Ticket {
    /// Creates a ticket with this id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), tool_use_id: None, arguments: None, resume_mode: None, extra: Extra::default() }
    }
}

/// The data of a run that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The outcome.
    pub outcome: RunOutcome,
    /// The final output.
    pub output: Option<Json>,
    /// Data of the error.
    pub error: Option<Json>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Completion { outcome: req, output: opt, error: opt });

impl Completion {
    /// Creates the data of a run that is done with this outcome.
    #[must_use]
    pub fn new(outcome: RunOutcome) -> Self {
        Self { outcome, output: None, error: None, extra: Extra::default() }
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunOutcome {
    /// The agent finished.
    NaturalEnd,
    /// Something stopped the run.
    Stopped {
        /// What stopped the run. The application chooses the word.
        code: String,
        /// Text for people.
        detail: Option<String>,
    },
    /// The run was cancelled.
    Cancelled,
    /// The run was not allowed to continue.
    Blocked,
    /// Another run replaced this one.
    Superseded,
    /// The run failed.
    Failed {
        /// The text of the error, cut at 1 KiB.
        error: String,
    },
}

/// Written as `{"<outcome>": {…}}`.
impl Codec for RunOutcome {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::NaturalEnd => object.key("natural_end").push_str("{}"),
            Self::Stopped { code, detail } => {
                let mut inner = ObjectWriter::open(object.key("stopped"));
                inner.field("code", code).maybe("detail", detail.as_ref());
                inner.close();
            }
            Self::Cancelled => object.key("cancelled").push_str("{}"),
            Self::Blocked => object.key("blocked").push_str("{}"),
            Self::Superseded => object.key("superseded").push_str("{}"),
            Self::Failed { error } => {
                let mut inner = ObjectWriter::open(object.key("failed"));
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
            _ => return Err(DecodeError::new("is not a run outcome")),
        })
    }
}

serde_by_codec!(RunOutcome);

/// A new run, or a change of a run, as part of a commit (RU-1).
///
/// A new run needs `agent`. For an existing run, fixed fields may be left out, or given with their stored values
/// (RU-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunChange {
    /// The id of the run.
    pub id: RunId,
    /// The agent. A new run needs it. Fixed.
    pub agent: Option<AgentId>,
    /// The run that started this one. Fixed.
    pub parent_run: Option<RunId>,
    /// What was requested. Fixed.
    pub request: Option<Json>,
    /// Which published definitions the run uses. Fixed once set.
    pub manifest: Option<String>,
    /// The dispatch under which the run is worked on from now on.
    pub dispatch: Option<DispatchId>,
    /// The new status.
    pub status: RunStatus,
    /// Further ranges that the run read.
    pub input: Vec<EntryRange>,
    /// Further ranges that the run wrote.
    pub output: Vec<EntryRange>,
    /// The number of steps done so far. If absent, it does not change.
    pub steps: Option<u32>,
    /// Token counts so far. If absent, they do not change.
    pub usage: Option<TokenCounts>,
    /// State keys to set (`Some`) or remove (`None`). Other keys do not change (RU-12).
    pub state: BTreeMap<String, Option<Json>>,
}

impl RunChange {
    /// Creates a change that gives the run `id` this status and changes nothing else.
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

    /// Sets the agent.
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
    fn a_run_record_round_trips() {
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
