//! Pending inputs, their queue, and the requests that change it.

use serde::Serialize;

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, named_enum, record, serde_by_codec, sha256_hex},
    id::{EntryId, RunId, ThreadId},
    log::{Decision, Message, NewBody},
    time::Timestamp,
};

/// An input in the queue of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingInput {
    /// The id. When the input is consumed, the entry gets the same id.
    pub id: EntryId,
    /// The thread that the input belongs to.
    pub thread: ThreadId,
    /// The position in the queue, from 1; computed by [`PendingStore::load_queue`](super::PendingStore::load_queue).
    pub position: Option<u64>,
    /// The revision of the queue when the input was appended or last changed. It never decreases, not even for an id
    /// that was retracted and appended again.
    pub revision: u64,
    /// The content.
    pub body: PendingBody,
    /// When the input may be taken, and together with which other inputs.
    pub delivery: Delivery,
    /// When the input was appended.
    pub created_at: Timestamp,
    /// When the input was last changed.
    pub updated_at: Timestamp,
    /// Fields that a newer release wrote.
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
    /// Returns the run that the input is for, and whether another run may take the input once that run is done.
    pub(super) fn target(&self) -> Option<(&RunId, bool)> {
        match (&self.body, &self.delivery.target) {
            (PendingBody::Decision(decision), _) => Some((&decision.run, false)),
            (PendingBody::Message(_), Some(target)) => Some((&target.run, target.fallback)),
            (PendingBody::Message(_), None) => None,
        }
    }

    /// Returns the decision and the record that a store keeps about it, or none for a message. Only implementations of
    /// a store need this.
    #[must_use]
    pub fn decision(&self) -> Option<(&Decision, DecisionRecord)> {
        let PendingBody::Decision(decision) = &self.body else { return None };
        let record = DecisionRecord {
            id: self.id.clone(),
            revision: self.revision,
            digest: decision_digest(decision),
            extra: Extra::default(),
        };
        Some((decision, record))
    }

    /// Returns the reference with which a commit consumes the input at its current revision.
    #[must_use]
    pub fn to_input_ref(&self) -> InputRef {
        InputRef { id: self.id.clone(), revision: self.revision }
    }
}

/// The content of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all bodies are messages, and each of them would need a box")]
pub enum PendingBody {
    /// A message.
    Message(Message),
    /// A decision on a [`Ticket`](crate::Ticket) of a waiting run (RU-16).
    Decision(Decision),
}

/// Written as `{"message": …}` or `{"decision": …}`, with the value that the entry will have.
impl Codec for PendingBody {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
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

/// When an input may be taken, and together with which other inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The earliest boundary of a run at which the input may be taken.
    pub boundary: Boundary,
    /// Whether the input is taken together with others or alone.
    pub granularity: Granularity,
    /// Whether the input is a barrier: no input behind it is taken before it or together with it.
    pub barrier: bool,
    /// The run that the input is for.
    pub target: Option<RunTarget>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(Delivery { boundary: def, granularity: def, barrier: def, target: opt });

impl Delivery {
    /// Makes a delivery with this boundary and the defaults for everything else.
    #[must_use]
    pub fn at(boundary: Boundary) -> Self {
        Self { boundary, ..Self::default() }
    }

    /// Sets the granularity `one`: the input is taken alone.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.granularity = Granularity::One;
        self
    }

    /// Makes the input a barrier.
    #[must_use]
    pub const fn as_barrier(mut self) -> Self {
        self.barrier = true;
        self
    }

    /// Sets the run that the input is for.
    #[must_use]
    pub fn for_run(mut self, target: RunTarget) -> Self {
        self.target = Some(target);
        self
    }
}

/// A point in a run at which input is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Boundary {
    /// At once. The run is interrupted.
    Interrupt,
    /// Before the next step of the run.
    NextStep,
    /// When the run would end by itself.
    OnNaturalEnd,
    /// At the beginning of a run.
    #[default]
    NewRun,
    /// When a waiting run continues. Only input for this boundary is taken here, and it is taken nowhere else (PI-16).
    ResumeInput,
}

named_enum!(Boundary as "boundary" {
    Interrupt = "interrupt",
    NextStep = "next_step",
    OnNaturalEnd = "on_natural_end",
    NewRun = "new_run",
    ResumeInput = "resume_input",
});

/// Whether an input is taken together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Granularity {
    /// Together with others.
    #[default]
    Batch,
    /// Alone (PI-20).
    One,
}

named_enum!(Granularity as "granularity" { Batch = "batch", One = "one", });

/// The run that an input is for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunTarget {
    /// The id of the run.
    pub run: RunId,
    /// Whether another run that begins may take the input once this run is done.
    pub fallback: bool,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(RunTarget { run: req, fallback: req });

impl RunTarget {
    /// Makes a target with fallback: once the run is done, another run may take the input.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, fallback: true, extra: Extra::default() }
    }

    /// Makes a target without fallback: no other run may take the input.
    #[must_use]
    pub fn without_fallback(run: RunId) -> Self {
        Self { fallback: false, ..Self::new(run) }
    }
}

/// A reference to an input that has a given revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InputRef {
    /// The id of the input.
    pub id: EntryId,
    /// The revision that the input must have.
    pub revision: u64,
}

impl InputRef {
    /// Makes the reference to `id` at this revision.
    #[must_use]
    pub const fn new(id: EntryId, revision: u64) -> Self {
        Self { id, revision }
    }
}

