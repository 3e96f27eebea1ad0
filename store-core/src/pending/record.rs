//! Pending inputs, the queue that they stand in, and what is asked of it.

use serde::Serialize;

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, Object, names, record, serde_by_codec, sha256},
    id::{EntryId, RunId, ThreadId},
    log::{Decision, Message, NewBody},
    time::Timestamp,
};

/// An input that waits in the queue of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingInput {
    /// Becomes the entry's id when it is consumed.
    pub id: EntryId,
    /// Whose it is.
    pub thread: ThreadId,
    /// Its place in the queue, from 1; worked out by [`PendingStore::load_queue`](super::PendingStore::load_queue).
    pub position: Option<u64>,
    /// The revision of the queue when this was appended or changed last. It never falls, not even for an id that was
    /// retracted and appended again.
    pub revision: u64,
    /// What it says.
    pub body: PendingBody,
    /// When it may be taken, and with what.
    pub delivery: Delivery,
    /// When it was appended.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(PendingInput {
    id: req,
    thread: req,
    position: opt,
    revision: req,
    body: req,
    delivery: def,
    created_at: req,
    updated_at: req,
});

impl PendingInput {
    /// The run that alone may take it, and whether a new run may once that is over.
    pub(super) fn target(&self) -> Option<(&RunId, bool)> {
        match (&self.body, &self.delivery.target) {
            (PendingBody::Decision(decision), _) => Some((&decision.run, false)),
            (PendingBody::Message(_), Some(target)) => Some((&target.run, target.fallback)),
            (PendingBody::Message(_), None) => None,
        }
    }

    /// For stores: what is remembered of the decision that this is; none for a message.
    #[must_use]
    pub fn decision(&self) -> Option<(&Decision, DecisionRecord)> {
        let PendingBody::Decision(decision) = &self.body else { return None };
        let record = DecisionRecord {
            id: self.id.clone(),
            revision: self.revision,
            digest: digest(decision),
            extra: Extra::default(),
        };
        Some((decision, record))
    }

    /// What a commit names to consume it as it is now.
    #[must_use]
    pub fn as_ref(&self) -> InputRef {
        InputRef { id: self.id.clone(), revision: self.revision }
    }
}

/// What an input says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each of them")]
pub enum PendingBody {
    /// A message.
    Message(Message),
    /// A decision on a ticket of a waiting run (RU-16).
    Decision(Decision),
}

/// `{"message": …}` or `{"decision": …}`, as the entry will have it.
impl Codec for PendingBody {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
        match self {
            Self::Message(message) => object.field("message", message),
            Self::Decision(decision) => object.field("decision", decision),
        };
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        if let Some(message) = fields.maybe("message")? {
            return Ok(Self::Message(message));
        }
        fields.take("decision").map(Self::Decision)
    }
}

serde_by_codec!(PendingBody);

impl From<PendingBody> for NewBody {
    fn from(body: PendingBody) -> Self {
        match body {
            PendingBody::Message(message) => Self::Message(message),
            PendingBody::Decision(decision) => Self::Decision(decision),
        }
    }
}

/// When an input may be taken, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// From which point of a run on.
    pub boundary: Boundary,
    /// Together with others, or alone.
    pub granularity: Granularity,
    /// Nothing behind it is taken before it or with it.
    pub barrier: bool,
    /// The run that it is for.
    pub target: Option<Target>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Delivery { boundary: def, granularity: def, barrier: def, target: opt });

impl Delivery {
    /// From this point of a run on, everything else as usual.
    #[must_use]
    pub fn at(boundary: Boundary) -> Self {
        Self { boundary, ..Self::default() }
    }

    /// The same, alone.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.granularity = Granularity::One;
        self
    }

    /// The same, as a barrier.
    #[must_use]
    pub const fn as_barrier(mut self) -> Self {
        self.barrier = true;
        self
    }

    /// The same for this run.
    #[must_use]
    pub fn for_run(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }
}

/// A point of a run at which input is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Boundary {
    /// At once: the run is interrupted.
    Interrupt,
    /// Before the next step of the run.
    NextStep,
    /// When the run would end by itself.
    OnNaturalEnd,
    /// At the beginning of a run.
    #[default]
    NewRun,
    /// When a waiting run goes on; stands apart from the others (PI-16).
    ResumeInput,
}

names!(Boundary as "boundary" {
    Interrupt = "interrupt",
    NextStep = "next_step",
    OnNaturalEnd = "on_natural_end",
    NewRun = "new_run",
    ResumeInput = "resume_input",
});

/// What an input is taken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Granularity {
    /// With others.
    #[default]
    Batch,
    /// Alone (PI-20).
    One,
}

names!(Granularity as "granularity" { Batch = "batch", One = "one", });

/// The run that an input is for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The run.
    pub run: RunId,
    /// Whether a new run may take it once that one is over.
    pub fallback: bool,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Target { run: req, fallback: req });

impl Target {
    /// This run; a new run once that one is over.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, fallback: true, extra: Extra::default() }
    }

    /// This run and no other.
    #[must_use]
    pub fn only(run: RunId) -> Self {
        Self { fallback: false, ..Self::new(run) }
    }
}

/// An input and the revision at which it is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InputRef {
    /// The input.
    pub id: EntryId,
    /// Its revision.
    pub revision: u64,
}

