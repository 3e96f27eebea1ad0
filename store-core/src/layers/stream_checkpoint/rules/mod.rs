//! The rules of stream checkpoints: which put counts, whether a run still needs one, and how an answer goes on.

use super::{
    keys::documents_of,
    record::{CallInFlight, PartialAnswer, StoredCheckpoint},
    request::{PutStreamCheckpoint, StreamCheckpointOutcome},
};
use crate::{
    codec::Extra,
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::Result,
    id::{RunId, ThreadId},
    json::Json,
    layers::encoded,
    log::ToolUse,
    run::{Run, RunPhase},
};

/// Plans a put over the stored checkpoint (SC-2).
pub(super) fn plan_put(
    request: &PutStreamCheckpoint,
    found: Option<&Document>,
) -> Result<(StreamCheckpointOutcome, Option<WriteDocuments>)> {
    let PutStreamCheckpoint { thread, run, sequence, answer, fence } = request;
    let stored = found.map(StoredCheckpoint::from_document).transpose()?;
    if let Some(stored) = stored.filter(|stored| stored.sequence >= *sequence) {
        return Ok((StreamCheckpointOutcome::Ignored { stored: stored.sequence }, None));
    }
    let [checkpoint, index] = documents_of(thread, run)?;
    let value = encoded(&StoredCheckpoint { sequence: *sequence, answer: answer.clone(), extra: Extra::default() })?;
    let expect = found.map_or(DocumentExpect::Absent, |found| DocumentExpect::Revision(found.revision));
    let mut write = WriteDocuments::new([DocumentChange::put(checkpoint, value).expecting(expect)]);
    if found.is_none() {
        write.changes.push(DocumentChange::put(index, Json::parse("{}")?));
    }
    write.fence = fence.clone().map(|fence| (thread.clone(), fence));
    Ok((StreamCheckpointOutcome::Stored, Some(write)))
}

/// Returns whether a run may still need its checkpoint (SC-4). A run that is unknown may be committed later.
pub(super) fn is_needed(run: Option<&Run>) -> bool {
    run.is_none_or(|run| run.status.phase() != RunPhase::Done)
}

/// Returns the changes that remove the checkpoint of a run, for the commit that contains its answer (SC-3). They expect
/// nothing, so they never refuse the commit (SC-7).
///
/// # Errors
/// None for any thread and run.
pub fn stream_checkpoint_removal(thread: &ThreadId, run: &RunId) -> Result<[DocumentChange; 2]> {
    Ok(documents_of(thread, run)?.map(DocumentChange::delete))
}

/// How an answer goes on after its stream broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing useful was received: ask the model again.
    StartAgain,
    /// Text was received: let the model continue it.
    Continue {
        /// The text, as it was received.
        text: String,
    },
    /// Text was received, and the beginning of a tool call, which is dropped: let the model continue after the text.
    CutBeforeCall {
        /// The text, as it was received.
        text: String,
        /// The call that is dropped.
        dropped: CallInFlight,
    },
    /// Tool calls were received in full: use them. A call that was in flight is dropped.
    UseCalls {
        /// The text before the calls, as it was received; may be empty.
        text: String,
        /// The calls, in order.
        calls: Vec<ToolUse>,
    },
}

impl PartialAnswer {
    /// Decides how the answer goes on after its stream broke (SC-5). Text that consists of white space only is not
    /// useful.
    ///
    /// ```
    /// use store_core::{PartialAnswer, Recovery};
    ///
    /// let answer = PartialAnswer::new(1).with_text("The capital of France");
    /// assert_eq!(answer.recovery(), Recovery::Continue { text: "The capital of France".to_owned() });
    /// assert_eq!(PartialAnswer::new(1).recovery(), Recovery::StartAgain);
    /// ```
    #[must_use]
    pub fn recovery(self) -> Recovery {
        let Self { text, finished_calls: calls, call_in_flight, .. } = self;
        if !calls.is_empty() {
            return Recovery::UseCalls { text, calls };
        }
        match call_in_flight {
            _ if text.trim().is_empty() => Recovery::StartAgain,
            Some(dropped) => Recovery::CutBeforeCall { text, dropped },
            None => Recovery::Continue { text },
        }
    }
}

#[cfg(test)]
mod tests;