/// An input to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewInput {
    /// The id, unique in the thread including its log; generated if absent.
    pub id: Option<EntryId>,
    /// The content.
    pub body: PendingBody,
    /// When the input may be taken, and together with which other inputs.
    pub delivery: Delivery,
}

impl NewInput {
    /// Makes an input with a message for the next run.
    #[must_use]
    pub fn message(message: Message) -> Self {
        Self { id: None, body: PendingBody::Message(message), delivery: Delivery::default() }
    }

    /// Makes an input with a decision for the run that waits for it.
    #[must_use]
    pub fn decision(decision: Decision) -> Self {
        let delivery = Delivery::at(Boundary::ResumeInput);
        Self { id: None, body: PendingBody::Decision(decision), delivery }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the delivery.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

/// A request to append inputs to the queue of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendPending {
    /// The thread. It is created if it does not exist (PI-4).
    pub thread: ThreadId,
    /// The inputs, in order. All are appended or none.
    pub inputs: Vec<NewInput>,
}

impl AppendPending {
    /// Makes a request to append these inputs to the queue of `thread`.
    #[must_use]
    pub fn new(thread: ThreadId, inputs: impl IntoIterator<Item = NewInput>) -> Self {
        Self { thread, inputs: inputs.into_iter().collect() }
    }
}

/// The result of an append to a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AppendedInputs {
    /// The inputs with their revisions, in the order given.
    pub inputs: Vec<InputRef>,
    /// Whether all inputs were already pending (PI-2), so that nothing was written.
    pub deduplicated: bool,
}

impl AppendedInputs {
    /// Creates the result of an append. Only implementations of a store need this.
    #[must_use]
    pub const fn new(inputs: Vec<InputRef>, deduplicated: bool) -> Self {
        Self { inputs, deduplicated }
    }
}

/// The queue of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PendingQueue {
    /// The revision of the queue. Each change increases it; 0 for a thread that never had input.
    pub revision: u64,
    /// The inputs, from the front of the queue to its end.
    pub inputs: Vec<PendingInput>,
}

impl PendingQueue {
    /// Creates the queue from its inputs in order, and sets their positions. Only implementations of a store need this.
    #[must_use]
    pub fn new(revision: u64, inputs: impl IntoIterator<Item = PendingInput>) -> Self {
        let with_position = |(position, input)| PendingInput { position: Some(position), ..input };
        Self { revision, inputs: (1..).zip(inputs).map(with_position).collect() }
    }
}

/// A request to change one input. The input keeps its position in the queue (PI-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingUpdate {
    /// The thread of the input.
    pub thread: ThreadId,
    /// The id of the input.
    pub id: EntryId,
    /// The revision that the input must have; absent if any is accepted.
    pub expect_revision: Option<u64>,
    /// The new message; absent to keep the present message.
    pub message: Option<Message>,
    /// The new delivery; absent to keep the present delivery.
    pub delivery: Option<Delivery>,
}

impl PendingUpdate {
    /// Makes a request that changes nothing yet.
    #[must_use]
    pub const fn new(thread: ThreadId, id: EntryId) -> Self {
        Self { thread, id, expect_revision: None, message: None, delivery: None }
    }

    /// Sets the revision that the input must have.
    #[must_use]
    pub const fn expecting(mut self, revision: u64) -> Self {
        self.expect_revision = Some(revision);
        self
    }

    /// Sets the new message.
    #[must_use]
    pub fn with_message(mut self, message: Message) -> Self {
        self.message = Some(message);
        self
    }

    /// Sets the new delivery.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }
}

/// A request for a new order of the whole queue (PI-8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reorder {
    /// The thread of the queue.
    pub thread: ThreadId,
    /// The revision that the queue must have.
    pub expect_revision: u64,
    /// The ids of all inputs, each once, in the new order.
    pub order: Vec<EntryId>,
}

impl Reorder {
    /// Makes a request for this order, if the queue has this revision.
    #[must_use]
    pub const fn new(thread: ThreadId, expect_revision: u64, order: Vec<EntryId>) -> Self {
        Self { thread, expect_revision, order }
    }
}

/// What a store keeps about a queue besides its inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueState {
    /// The revision of the queue. Each change increases it.
    pub revision: u64,
    /// The number of inputs in the queue.
    pub count: u64,
    /// The highest rank that was given to an input so far.
    pub last_rank: u64,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(QueueState { revision: def, count: def, last_rank: def });

/// An input as a store keeps it. The queue is ordered by rank; ranks may have gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInput {
    /// The input, without its position.
    pub input: PendingInput,
    /// The number that the queue is ordered by.
    pub rank: u64,
}

impl StoredInput {
    /// Creates the record of an input with this rank. Only implementations of a store need this.
    #[must_use]
    pub const fn new(input: PendingInput, rank: u64) -> Self {
        Self { input, rank }
    }
}

/// What a store keeps about a decision while its run exists (RU-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The id of the input that contained the decision.
    pub id: EntryId,
    /// The revision of that input.
    pub revision: u64,
    digest: String,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DecisionRecord { id: req, revision: req, digest: req });

impl DecisionRecord {
    /// Returns whether this is the record of an equal decision.
    pub(super) fn is_record_of(&self, decision: &Decision) -> bool {
        self.digest == decision_digest(decision)
    }
}

/// Returns the digest of a decision. Its prefix is the version of the digest; later releases can still compute old
/// versions.
fn decision_digest(decision: &Decision) -> String {
    format!("1:{}", sha256_hex(&decision.encode()))
}