impl InputRef {
    /// `id` as it was at this revision.
    #[must_use]
    pub const fn new(id: EntryId, revision: u64) -> Self {
        Self { id, revision }
    }
}

/// An input to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewInput {
    /// Unique in the thread, its log included; generated if absent.
    pub id: Option<EntryId>,
    /// What it says.
    pub body: PendingBody,
    /// When it may be taken, and with what.
    pub delivery: Delivery,
}

impl NewInput {
    /// A message for the next run.
    #[must_use]
    pub fn message(message: Message) -> Self {
        Self { id: None, body: PendingBody::Message(message), delivery: Delivery::default() }
    }

    /// A decision, for the run that waits for it.
    #[must_use]
    pub fn decision(decision: Decision) -> Self {
        let delivery = Delivery::at(Boundary::ResumeInput);
        Self { id: None, body: PendingBody::Decision(decision), delivery }
    }

    /// The same with this id.
    #[must_use]
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same with this delivery.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

/// Inputs for the end of a thread's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendPending {
    /// The thread; made if it does not exist (PI-4).
    pub thread: ThreadId,
    /// The inputs, in order: all or none.
    pub inputs: Vec<NewInput>,
}

impl AppendPending {
    /// These inputs for `thread`.
    #[must_use]
    pub fn new(thread: ThreadId, inputs: impl IntoIterator<Item = NewInput>) -> Self {
        Self { thread, inputs: inputs.into_iter().collect() }
    }
}

/// What an append did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Appended {
    /// The inputs, in the order given.
    pub inputs: Vec<InputRef>,
    /// Whether all of them were there already (PI-2), so that nothing was written.
    pub deduplicated: bool,
}

impl Appended {
    /// For stores.
    #[must_use]
    pub const fn new(inputs: Vec<InputRef>, deduplicated: bool) -> Self {
        Self { inputs, deduplicated }
    }
}

/// The queue of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PendingQueue {
    /// Raised by each change of the queue; 0 for a thread that never had input.
    pub revision: u64,
    /// The inputs, the first first.
    pub inputs: Vec<PendingInput>,
}

impl PendingQueue {
    /// For stores: the inputs in order, with their positions.
    #[must_use]
    pub fn new(revision: u64, inputs: impl IntoIterator<Item = PendingInput>) -> Self {
        let place = |(position, input)| PendingInput { position: Some(position), ..input };
        Self { revision, inputs: (1..).zip(inputs).map(place).collect() }
    }
}

/// A change of one input that keeps its place (PI-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingUpdate {
    /// The thread.
    pub thread: ThreadId,
    /// The input.
    pub id: EntryId,
    /// What its revision must be.
    pub expect_revision: Option<u64>,
    /// The message from now on; absent: as before.
    pub message: Option<Message>,
    /// The delivery from now on; absent: as before.
    pub delivery: Option<Delivery>,
}

impl PendingUpdate {
    /// No change yet.
    #[must_use]
    pub const fn new(thread: ThreadId, id: EntryId) -> Self {
        Self { thread, id, expect_revision: None, message: None, delivery: None }
    }

    /// The same, if the input has this revision.
    #[must_use]
    pub const fn expecting(mut self, revision: u64) -> Self {
        self.expect_revision = Some(revision);
        self
    }

    /// The same with this message.
    #[must_use]
    pub fn with_message(mut self, message: Message) -> Self {
        self.message = Some(message);
        self
    }

    /// The same with this delivery.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }
}

/// A new order of the whole queue (PI-8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reorder {
    /// The thread.
    pub thread: ThreadId,
    /// What the revision of the queue must be.
    pub expect_revision: u64,
    /// Every input, once.
    pub order: Vec<EntryId>,
}

impl Reorder {
    /// This order, if the queue has this revision.
    #[must_use]
    pub const fn new(thread: ThreadId, expect_revision: u64, order: Vec<EntryId>) -> Self {
        Self { thread, expect_revision, order }
    }
}

/// What a store keeps of a queue beside its inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueState {
    /// Raised by each change.
    pub revision: u64,
    /// How many inputs wait.
    pub count: u64,
    /// The rank of the last input that was appended.
    pub last_rank: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(QueueState { revision: def, count: def, last_rank: def });

/// An input as a store keeps it: its place is a rank, which need not be dense.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInput {
    /// The input, without its position.
    pub input: PendingInput,
    /// What the queue is ordered by.
    pub rank: u64,
}

impl StoredInput {
    /// For stores: this input at this rank.
    #[must_use]
    pub const fn new(input: PendingInput, rank: u64) -> Self {
        Self { input, rank }
    }
}

/// What is remembered of a decision, as long as its run (RU-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The input that it was appended as.
    pub id: EntryId,
    /// The revision of that input.
    pub revision: u64,
    digest: String,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(DecisionRecord { id: req, revision: req, digest: req });

impl DecisionRecord {
    /// Whether it was this very decision.
    pub(super) fn is_of(&self, decision: &Decision) -> bool {
        self.digest == digest(decision)
    }
}

/// The number in front tells how it was made: later releases go on making it.
fn digest(decision: &Decision) -> String {
    format!("1:{}", sha256(&decision.encode()))
}
