//! The protocol: server-sent events, one for each word and one for the end.

use agentstore::{NewReplay, ReplayStreamRef, Result, RunId, WireEventId};

/// The type of the last event of a run.
pub(crate) const DONE: &str = "done";

/// Names the stream of a run.
pub(crate) fn stream_of(run: &RunId) -> Result<ReplayStreamRef> {
    ReplayStreamRef::new(run.as_str().parse()?, "words".parse()?, "1".parse()?)
}

/// Makes the event with this number of a run. It is sent as it is: its id, its type, its data, and an empty line.
///
/// The id contains the run, because the ids of a protocol are unique. A run id in a URL has no line breaks.
pub(crate) fn event(run: &RunId, number: u64, kind: &str, data: &str) -> Result<NewReplay> {
    let id = format!("{run}/{number}");
    let frame = format!("id: {id}\nevent: {kind}\ndata: {data}\n\n");
    Ok(NewReplay::new(WireEventId::new(id)?, kind.parse()?, frame))
}
