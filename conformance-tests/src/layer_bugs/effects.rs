//! What each planted bug changes in the names, values and writes of a layer's documents.

use serde_json::{Map, Value};
use store_core::{
    Direction, Document, DocumentChange, DocumentExpect, DocumentKey, DocumentOp, DocumentQuery, DocumentRef,
    EventVisibility, Json, KeySegment, WriteDocuments,
};

use super::{bug::LayerBug, effect_documents, trace_documents};

/// Returns the name of the collection without the prefix that all layers have.
pub(super) fn collection(key: &DocumentKey) -> &str {
    key.collection().as_str().trim_start_matches("layer.").trim_start_matches("registry.")
}

fn is_profile(document: &DocumentRef) -> bool {
    collection(&document.key) == "profiles"
}

/// Returns the document with other segments.
pub(super) fn with_segments(document: &DocumentRef, segments: Vec<KeySegment>) -> DocumentRef {
    let key = DocumentKey::new(document.key.collection().clone(), segments).expect("a valid key");
    DocumentRef { scope: document.scope.clone(), key }
}

/// Returns the document that is loaded or written instead.
pub(super) fn other_name(bug: LayerBug, document: &DocumentRef) -> DocumentRef {
    let mut segments = document.key.segments();
    match (bug, collection(&document.key)) {
        (LayerBug::CheckpointsOfTheTenant, "stream_checkpoints") => return document.key.clone().into(),
        (LayerBug::ProfileOwnersMerged, "profiles") => segments[0] = KeySegment::Number(1),
        (LayerBug::ProfileKeysFolded, "profiles") => {
            let last = segments.pop().map(|segment| segment.to_string().to_lowercase()).unwrap_or_default();
            segments.push(KeySegment::id(last).expect("a valid segment"));
        }
        _ => return document.clone(),
    }
    with_segments(document, segments)
}

/// Returns the document that is loaded instead.
pub(super) fn other_loaded(bug: LayerBug, document: &DocumentRef) -> DocumentRef {
    match (bug, collection(&document.key), document.key.segments().as_slice()) {
        (LayerBug::NextSnapshotLoaded, "publications", [KeySegment::Number(number)]) => {
            with_segments(document, vec![KeySegment::Number(number + 1)])
        }
        _ => other_name(bug, document),
    }
}

