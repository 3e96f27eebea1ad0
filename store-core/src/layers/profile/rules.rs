//! The rules of profiles: where a value is kept, and what a change writes.

use super::{ProfileChange, ProfileOwner, ProfileValue};
use crate::{
    commit::StateOp,
    document::{Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result, Subject},
    event::NewEvent,
    id::{CollectionId, ProfileKey},
    layers::{audit::audit_of_change, conflict_in},
};

/// The collection of all profiles.
const COLLECTION: &str = "layer.profiles";

/// Returns the segments with which the keys of an owner begin.
///
/// The first one is a number for the type of the owner, so no id of one type is taken for that of another (PF-6).
pub(super) fn owner_segments(owner: &ProfileOwner) -> Result<Vec<KeySegment>> {
    let (number, id) = owner.number_and_id();
    Ok([KeySegment::Number(number)].into_iter().chain(id.map(KeySegment::id).transpose()?).collect())
}

/// Names the document of a value.
pub(super) fn document_of(owner: &ProfileOwner, key: &ProfileKey) -> Result<DocumentRef> {
    let mut segments = owner_segments(owner)?;
    segments.push(KeySegment::id(key)?);
    Ok(DocumentKey::new(collection()?, segments)?.into())
}

/// Returns the query for all values of an owner, in the order of their keys.
pub(super) fn query_of(owner: &ProfileOwner) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(collection()?).starting_with(owner_segments(owner)?))
}

/// Returns the collection of all profiles.
pub(super) fn collection() -> Result<CollectionId> {
    CollectionId::new(COLLECTION)
}

/// Reads from the key of a document whose value it contains, and the key of the value.
fn owner_and_key(key: &DocumentKey) -> Option<(ProfileOwner, ProfileKey)> {
    let segments = key.segments();
    let (number, id, key) = match segments.as_slice() {
        [KeySegment::Number(number), KeySegment::Id(key)] => (number, None, key),
        [KeySegment::Number(number), KeySegment::Id(id), KeySegment::Id(key)] => (number, Some(id.as_str()), key),
        _ => return None,
    };
    Some((ProfileOwner::from_number_and_id(*number, id).ok()?, ProfileKey::new(key).ok()?))
}

fn owner_and_key_of(document: &Document) -> Result<(ProfileOwner, ProfileKey)> {
    let corrupt = || Error::corrupt(format!("document {}: it is no value of a profile", document.key));
    owner_and_key(&document.key).ok_or_else(corrupt)
}

/// Reads the owner of the value that a document contains, and the segments with which the keys of the owner begin.
pub(super) fn owner_of(document: &Document) -> Result<(ProfileOwner, Vec<KeySegment>)> {
    let (owner, _) = owner_and_key_of(document)?;
    let segments = owner_segments(&owner)?;
    Ok((owner, segments))
}

/// Returns the value that the document with this key contains; none if it is no value of a profile.
pub(in crate::layers) fn record_in(key: &DocumentKey) -> Option<Subject> {
    let (owner, key) = (key.collection().as_str() == COLLECTION).then(|| owner_and_key(key)).flatten()?;
    Some(Subject::new("profile value", format!("{owner} {key}")))
}

/// Reads a value from its document.
pub(super) fn value_of(document: Document) -> Result<ProfileValue> {
    let (_, key) = owner_and_key_of(&document)?;
    let Document { value, revision, created_at, updated_at, .. } = document;
    Ok(ProfileValue { key, value, revision, created_at, updated_at })
}

/// Returns whether a change is decided from the stored value. If not, the store judges what the caller expects.
pub(super) const fn needs_stored_value(change: &ProfileChange) -> bool {
    change.audit.is_some() || !matches!(change.op, StateOp::Set(_) | StateOp::Remove)
}

/// Plans a change without the stored value.
pub(super) fn plan_blind_change(document: DocumentRef, change: &ProfileChange) -> DocumentChange {
    let planned = match &change.op {
        StateOp::Set(value) => DocumentChange::put(document, value.clone()),
        _ => DocumentChange::delete(document),
    };
    planned.expecting(change.expect)
}

