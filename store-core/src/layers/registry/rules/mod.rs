//! The rules of the registry: hashes, the next version, what a publication writes, what a run pins.

use std::collections::BTreeSet;

use super::{
    keys::{self, Collection, Loaded},
    record::{
        DefinitionRef, DefinitionState, NewVersion, PublicationContent, PublicationEntry, PublishAll, PublishedVersion,
        VersionContent, VersionRef,
    },
};
use crate::{
    codec::{Codec, Extra, ObjectWriter, canonical_json, record, sha256_hex},
    document::{DocumentChange, DocumentExpect, DocumentRef},
    error::{Detail, Error, Result, Subject},
    event::NewEvent,
    id::{EventKind, PublicationId, RunId},
    json::Json,
    version::{Expect, Version},
};

/// The name in front of a content hash. Another way of hashing would get another name.
const HASH_NAME: &str = "sha256-jcs:";

pub(super) const PUBLISHED: &str = "registry.published";
pub(super) const ARCHIVED: &str = "registry.archived";
pub(super) const UNARCHIVED: &str = "registry.unarchived";

/// A snapshot number, as the registry stores it.
pub(super) struct SnapshotNumber {
    pub(super) snapshot: u64,
    pub(super) extra: Extra,
}

record!(SnapshotNumber { snapshot: req });

/// The payload of the event of a publication.
pub(super) struct PublishedFact {
    pub(super) snapshot: u64,
    pub(super) publication: PublicationId,
    pub(super) extra: Extra,
}

record!(PublishedFact { snapshot: req, publication: req });