/// Changes a loaded document.
pub(super) fn change_loaded(bug: LayerBug, document: &mut Document) {
    let replace = |document: &mut Document, from: &str, to: &str| {
        document.value = Json::parse(&document.value.as_str().replace(from, to)).expect("valid JSON");
    };
    match (bug, collection(&document.key)) {
        (LayerBug::CurrentHashForgotten, "definitions") => replace(document, "sha256-jcs:", "x:"),
        (LayerBug::IdsNameTheNext, "publication_ids") => {
            let snapshot: u64 = document.value.to().expect("a snapshot number");
            document.value = Json::of(&(snapshot + 1)).expect("valid JSON");
        }
        (LayerBug::ArchivedIgnored, "definitions") => replace(document, r#","archived":true"#, ""),
        (LayerBug::ProfileRevisionTooHigh, "profiles") => document.revision += 1,
        _ => {}
    }
}

/// Changes a query.
pub(super) fn change_query(bug: LayerBug, query: &mut DocumentQuery) {
    const MAX_PAGE: Option<u32> = Some(store_core::MAX_PAGE);
    let name = query.collection.as_str().trim_start_matches("layer.").trim_start_matches("registry.");
    match (bug, name) {
        (LayerBug::ProfileListedBackward, "profiles") => query.direction = Direction::Backward,
        (LayerBug::ProfileListHasAllOwners, "profiles") if query.page.limit != MAX_PAGE => query.prefix.truncate(1),
        (LayerBug::ProfileClearHasAllOwners, "profiles") if query.page.limit == MAX_PAGE => query.prefix.truncate(1),
        (LayerBug::ProfileOwnersMerged, "profiles") => query.prefix[0] = KeySegment::Number(1),
        (LayerBug::ProfileOwnersLeftOut, "profiles") => {
            query.after_prefix.iter_mut().for_each(|segments| segments.truncate(1));
        }
        (LayerBug::KindsRepeated, "definitions") => query.from = last_of_kind(query.after_prefix.take()),
        (LayerBug::LatestNotFound, "publications") if query.page.limit == Some(1) => {
            query.prefix.push(KeySegment::Number(0));
        }
        (LayerBug::PublicationsOldestFirst, "publications") => query.direction = Direction::Forward,
        (LayerBug::PinsNotFound, "pins") => query.prefix.truncate(1),
        _ => {}
    }
    if bug == LayerBug::PinsNotFound && name == "pins" {
        query.prefix.push(KeySegment::Number(0));
    }
}

/// Returns segments in front of the last definitions of a kind.
fn last_of_kind(kind: Option<Vec<KeySegment>>) -> Option<Vec<KeySegment>> {
    let mut segments = kind?;
    segments.push(KeySegment::id("z").expect("a valid segment"));
    Some(segments)
}

pub(super) fn edit_object(value: &mut Json, edit: impl FnOnce(&mut Map<String, Value>)) {
    let mut parsed: Value = serde_json::from_str(value.as_str()).expect("valid JSON");
    if let Some(object) = parsed.as_object_mut() {
        edit(object);
    }
    *value = Json::of(&parsed).expect("valid JSON");
}

/// Changes the value that a layer puts.
fn change_value(bug: LayerBug, name: &str, value: &mut Json) {
    match (bug, name) {
        (LayerBug::ProfileNumbersRewritten, "profiles") => {
            let parsed: Value = serde_json::from_str(value.as_str()).expect("valid JSON");
            *value = Json::of(&parsed).expect("valid JSON");
        }
        (LayerBug::HashWithoutName, "versions") => {
            *value = Json::parse(&value.as_str().replace("sha256-jcs:", "")).expect("valid JSON");
        }
        (LayerBug::CopyWithoutOrigin, "versions") => edit_object(value, |object| drop(object.remove("copied_from"))),
        (LayerBug::ArchivingForgotten, "definitions") => edit_object(value, |object| drop(object.remove("archived"))),
        (LayerBug::RollbackForgotten, "publications") => {
            edit_object(value, |object| drop(object.remove("rollback_of")));
        }
        _ => {}
    }
}

/// Changes the expectation of a change.
fn change_expectation(bug: LayerBug, change: &mut DocumentChange) {
    let is_put = matches!(change.op, DocumentOp::Put(_));
    let is_delete = change.op == DocumentOp::Delete;
    let expect = change.expect;
    let is_revision = matches!(expect, DocumentExpect::Revision(_));
    match bug {
        LayerBug::ProfileRevisionIgnored if is_put && is_revision => change.expect = DocumentExpect::Any,
        LayerBug::ProfileAbsenceIgnored if is_put && expect == DocumentExpect::Absent => {
            change.expect = DocumentExpect::Any;
        }
        LayerBug::ProfileDeletionUnguarded if is_delete => change.expect = DocumentExpect::Any,
        LayerBug::ProfileDeletionNeedsTheValue if is_delete && expect == DocumentExpect::Any => {
            change.expect = DocumentExpect::Present;
        }
        LayerBug::ProfileOperationUnguarded | LayerBug::ProfileOperationsForgetTheValue if is_put => {
            change.expect = DocumentExpect::Any;
        }
        _ => {}
    }
}

/// Returns whether a change is not made at all.
fn is_dropped(bug: LayerBug, change: &DocumentChange) -> bool {
    let is_put = matches!(change.op, DocumentOp::Put(_));
    let is_delete = change.op == DocumentOp::Delete;
    match (bug, collection(&change.document.key)) {
        (LayerBug::PublicationIdForgotten, "publication_ids") => is_put,
        (LayerBug::PublishedForgotten, "pins") => {
            is_put && change.document.key.segments().last() == Some(&KeySegment::Number(1))
        }
        (LayerBug::ChangedVersionsIgnored, "versions") => is_put && change.expect == DocumentExpect::Any,
        (LayerBug::DeletedVersionsLoaded, "versions") | (LayerBug::MarksStay, "marks") => is_delete,
        (LayerBug::PinsStay, "pins") => is_delete,
        (LayerBug::MarksUnchecked | LayerBug::PinsUnguarded, "marks") => change.op == DocumentOp::Keep,
        (LayerBug::ReplayPurgeLeavesBytes, "replay.records")
        | (LayerBug::CheckpointRemovalForgotten, "stream_checkpoints") => is_delete,
        (LayerBug::CheckpointIndexForgotten, "stream_checkpoints.index") => is_put,
        (LayerBug::EvaluationResultsStay, "evaluations.results") => change.op == DocumentOp::Delete,
        _ => false,
    }
}

/// Changes the changes of a write or of a commit.
pub(super) fn change_changes(bug: LayerBug, changes: &mut Vec<DocumentChange>) {
    effect_documents::change_changes(bug, changes);
    trace_documents::change_changes(bug, changes);
    for change in changes.iter_mut() {
        let name = collection(&change.document.key).to_owned();
        if is_profile(&change.document) {
            change_expectation(bug, change);
        }
        if let DocumentOp::Put(value) = &mut change.op {
            change_value(bug, &name, value);
        }
        change.document = other_name(bug, &change.document);
    }
    for change in changes.iter_mut().filter(|change| is_dropped(bug, change)) {
        (change.op, change.expect) = (DocumentOp::Keep, DocumentExpect::Any);
    }
    change_list(bug, changes);
}

/// Changes which documents a write changes.
fn change_list(bug: LayerBug, changes: &mut Vec<DocumentChange>) {
    let is_put_in = |change: &DocumentChange, name: &str| {
        matches!(change.op, DocumentOp::Put(_)) && collection(&change.document.key) == name
    };
    let version_of_definition = |change: &DocumentChange| {
        let versions = "layer.registry.versions".parse().expect("a valid collection");
        let segments = change.document.key.segments().into_iter().take(2).chain([KeySegment::Number(1)]);
        DocumentRef::from(DocumentKey::new(versions, segments).expect("a valid key"))
    };
    let of_profiles = changes.first().is_some_and(|change| is_profile(&change.document));
    match bug {
        LayerBug::ProfileFirstChangeOnly if of_profiles => changes.truncate(1),
        LayerBug::ProfileKeyNamedTwice if of_profiles => {
            let all = changes.clone();
            let is_last = |at: usize| all.iter().skip(at + 1).all(|later| later.document != all[at].document);
            *changes = (0..all.len()).filter(|at| is_last(*at)).map(|at| all[at].clone()).collect();
        }
        LayerBug::VersionsOverwritten => {
            for change in changes.iter_mut().filter(|change| is_put_in(change, "versions")) {
                (change.document, change.expect) = (version_of_definition(change), DocumentExpect::Any);
            }
        }
        LayerBug::FirstVersionFollows => {
            let new = changes.iter().find(|change| is_put_in(change, "versions")).cloned();
            let new = new.map(|change| (version_of_definition(&change), change));
            if let Some((first, mut change)) = new.filter(|(first, change)| *first != change.document) {
                (change.document, change.expect) = (first, DocumentExpect::Any);
                changes.push(change);
            }
        }
        LayerBug::ArchivingRemovesAVersion => {
            let is_archival = |change: &&DocumentChange| matches!(&change.op, DocumentOp::Put(value) if value.as_str().contains(r#""archived":true"#));
            let removed = changes.iter().find(is_archival).map(version_of_definition);
            changes.extend(removed.map(DocumentChange::delete));
        }
        LayerBug::LastVersionForgotten if changes.iter().any(|change| is_put_in(change, "publications")) => {
            let last = changes.iter().rposition(|change| is_put_in(change, "versions"));
            if let Some(last) = last {
                changes.remove(last);
            }
        }
        LayerBug::ReplayUnguarded | LayerBug::CheckpointUnguarded => {
            changes.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
        }
        LayerBug::CheckpointRemovalGuarded => {
            let is_removal = |change: &&mut DocumentChange| change.op == DocumentOp::Delete;
            changes.iter_mut().filter(is_removal).for_each(|change| change.expect = DocumentExpect::Present);
        }
        LayerBug::ReplayRemnantStays if changes.iter().any(|change| is_put_in(change, "replay.records")) => {
            changes.retain(|change| change.op != DocumentOp::Delete);
        }
        LayerBug::VersionsUnguarded | LayerBug::PublicationsUnguarded if !of_profiles => {
            changes.retain(|change| change.op != DocumentOp::Keep);
            changes.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
        }
        _ => {}
    }
}

/// Changes the events of a write.
pub(super) fn change_events(bug: LayerBug, request: &mut WriteDocuments) {
    let Some(append) = &mut request.events else { return };
    match bug {
        LayerBug::FeedWrittenTwice => {
            let drafts = append.drafts.clone();
            append.drafts.extend(drafts);
        }
        LayerBug::FeedNamesTheFirst => {
            for payload in append.drafts.iter_mut().filter_map(|draft| draft.payload.as_mut()) {
                edit_object(payload, |object| drop(object.insert("snapshot".to_owned(), Value::from(1))));
            }
        }
        LayerBug::FeedBeforeTheDecision => request.events = None,
        LayerBug::ProfileAuditForgotten | LayerBug::RegistryAuditForgotten => {
            append.drafts.retain(|draft| draft.visibility != EventVisibility::Audit);
            if append.drafts.is_empty() {
                request.events = None;
            }
        }
        LayerBug::RestoredProfileIsNull | LayerBug::RestoredVersionIsNull
            if append.drafts.iter().any(|draft| draft.kind.as_str() == "restore") =>
        {
            for change in &mut request.changes {
                match (collection(&change.document.key), &mut change.op) {
                    ("profiles", DocumentOp::Put(value)) => *value = Json::null(),
                    ("versions", DocumentOp::Put(value)) => {
                        edit_object(value, |object| drop(object.insert("value".to_owned(), Value::Null)));
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
