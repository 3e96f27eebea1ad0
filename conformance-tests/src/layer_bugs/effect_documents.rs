//! What planted bugs change in the documents of effects.

use serde_json::Value;
use store_core::{
    Document, DocumentChange, DocumentExpect, DocumentOp, DocumentRef, DocumentScope, DocumentStore, KeySegment, Result,
};

use super::{
    bug::LayerBug,
    effects::{collection, edit_object, with_segments},
};

/// Returns whether a document is that of an effect, and not an entry of their order.
pub(super) fn is_effect(document: &DocumentRef) -> bool {
    collection(&document.key) == "effects"
}

/// Returns the document that is loaded or written instead of that of an effect.
fn other_name(bug: LayerBug, document: &DocumentRef) -> DocumentRef {
    match bug {
        LayerBug::EffectsOfTheTenant => DocumentRef { scope: DocumentScope::Tenant, key: document.key.clone() },
        LayerBug::EffectRunsMerged => {
            let mut segments = document.key.segments();
            segments[0] = KeySegment::id("run").expect("a valid segment");
            with_segments(document, segments)
        }
        _ => document.clone(),
    }
}

/// Loads documents of which some are those of effects.
pub(super) async fn load(
    bug: LayerBug,
    documents: &dyn DocumentStore,
    wanted: &[DocumentRef],
) -> Result<Vec<Option<Document>>> {
    let names: Vec<_> = wanted.iter().map(|document| other_name(bug, document)).collect();
    let mut found = documents.load_documents(&names).await?;
    if bug == LayerBug::EffectCopyStays {
        let copies: Vec<_> = wanted.iter().map(|wanted| DocumentRef::from(wanted.key.clone())).collect();
        for (found, copy) in found.iter_mut().zip(documents.load_documents(&copies).await?) {
            *found = found.take().or(copy);
        }
    }
    for (found, wanted) in found.iter_mut().zip(wanted) {
        if let Some(found) = found {
            (found.scope, found.key) = (wanted.scope.clone(), wanted.key.clone());
        }
    }
    Ok(found)
}

/// Changes the changes of a write or of a commit, if they are about effects.
pub(super) fn change_changes(bug: LayerBug, changes: &mut Vec<DocumentChange>) {
    let copies: Vec<_> = changes.iter().filter(|change| is_effect(&change.document)).cloned().collect();
    for change in changes.iter_mut().filter(|change| is_effect(&change.document)) {
        if let DocumentOp::Put(value) = &mut change.op {
            change_value(bug, value);
        }
        change.document = other_name(bug, &change.document);
    }
    match bug {
        LayerBug::EffectCopyStays => changes.extend(copies.into_iter().map(|mut copy| {
            (copy.document.scope, copy.expect) = (DocumentScope::Tenant, DocumentExpect::Any);
            copy
        })),
        LayerBug::EffectLeftoversStay if copies.is_empty() => {
            for change in changes.iter_mut().filter(|change| collection(&change.document.key) == "effects.order") {
                change.op = DocumentOp::Keep;
            }
        }
        _ => {}
    }
}

/// Changes the value of an effect that is put.
fn change_value(bug: LayerBug, value: &mut store_core::Json) {
    if bug == LayerBug::EffectRetryHasAnotherKey {
        edit_object(value, |object| {
            let attempt = object.get("attempt").and_then(Value::as_u64).unwrap_or_default();
            if attempt > 1 {
                object.insert("idempotency_key".to_owned(), Value::from(format!("key of attempt {attempt}")));
            }
        });
    }
}

/// Returns whether a write of effects checks its expectations before it waits, and then writes without them.
pub(super) fn is_checked_early(bug: LayerBug, changes: &[DocumentChange]) -> bool {
    let expects = changes.iter().find(|change| is_effect(&change.document)).map(|change| change.expect);
    match bug {
        LayerBug::EffectBegunUnguarded => expects == Some(DocumentExpect::Absent),
        LayerBug::EffectRetryUnguarded => matches!(expects, Some(DocumentExpect::Revision(_))),
        _ => false,
    }
}
