//! Manifests: the pinned versions of a publication, and references between them.

use std::collections::BTreeSet;

use store_core::{
    CollectionId, DefinitionVersion, DocumentChange, DocumentKey, ErrorKind, KeySegment, ManifestChoice, Reference,
    ReferenceError, RegistryReader, VersionRef, WriteDocuments, resolve_references,
};

use super::helpers::{agent, load_manifest, publication, publish, publish_all, registry};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::id,
    log::entry_drafts::json,
};

/// A manifest is that of an id, of a snapshot or of the latest publication. It has the versions that were published,
/// whatever was published later. There is none for an unknown publication.
pub(super) async fn a_manifest_has_the_published_versions(given: &Given) -> Verdict {
    expect_eq(registry(given)?.load_manifest(&ManifestChoice::Latest).await?, None)?;
    let first = publish_all(given, publication("p", &[("a", "1"), ("b", "1")])).await?;
    publish_all(given, publication("q", &[("a", "2")])).await?;
    publish(given, "a", "3").await?;
    for (choice, snapshot, values) in [
        (ManifestChoice::Publication(id("p")), 1, "1 1"),
        (ManifestChoice::Snapshot(1), 1, "1 1"),
        (ManifestChoice::Latest, 2, "2"),
    ] {
        let manifest = load_manifest(given, choice).await?;
        let found: Vec<_> = manifest.versions.iter().map(|version| version.content.value.as_str()).collect();
        expect_eq((manifest.publication.snapshot, found.join(" ").as_str()), (snapshot, values))?;
    }
    let manifest = load_manifest(given, ManifestChoice::Snapshot(1)).await?;
    let pinned = expect_some(manifest.version_of(&agent("a")), "pinned version")?;
    expect_eq(&pinned.name, &agent("a").at(1))?;
    expect_eq(manifest.publication, first)?;
    for unknown in [ManifestChoice::Publication(id("x")), ManifestChoice::Snapshot(3), ManifestChoice::Snapshot(0)] {
        expect_eq(registry(given)?.load_manifest(&unknown).await?, None)?;
    }
    Ok(())
}

/// Changes the document of a version, which no method of the registry can do.
async fn damage(given: &Given, version: &VersionRef, value: Option<&str>) -> Verdict {
    let VersionRef { definition, version } = version;
    let segments = [KeySegment::id(definition.kind())?, KeySegment::id(definition.id())?, KeySegment::Number(*version)];
    let key = DocumentKey::new(CollectionId::new("layer.registry.versions")?, segments)?;
    let change = match value {
        Some(value) => DocumentChange::put(key, json(value)),
        None => DocumentChange::delete(key),
    };
    let documents = given.stores()?.documents.ok_or_else(|| Failure::new("the store has no documents"))?;
    documents.write_documents(WriteDocuments::new([change])).await?;
    Ok(())
}

/// If a published version is missing, its manifest is corrupt. No other version is taken instead.
pub(super) async fn a_manifest_without_its_version_is_corrupt(given: &Given) -> Verdict {
    publish_all(given, publication("p", &[("a", "1"), ("b", "1")])).await?;
    publish_all(given, publication("q", &[("a", "2")])).await?;
    damage(given, &agent("a").at(1), None).await?;
    expect_kind(registry(given)?.load_manifest(&ManifestChoice::Snapshot(1)).await, ErrorKind::Corrupt)?;
    load_manifest(given, ManifestChoice::Latest).await.map(drop)
}

/// If a published version has other content than what was published, its manifest is corrupt.
pub(super) async fn a_manifest_with_other_content_is_corrupt(given: &Given) -> Verdict {
    publish_all(given, publication("p", &[("a", "1")])).await?;
    publish_all(given, publication("q", &[("a", "2")])).await?;
    let hash = |version: &DefinitionVersion| version.content.hash.clone();
    let manifest = load_manifest(given, ManifestChoice::Snapshot(1)).await?;
    let published_hash = expect_some(manifest.versions.first().map(hash), "version")?;
    let manifest = load_manifest(given, ManifestChoice::Latest).await?;
    let other_hash = expect_some(manifest.versions.first().map(hash), "version")?;
    for (hash, value) in [(&published_hash, 2), (&other_hash, 2), (&other_hash, 1)] {
        let value = format!(r#"{{"hash":"{hash}","schema_version":1,"value":{value}}}"#);
        damage(given, &agent("a").at(1), Some(&value)).await?;
        let choice = ManifestChoice::Publication(id("p"));
        expect_kind(registry(given)?.load_manifest(&choice).await, ErrorKind::Corrupt)?;
    }
    Ok(())
}

/// References are resolved to the versions of the manifest, not to current ones. One that leads out of it is refused.
pub(super) async fn references_are_resolved_inside_of_a_manifest(given: &Given) -> Verdict {
    publish_all(given, publication("p", &[("a", r#"["b"]"#), ("b", r#"["c"]"#), ("c", "[]")])).await?;
    publish_all(given, publication("q", &[("b", r#"["a"]"#), ("a", r#"["b"]"#)])).await?;
    publish_all(given, publication("r", &[("a", r#"["d"]"#), ("b", "[]")])).await?;
    let references_of = |version: &DefinitionVersion| {
        let names: Vec<String> = version.content.value.to().unwrap_or_default();
        names.iter().map(|name| Reference { kind: None, id: id(name) }).collect::<Vec<_>>()
    };
    let kinds = BTreeSet::from([id("agent")]);
    let mut found = Vec::new();
    for snapshot in 1..=3 {
        let manifest = load_manifest(given, ManifestChoice::Snapshot(snapshot)).await?;
        let resolved = resolve_references(&agent("a"), &manifest.versions, &kinds, references_of);
        let names =
            resolved.map(|versions| versions.iter().map(|version| version.name.to_string()).collect::<Vec<_>>());
        found.push(names.map(|names| names.join(" ")));
    }
    let cycle = ReferenceError::Cycle { path: vec![agent("a"), agent("b")] };
    let missing = ReferenceError::Missing { from: agent("a"), id: id("d") };
    expect_eq(found, vec![Ok("agent/c@1 agent/b@1 agent/a@1".to_owned()), Err(cycle), Err(missing)])
}
