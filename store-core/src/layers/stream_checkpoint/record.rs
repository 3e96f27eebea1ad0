//! Stream checkpoints, as readers see them and as they are stored.

use serde::Serialize;

use crate::{
    codec::{Codec, Extra, record},
    document::Document,
    error::{Error, Result},
    id::{RunId, ThreadId},
    log::ToolUse,
    time::Timestamp,
};

/// The part of an answer that was received before its stream broke.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PartialAnswer {
    /// The number of the step in its run. The writer counts.
    pub step: u64,
    /// The model that answers.
    pub model: Option<String>,
    /// The text received so far.
    pub text: String,
    /// The tool calls whose arguments were received in full, in order.
    pub finished_calls: Vec<ToolUse>,
    /// The tool call whose arguments were not received in full.
    pub call_in_flight: Option<CallInFlight>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(PartialAnswer { step: def, model: opt, text: def, finished_calls: def, call_in_flight: opt });

impl PartialAnswer {
    /// Makes the answer of a step of which nothing was received yet.
    #[must_use]
    pub fn new(step: u64) -> Self {
        Self { step, ..Self::default() }
    }

    /// Sets the model.
    #[must_use]
    pub fn by_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds a tool call whose arguments were received in full.
    #[must_use]
    pub fn with_finished_call(mut self, call: ToolUse) -> Self {
        self.finished_calls.push(call);
        self
    }

    /// Sets the tool call whose arguments were not received in full.
    #[must_use]
    pub fn with_call_in_flight(mut self, call: CallInFlight) -> Self {
        self.call_in_flight = Some(call);
        self
    }
}

/// A tool call whose arguments were not received in full.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInFlight {
    /// The id that the provider gave to the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The beginning of the arguments, as text. It is no JSON yet.
    pub arguments: String,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(CallInFlight { id: req, name: req, arguments: def });

impl CallInFlight {
    /// Makes a call of which no argument was received yet.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: String::new(), extra: Extra::default() }
    }

    /// Sets the beginning of the arguments.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl Into<String>) -> Self {
        self.arguments = arguments.into();
        self
    }
}

/// The checkpoint of a run's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StreamCheckpoint {
    /// The thread of the run.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// The number that the writer gave to the checkpoint. Later checkpoints of the run have larger ones.
    pub sequence: u64,
    /// What was received.
    pub answer: PartialAnswer,
    /// Store time of the put.
    pub updated_at: Timestamp,
}

/// What the document of a checkpoint contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredCheckpoint {
    pub(super) sequence: u64,
    pub(super) answer: PartialAnswer,
    pub(super) extra: Extra,
}

record!(StoredCheckpoint { sequence: req, answer: req });

impl StoredCheckpoint {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what stream checkpoints are", document.key))
}
