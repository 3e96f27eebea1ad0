//! The rules of the registry: hashes, the next version, what a publication writes, what a run pins.

use std::collections::BTreeSet;

use super::{
    keys::{Holder, Loaded, VERSIONS, publication, publication_id},
    record::{
        DefinitionRef, DefinitionState, DefinitionVersion, PublicationContent, PublicationEntry, RegistryFact,
        VersionContent, VersionRef,
    },
    request::{NewVersion, PublishAll, PublishedVersion},
};
use crate::{
    codec::{Extra, canonical_json, sha256_hex},
    document::{Document, DocumentChange, DocumentExpect, DocumentRef},
    error::{Detail, Error, Result},
    event::NewEvent,
    id::{PublicationId, RunId},
    json::Json,
    layers::{
        audit::{AuditAction, AuditResource, NewAudit, audit_of_change},
        encoded,
    },
};

/// The name in front of a content hash. Another way of hashing would get another name.
const HASH_NAME: &str = "sha256-jcs:";

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

/// Refuses a publication of an archived definition.
fn check_not_archived(definition: &DefinitionRef, state: &DefinitionState) -> Result<()> {
    if state.archived {
        return Err(Error::invalid_transition("definition", definition.to_string(), "archived", "published"));
    }
    Ok(())
}

/// What one step writes: changes of documents, and events of the feed and of the audit log.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<DocumentChange>,
    pub(super) events: Vec<NewEvent>,
}

impl Plan {
    /// Plans a version (RG-1): that of the current version if it has the same content, else the next one.
    ///
    /// # Errors
    /// `Invalid` for schema version 0 and for a value that has no hash; `InvalidTransition` if the definition is
    /// archived.
    pub(super) fn add_version(
        &mut self,
        new: &NewVersion,
        audit: Option<&NewAudit>,
        loaded: &Loaded,
    ) -> Result<PublishedVersion> {
        let NewVersion { definition, schema_version, value, metadata, copied_from, .. } = new.clone();
        if schema_version == 0 {
            return Err(Error::invalid("schema_version", "it must be 1 or more"));
        }
        let hash = content_hash(schema_version, &value)?;
        let found = loaded.state(&definition)?;
        let expect = found.as_ref().map_or(DocumentExpect::Absent, |(_, revision)| DocumentExpect::Revision(*revision));
        let (document, state) = (definition.document()?, found.map(|(state, _)| state).unwrap_or_default());
        check_not_archived(&definition, &state)?;
        if state.hash == hash {
            self.changes.push(DocumentChange::check(document, expect));
            return Ok(PublishedVersion { name: definition.at(state.current), hash, created: false });
        }
        let before = loaded.value::<VersionContent>(&definition.clone().at(state.current).in_collection(VERSIONS)?)?;
        let before = before.map(|(content, _)| encoded(&content)).transpose()?;
        let content = VersionContent {
            hash: hash.clone(),
            schema_version,
            value,
            metadata,
            copied_from,
            extra: Extra::default(),
        };
        let content = encoded(&content)?;
        let audit = audit_of_change(audit, &definition.resource()?, before.as_ref(), Some(&content))?;
        let name = definition.at(state.current + 1);
        let state = DefinitionState { current: name.version, hash: hash.clone(), ..state };
        self.changes.extend([
            DocumentChange::put(document, encoded(&state)?).expecting(expect),
            DocumentChange::put(name.in_collection(VERSIONS)?, content).expecting(DocumentExpect::Absent),
        ]);
        self.events.extend(audit);
        Ok(PublishedVersion { name, hash, created: true })
    }

    /// Checks that an existing version can be in a publication. Returns it with its hash.
    fn add_existing(&mut self, name: &VersionRef, loaded: &Loaded) -> Result<PublishedVersion> {
        let content = loaded.value::<VersionContent>(&name.in_collection(VERSIONS)?)?;
        let (Some((state, revision)), Some((content, _))) = (loaded.state(&name.definition)?, content) else {
            return Err(Error::not_found("version", name.to_string()));
        };
        check_not_archived(&name.definition, &state)?;
        let expect = DocumentExpect::Revision(revision);
        self.changes.push(DocumentChange::check(name.definition.document()?, expect));
        Ok(PublishedVersion { name: name.clone(), hash: content.hash, created: false })
    }

    /// Adds a version to the publication: it is kept from now on.
    fn publish(&mut self, published: PublishedVersion) -> Result<PublicationEntry> {
        let PublishedVersion { name, hash, created } = published;
        let [exists, is_unmarked, pin] = Holder::Publications.pin_changes(&name)?;
        if !created {
            // A purge may be about to remove it (RG-11).
            self.changes.extend([exists, is_unmarked]);
        }
        self.changes.push(pin);
        Ok(PublicationEntry { definition: name.definition, version: name.version, hash, extra: Extra::default() })
    }
}