/// Plans a change from the stored value, and its audit record. The change expects what was read.
///
/// # Errors
/// `Conflict` if the caller expects something else than what is stored; `Invalid` if the operation does not fit the
/// stored value (CM-39).
pub(super) fn plan_change(
    owner: &ProfileOwner,
    change: &ProfileChange,
    stored: Option<&Document>,
) -> Result<(DocumentChange, Option<NewEvent>)> {
    let document = document_of(owner, &change.key)?;
    let found = stored.map(|stored| stored.revision);
    if !change.expect.holds(found) {
        return Err(conflict_in(document, change.expect, found));
    }
    let before = stored.map(|stored| &stored.value);
    let after = change.op.apply(before)?;
    let audit = audit_of_change(change.audit.as_ref(), &owner.resource(&change.key)?, before, after.as_ref())?;
    let planned = match after {
        Some(value) => DocumentChange::put(document, value),
        None => DocumentChange::delete(document),
    };
    Ok((planned.expecting(found.map_or(DocumentExpect::Absent, DocumentExpect::Revision)), audit))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{document_of, owner_and_key, plan_blind_change, plan_change, query_of, record_in, value_of};
    use crate::{
        Document, DocumentChange, DocumentExpect, DocumentRef, ErrorKind, Json, ProfileChange, ProfileOwner,
        SharedScope, StateOp, document::StoredDocument, layers::audit::NewAudit,
    };

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    /// All owners with the same id.
    fn owners(id: &str) -> Vec<ProfileOwner> {
        vec![
            ProfileOwner::Agent(id.parse().unwrap()),
            ProfileOwner::User(id.parse().unwrap()),
            ProfileOwner::System,
            ProfileOwner::Shared(SharedScope::Global),
            ProfileOwner::Shared(SharedScope::ParentThread(id.parse().unwrap())),
            ProfileOwner::Shared(SharedScope::AgentType(id.parse().unwrap())),
            ProfileOwner::Shared(SharedScope::Thread(id.parse().unwrap())),
            ProfileOwner::Shared(SharedScope::Custom(id.parse().unwrap())),
        ]
    }

    fn document() -> DocumentRef {
        document_of(&ProfileOwner::System, &"k".parse().unwrap()).unwrap()
    }

    fn stored(value: &str) -> Document {
        let raw = format!(r#"{{"value":{value},"revision":7,"created_at":1,"updated_at":2}}"#);
        Document::new(document(), <StoredDocument as crate::codec::Codec>::read(&raw).unwrap())
    }

    #[test]
    fn every_owner_has_its_own_keys_pf_6() {
        let all: Vec<_> = ["a", "a/b", "global", "3"].into_iter().flat_map(owners).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        let documents: BTreeSet<_> =
            distinct.iter().map(|owner| document_of(owner, &"k".parse().unwrap()).unwrap()).collect();
        assert_eq!(documents.len(), distinct.len());
        for owner in &distinct {
            let range = query_of(owner).unwrap().key_range().unwrap();
            let in_range = documents.iter().filter(|document| range.contains(document.key.encoded())).count();
            assert_eq!(in_range, 1, "{owner}");
        }
    }

    #[test]
    fn an_owner_is_read_from_its_text_and_from_its_keys() {
        for owner in owners("a:b/c") {
            assert_eq!(owner.to_string().parse::<ProfileOwner>().unwrap(), owner);
            let document = document_of(&owner, &"k".parse().unwrap()).unwrap();
            assert_eq!(owner_and_key(&document.key).unwrap(), (owner, "k".parse().unwrap()));
        }
        for text in ["", "u1", "user", "user:", "system:x", "robot:r"] {
            assert_eq!(text.parse::<ProfileOwner>().unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
        let user = ProfileOwner::User("ada".parse().unwrap());
        let subject = record_in(&document_of(&user, &"k".parse().unwrap()).unwrap().key).unwrap();
        assert_eq!(subject.to_string(), "profile value `user:ada k`");
    }

    #[test]
    fn the_place_of_a_value_does_not_change() {
        let places: Vec<_> =
            owners("o").iter().map(|owner| document_of(owner, &"k".parse().unwrap()).unwrap().to_string()).collect();
        let wanted = ["1/o/k", "2/o/k", "3/k", "4/k", "5/o/k", "6/o/k", "7/o/k", "8/o/k"];
        assert_eq!(places, wanted.map(|place| format!("layer.profiles/{place}")));
    }

    #[test]
    fn the_longest_ids_fit_pf_6() {
        let longest = "x".repeat(256);
        for owner in owners(&longest) {
            assert!(document_of(&owner, &longest.parse().unwrap()).is_ok());
        }
    }

    #[test]
    fn a_value_is_read_from_its_document() {
        let value = value_of(stored("[1]")).unwrap();
        assert_eq!((value.key.as_str(), value.value.as_str(), value.revision), ("k", "[1]", 7));
    }

    #[test]
    fn changes_are_decided_from_the_stored_value_pf_2() {
        let check = |op: StateOp, expect, found: Option<&str>, wanted: Result<DocumentChange, ErrorKind>| {
            let change = ProfileChange::new("k".parse().unwrap(), op).expecting(expect);
            let planned = plan_change(&ProfileOwner::System, &change, found.map(stored).as_ref());
            let planned = planned.map(|(planned, _)| planned).map_err(|error| error.kind());
            assert_eq!(planned, wanted, "{change:?} {found:?}");
        };
        let put = |text: &str| DocumentChange::put(document(), json(text));
        let seven = DocumentExpect::Revision(7);
        check(StateOp::Add(2), DocumentExpect::Any, Some("3"), Ok(put("5").expecting(seven)));
        check(StateOp::Add(2), DocumentExpect::Any, None, Ok(put("2").expecting(DocumentExpect::Absent)));
        check(StateOp::Add(2), DocumentExpect::Any, Some("true"), Err(ErrorKind::Invalid));
        check(StateOp::Max(2), seven, Some("3"), Ok(put("3").expecting(seven)));
        check(StateOp::Max(2), DocumentExpect::Revision(6), Some("3"), Err(ErrorKind::Conflict));
        check(StateOp::Append(vec![json("1")]), DocumentExpect::Absent, Some("[]"), Err(ErrorKind::Conflict));
        check(StateOp::Append(vec![json("1")]), DocumentExpect::Present, None, Err(ErrorKind::Conflict));
        check(StateOp::Merge(json(r#"{"a":1}"#)), seven, Some("{}"), Ok(put(r#"{"a":1}"#).expecting(seven)));
        check(StateOp::Remove, seven, Some("1"), Ok(DocumentChange::delete(document()).expecting(seven)));
    }

    #[test]
    fn a_change_of_the_value_is_audited_au_1() {
        let check = |op: StateOp, found: Option<&str>, wanted: Option<&str>| {
            let change = ProfileChange::new("k".parse().unwrap(), op).audited(NewAudit::new("ada".parse().unwrap()));
            let (_, audit) = plan_change(&ProfileOwner::System, &change, found.map(stored).as_ref()).unwrap();
            assert_eq!(audit.as_ref().map(|audit| audit.kind.as_str()), wanted, "{change:?} {found:?}");
        };
        check(StateOp::Set(json("1")), None, Some("create"));
        check(StateOp::Add(1), Some("1"), Some("update"));
        check(StateOp::Remove, Some("1"), Some("delete"));
        check(StateOp::Set(json("1")), Some("1"), None);
        check(StateOp::Max(0), Some("1"), None);
        check(StateOp::Remove, None, None);
    }

    #[test]
    fn a_put_and_a_delete_need_no_stored_value() {
        let put = ProfileChange::put("k".parse().unwrap(), json("1")).expecting(DocumentExpect::Absent);
        let wanted = DocumentChange::put(document(), json("1")).expecting(DocumentExpect::Absent);
        assert_eq!(plan_blind_change(document(), &put), wanted);
        let delete = ProfileChange::delete("k".parse().unwrap());
        assert_eq!(plan_blind_change(document(), &delete), DocumentChange::delete(document()));
    }
}
