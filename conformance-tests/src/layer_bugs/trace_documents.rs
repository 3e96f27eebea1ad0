//! What planted bugs change in the documents of traces.

use store_core::{
    Document, DocumentChange, DocumentExpect, DocumentOp, DocumentRef, DocumentScope, DocumentStore, Json, Result,
};

use super::{bug::LayerBug, effects::collection};

/// Returns whether a document is that of a trace or of one of its spans.
pub(super) fn is_of_trace(document: &DocumentRef) -> bool {
    matches!(collection(&document.key), "traces" | "traces.spans")
}

/// Loads documents of which some are those of traces.
pub(super) async fn load(
    bug: LayerBug,
    documents: &dyn DocumentStore,
    wanted: &[DocumentRef],
) -> Result<Vec<Option<Document>>> {
    let mut found = documents.load_documents(wanted).await?;
    match bug {
        LayerBug::TraceCopyStays => {
            let copies: Vec<_> = wanted.iter().map(|wanted| DocumentRef::from(wanted.key.clone())).collect();
            for ((found, copy), wanted) in found.iter_mut().zip(documents.load_documents(&copies).await?).zip(wanted) {
                let copy = copy.map(|mut copy| {
                    copy.scope = wanted.scope.clone();
                    copy
                });
                *found = found.take().or(copy);
            }
        }
        LayerBug::InterruptedPurgeForgotten => {
            for document in found.iter_mut().flatten() {
                let value = document.value.as_str().replace(r#""removing":true,"#, "");
                document.value = Json::parse(&value)?;
            }
        }
        _ => {}
    }
    Ok(found)
}

/// Changes the changes of a write, if they are about traces.
pub(super) fn change_changes(bug: LayerBug, changes: &mut Vec<DocumentChange>) {
    let is_in = |change: &DocumentChange, name: &str| collection(&change.document.key) == name;
    let is_put = |change: &DocumentChange| matches!(change.op, DocumentOp::Put(_));
    let of_trace = changes.iter().find(|change| is_in(change, "traces")).cloned();
    let is_of_a_pin = changes.iter().any(|change| is_in(change, "traces.pins"));
    match bug {
        LayerBug::TraceCopyStays => {
            let copies: Vec<_> = changes.iter().filter(|change| is_in(change, "traces")).cloned().collect();
            changes.extend(copies.into_iter().map(|mut copy| {
                (copy.document.scope, copy.expect) = (DocumentScope::Tenant, DocumentExpect::Any);
                copy
            }));
        }
        LayerBug::TraceUnguarded => {
            for change in changes.iter_mut().filter(|change| is_in(change, "traces")) {
                change.expect = DocumentExpect::Any;
            }
        }
        LayerBug::TraceDoesNotMove
            if of_trace.as_ref().is_some_and(|change| is_put(change) && change.expect != DocumentExpect::Absent) =>
        {
            changes.retain(|change| !is_in(change, "traces.order"));
        }
        LayerBug::TracePinUnguarded if is_of_a_pin => changes.retain(|change| !is_in(change, "traces")),
        LayerBug::TraceLeftoversStay if of_trace.is_none() => {
            for change in changes.iter_mut().filter(|change| is_in(change, "traces.order")) {
                change.op = DocumentOp::Keep;
            }
        }
        _ => {}
    }
}

/// Returns how long a write of traces waits, in milliseconds.
pub(super) fn pause(bug: LayerBug, changes: &[DocumentChange]) -> Option<u64> {
    let writes_trace = |change: &DocumentChange| collection(&change.document.key) == "traces";
    let pins = changes.iter().any(|change| collection(&change.document.key) == "traces.pins");
    match bug {
        LayerBug::TraceUnguarded if changes.iter().any(writes_trace) => Some(4),
        // The purge has read the pins, and the pin comes before it marks the trace.
        LayerBug::TracePinUnguarded if !pins && changes.iter().any(writes_trace) => Some(20),
        LayerBug::TracePinUnguarded if pins => Some(5),
        _ => None,
    }
}