/// Returns the content hash of a version: SHA-256 over the canonical JSON (RFC 8785) of schema version and value, with
/// the name of the method in front (RG-3).
///
/// # Errors
/// `Invalid` for a value that RFC 8785 does not admit: a key that occurs twice, text with half of a surrogate pair, a
/// number outside of the range of a double, and a whole number beyond 2^53 - 1 that is written with digits only.
pub fn content_hash(schema_version: u32, value: &Json) -> Result<String> {
    // These two keys are in the order of RFC 8785.
    let text = format!(r#"{{"schema_version":{schema_version},"value":{}}}"#, canonical_json(value)?);
    Ok(format!("{HASH_NAME}{}", sha256_hex(&text)))
}

pub(super) fn encoded(value: &impl Codec) -> Result<Json> {
    Json::parse(&value.encode())
}

fn snapshot_number(snapshot: u64) -> Result<Json> {
    encoded(&SnapshotNumber { snapshot, extra: Extra::default() })
}

/// Returns the expectation that a document is as it was found.
pub(super) fn unchanged(revision: Option<u64>) -> DocumentExpect {
    revision.map_or(DocumentExpect::Absent, DocumentExpect::Revision)
}

fn refuse_archived(definition: &DefinitionRef) -> Error {
    let what = Subject::new("definition", definition.to_string());
    Error::new(Detail::InvalidTransition { what, from: "archived".to_owned(), to: "published".to_owned() })
}

/// What publishing one content writes.
pub(super) struct PlannedVersion {
    pub(super) published: PublishedVersion,
    pub(super) changes: Vec<DocumentChange>,
}

/// Decides which version a content gets (RG-1): that of the current version if it has the same content, else the next.
///
/// # Errors
/// `Invalid` for schema version 0 and for a value that has no hash; `InvalidTransition` if the definition is archived.
pub(super) fn plan_version(new: &NewVersion, loaded: &Loaded) -> Result<PlannedVersion> {
    let NewVersion { definition, schema_version, value, metadata, copied_from } = new.clone();
    if schema_version == 0 {
        return Err(Error::invalid("schema_version", "it must be 1 or more"));
    }
    let hash = content_hash(schema_version, &value)?;
    let document = keys::definition(&definition)?;
    let found = loaded.value::<DefinitionState>(&document)?;
    let expect = unchanged(found.as_ref().map(|(_, revision)| *revision));
    let state = found.map(|(state, _)| state);
    if state.as_ref().is_some_and(|state| state.archived) {
        return Err(refuse_archived(&definition));
    }
    if let Some(state) = state.as_ref().filter(|state| state.hash == hash) {
        let published = PublishedVersion { name: definition.at(state.current), hash, created: false };
        // The definition must still be as it was found when a publication names the version.
        return Ok(PlannedVersion { published, changes: vec![DocumentChange::check(document, expect)] });
    }
    let name = definition.at(state.as_ref().map_or(0, |state| state.current) + 1);
    let extra = state.map(|state| state.extra).unwrap_or_default();
    let state = DefinitionState { current: name.version, hash: hash.clone(), archived: false, extra };
    let content =
        VersionContent { hash: hash.clone(), schema_version, value, metadata, copied_from, extra: Extra::default() };
    let changes = vec![
        DocumentChange::put(document, encoded(&state)?).expecting(expect),
        DocumentChange::put(Collection::Versions.of_version(&name)?, encoded(&content)?)
            .expecting(DocumentExpect::Absent),
    ];
    Ok(PlannedVersion { published: PublishedVersion { name, hash, created: true }, changes })
}

/// Decides whether an existing version can be in a publication, and returns its hash with what the write expects.
///
/// # Errors
/// `NotFound` for an unknown version; `InvalidTransition` if the definition is archived.
fn plan_existing(name: &VersionRef, loaded: &Loaded) -> Result<PlannedVersion> {
    let (definition, version) = (keys::definition(&name.definition)?, Collection::Versions.of_version(name)?);
    let state = loaded.value::<DefinitionState>(&definition)?;
    let content = loaded.value::<VersionContent>(&version)?;
    let (Some((state, revision)), Some((content, _))) = (state, content) else {
        return Err(Error::not_found("version", name.to_string()));
    };
    if state.archived {
        return Err(refuse_archived(&name.definition));
    }
    let changes = vec![
        DocumentChange::check(definition, DocumentExpect::Revision(revision)),
        DocumentChange::check(version, DocumentExpect::Present),
    ];
    let published = PublishedVersion { name: name.clone(), hash: content.hash, created: false };
    Ok(PlannedVersion { published, changes })
}

/// Returns the documents from which a publication is decided.
pub(super) fn documents_of_publication(request: &PublishAll) -> Result<Vec<DocumentRef>> {
    let mut documents = vec![keys::latest()?, keys::publication_id(&request.id)?];
    for new in &request.versions {
        documents.push(keys::definition(&new.definition)?);
    }
    for name in &request.existing {
        documents.push(keys::definition(&name.definition)?);
        documents.push(Collection::Versions.of_version(name)?);
    }
    Ok(documents)
}

/// What a publication writes.
pub(super) struct PlannedPublication {
    pub(super) snapshot: u64,
    pub(super) content: PublicationContent,
    pub(super) changes: Vec<DocumentChange>,
    pub(super) event: NewEvent,
}

/// Refuses a publication that names nothing, or a definition twice (RG-7).
fn check_names(request: &PublishAll) -> Result<()> {
    let of_new = request.versions.iter().map(|new| &new.definition);
    let mut names = BTreeSet::new();
    for definition in of_new.chain(request.existing.iter().map(|name| &name.definition)) {
        if !names.insert(definition) {
            return Err(Error::invalid("publication", format!("it names {definition} twice")));
        }
    }
    if names.is_empty() { Err(Error::invalid("publication", "it names no version")) } else { Ok(()) }
}

/// Refuses a publication that was made from another snapshot than the latest one (RG-8).
fn check_snapshot(expected: Option<u64>, latest: u64) -> Result<()> {
    // A `Conflict` contains versions, so each snapshot number is put into a version as its number.
    let version = |snapshot| Version::new(snapshot, 1, 0);
    match expected {
        None => Ok(()),
        Some(0) if latest == 0 => Ok(()),
        Some(0) => Expect::Absent.check("latest snapshot", Some(version(latest))),
        Some(expected) => {
            let found = (latest > 0).then(|| version(latest));
            Expect::Version(version(expected)).check("latest snapshot", found)
        }
    }
}

/// Decides a publication (RG-6 to RG-8): the versions that it makes, its snapshot number, and what it writes.
///
/// # Errors
/// In this order: `Invalid` for no version and for a definition that is named twice; `AlreadyExists` if the id is in
/// use; `Conflict` if the latest snapshot is not the expected one; for each version the errors of its publication,
/// and `NotFound` for an existing version that is unknown.
pub(super) fn plan_publication(request: &PublishAll, loaded: &Loaded) -> Result<PlannedPublication> {
    check_names(request)?;
    let id_document = keys::publication_id(&request.id)?;
    if loaded.get(&id_document).is_some() {
        return Err(Error::already_exists("publication", &request.id));
    }
    let latest_document = keys::latest()?;
    let latest = loaded.value::<SnapshotNumber>(&latest_document)?;
    let latest_revision = latest.as_ref().map(|(_, revision)| *revision);
    let latest = latest.map_or(0, |(latest, _)| latest.snapshot);
    check_snapshot(request.expect_snapshot, latest)?;
    let snapshot = latest + 1;
    let (mut entries, mut changes) = (Vec::new(), Vec::new());
    let of_new = request.versions.iter().map(|new| plan_version(new, loaded)).enumerate();
    let of_new = of_new.map(|(index, planned)| planned.map_err(|e| e.in_part(format!("versions[{index}]"))));
    let of_existing = request.existing.iter().map(|name| plan_existing(name, loaded)).enumerate();
    let of_existing = of_existing.map(|(index, planned)| planned.map_err(|e| e.in_part(format!("existing[{index}]"))));
    for planned in of_new.chain(of_existing) {
        let PlannedVersion { published: PublishedVersion { name, hash, created }, changes: of_version } = planned?;
        changes.extend(of_version);
        if !created {
            // A purge that has marked the version may be about to remove it (RG-11).
            changes.push(DocumentChange::check(Collection::Marks.of_version(&name)?, DocumentExpect::Absent));
        }
        let published = Collection::Published.of_version(&name)?;
        changes.push(DocumentChange::put(published, snapshot_number(snapshot)?));
        let VersionRef { definition, version } = name;
        entries.push(PublicationEntry { definition, version, hash, extra: Extra::default() });
    }
    let PublishAll { id, by, metadata, config_revisions, rollback_of, .. } = request.clone();
    let content =
        PublicationContent { id, entries, by, metadata, config_revisions, rollback_of, extra: Extra::default() };
    changes.extend([
        DocumentChange::put(latest_document, snapshot_number(snapshot)?).expecting(unchanged(latest_revision)),
        DocumentChange::put(id_document, snapshot_number(snapshot)?).expecting(DocumentExpect::Absent),
        DocumentChange::put(keys::publication(snapshot)?, encoded(&content)?).expecting(DocumentExpect::Absent),
    ]);
    let fact = PublishedFact { snapshot, publication: request.id.clone(), extra: Extra::default() };
    let event = NewEvent::new(EventKind::new(PUBLISHED)?, [keys::feed()?]).with_payload(encoded(&fact)?);
    Ok(PlannedPublication { snapshot, content, changes, event })
}

/// What archiving a definition, or taking it out of the archive, writes; none if it is already so (RG-5).
///
/// # Errors
/// `NotFound` for an unknown definition.
pub(super) fn plan_archival(
    definition: &DefinitionRef,
    archived: bool,
    loaded: &Loaded,
) -> Result<Option<(DocumentChange, NewEvent)>> {
    let document = keys::definition(definition)?;
    let Some((state, revision)) = loaded.value::<DefinitionState>(&document)? else {
        return Err(Error::not_found("definition", definition.to_string()));
    };
    if state.archived == archived {
        return Ok(None);
    }
    let state = DefinitionState { archived, ..state };
    let change = DocumentChange::put(document, encoded(&state)?).expecting(DocumentExpect::Revision(revision));
    let kind = EventKind::new(if archived { ARCHIVED } else { UNARCHIVED })?;
    Ok(Some((change, NewEvent::new(kind, [keys::feed()?]).with_payload(encoded(definition)?))))
}

/// Returns the stored content of a version of a publication.
///
/// # Errors
/// `Corrupt` if the version is missing, or if its content is not what was published (RG-9).
pub(super) fn check_entry(entry: &PublicationEntry, stored: Option<VersionContent>) -> Result<VersionContent> {
    let name = entry.name();
    let Some(content) = stored else {
        return Err(Error::corrupt(format!("version {name}: it was published, but does not exist")));
    };
    let is_unchanged = content_hash(content.schema_version, &content.value).is_ok_and(|hash| hash == entry.hash);
    if content.hash != entry.hash || !is_unchanged {
        return Err(Error::corrupt(format!("version {name}: its content is not what was published")));
    }
    Ok(content)
}

/// Returns the changes that pin versions for a run, so that no purge removes them while the run is not done (RG-11).
///
/// They belong into the commit that starts the run: each is a pin, and the expectations that the version exists and
/// that no purge is about to remove it. If one of these does not hold, the commit is refused with `Conflict`. Versions
/// of publications need no pin.
///
/// # Errors
/// Any error of the names.
pub fn pin_changes<'a>(run: &RunId, versions: impl IntoIterator<Item = &'a VersionRef>) -> Result<Vec<DocumentChange>> {
    let mut changes = Vec::new();
    for version in versions {
        let mut text = String::new();
        let mut object = ObjectWriter::open(&mut text);
        object.field("run", run);
        object.close();
        changes.extend([
            DocumentChange::check(Collection::Versions.of_version(version)?, DocumentExpect::Present),
            DocumentChange::check(Collection::Marks.of_version(version)?, DocumentExpect::Absent),
            DocumentChange::put(keys::pin(version, run)?, Json::parse(&text)?),
        ]);
    }
    Ok(changes)
}

/// Returns the changes that take the pins of a run away. They may be part of the commit that ends the run; a purge
/// ignores the pins of runs that are done.
///
/// # Errors
/// Any error of the names.
pub fn unpin_changes<'a>(
    run: &RunId,
    versions: impl IntoIterator<Item = &'a VersionRef>,
) -> Result<Vec<DocumentChange>> {
    versions.into_iter().map(|version| Ok(DocumentChange::delete(keys::pin(version, run)?))).collect()
}

#[cfg(test)]
mod tests;