/// Returns the documents from which a publication is planned.
pub(super) fn documents_of_publication(request: &PublishAll) -> Result<Vec<DocumentRef>> {
    let mut documents = vec![publication_id(&request.id)?];
    for name in &request.existing {
        documents.extend([name.definition.document()?, name.in_collection(VERSIONS)?]);
    }
    Ok(documents)
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

/// Plans a publication (RG-6 to RG-8) after the snapshot with the number `latest`, which is 0 if there is none.
///
/// # Errors
/// In this order: `Invalid` for no version and for a definition that is named twice; `AlreadyExists` if the id is in
/// use; `Conflict` if the latest snapshot is not the expected one; for each version the errors of its publication,
/// and `NotFound` for an existing version that is unknown.
pub(super) fn plan_publication(
    request: &PublishAll,
    latest: u64,
    loaded: &Loaded,
) -> Result<(u64, PublicationContent, Plan)> {
    check_names(request)?;
    let id_document = publication_id(&request.id)?;
    if loaded.0.contains_key(&id_document) {
        return Err(Error::already_exists("publication", &request.id));
    }
    if let Some(expected) = request.expect_snapshot.filter(|expected| *expected != latest) {
        return Err(Error::new(Detail::SnapshotConflict { expected, actual: latest }));
    }
    let (snapshot, mut plan, mut entries) = (latest + 1, Plan::default(), Vec::new());
    for (index, new) in request.versions.iter().enumerate() {
        let planned = plan.add_version(new, new.audit.as_ref().or(request.audit.as_ref()), loaded);
        entries.push(plan.publish(planned.map_err(|e| e.in_part(format!("versions[{index}]")))?)?);
    }
    for (index, name) in request.existing.iter().enumerate() {
        let planned = plan.add_existing(name, loaded).map_err(|e| e.in_part(format!("existing[{index}]")))?;
        entries.push(plan.publish(planned)?);
    }
    let PublishAll { id, by, metadata, config_revisions, rollback_of, .. } = request.clone();
    plan.events.insert(0, RegistryFact::Published { snapshot, id: id.clone() }.event()?);
    let content =
        PublicationContent { id, entries, by, metadata, config_revisions, rollback_of, extra: Extra::default() };
    let value = encoded(&content)?;
    if let Some(audit) = &request.audit {
        let audit = NewAudit { action: Some(audit.action.clone().unwrap_or(AuditAction::Publish)), ..audit.clone() };
        plan.events.extend(audit_of_change(Some(&audit), &resource_of_publication(&request.id)?, None, Some(&value))?);
    }
    plan.changes.extend([
        DocumentChange::put(id_document, Json::of(&snapshot)?).expecting(DocumentExpect::Absent),
        // The number is free only if no other publication has come first (RG-7).
        DocumentChange::put(publication(snapshot)?, value).expecting(DocumentExpect::Absent),
    ]);
    Ok((snapshot, content, plan))
}

/// Returns the resource of audit records about a publication: `publication/ID`.
fn resource_of_publication(id: &PublicationId) -> Result<AuditResource> {
    AuditResource::of(["publication", id.as_str()])
}

/// Plans archiving a definition, or taking it out of the archive; writes nothing if it is already so (RG-5).
///
/// # Errors
/// `NotFound` for an unknown definition.
pub(super) fn plan_archival(
    definition: &DefinitionRef,
    archived: bool,
    audit: Option<&NewAudit>,
    loaded: &Loaded,
) -> Result<Plan> {
    let Some((state, revision)) = loaded.state(definition)? else {
        return Err(Error::not_found("definition", definition.to_string()));
    };
    if state.archived == archived {
        return Ok(Plan::default());
    }
    let json = |archived: bool| Json::parse(&format!(r#"{{"archived":{archived}}}"#));
    let audit = audit_of_change(audit, &definition.resource()?, Some(&json(state.archived)?), Some(&json(archived)?))?;
    let state = encoded(&DefinitionState { archived, ..state })?;
    let fact = if archived { RegistryFact::Archived } else { RegistryFact::Unarchived };
    let change = DocumentChange::put(definition.document()?, state).expecting(DocumentExpect::Revision(revision));
    let events = [fact(definition.clone()).event()?].into_iter().chain(audit).collect();
    Ok(Plan { changes: vec![change], events })
}

/// Reads a version of a publication from its document.
///
/// # Errors
/// `Corrupt` if the version is missing, or if its content is not what was published (RG-9).
pub(super) fn check_entry(entry: &PublicationEntry, stored: Option<&Document>) -> Result<DefinitionVersion> {
    let name = entry.name();
    let Some(stored) = stored else {
        return Err(Error::corrupt(format!("version {name}: it was published, but does not exist")));
    };
    let version = DefinitionVersion::from_document(stored)?;
    let VersionContent { hash, schema_version, value, .. } = &version.content;
    let is_unchanged = content_hash(*schema_version, value).is_ok_and(|hash| hash == entry.hash);
    if *hash != entry.hash || !is_unchanged {
        return Err(Error::corrupt(format!("version {name}: its content is not what was published")));
    }
    Ok(version)
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
    let holder = Holder::Run(run.clone());
    let changes = versions.into_iter().map(|version| holder.pin_changes(version));
    Ok(changes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
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
    let holder = Holder::Run(run.clone());
    versions.into_iter().map(|version| holder.pin(version).map(DocumentChange::delete)).collect()
}

#[cfg(test)]
mod tests;
