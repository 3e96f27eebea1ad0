//! Helpers that publish and load definitions.

use store_core::{
    DefinitionRef, DefinitionVersion, Manifest, ManifestChoice, NewVersion, PageRequest, Publication, PublishAll,
    PublishedVersion, RegistryLayer, RegistryReader, RegistryWriter, VersionRef, layers::LayerStore,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::{id, read_all_pages},
    log::entry_drafts::json,
};

/// The registry of the tenant `default`.
pub(crate) fn registry(given: &Given) -> Result<RegistryLayer, Failure> {
    Ok(RegistryLayer::new(LayerStore::new(&given.stores()?)?))
}

/// The agent with this id.
pub(crate) fn agent(name: &str) -> DefinitionRef {
    DefinitionRef::new(id("agent"), id(name)).expect("a short kind")
}

/// A version of an agent whose value is a JSON text.
pub(crate) fn new_version(name: &str, text: &str) -> NewVersion {
    NewVersion::new(agent(name), json(text))
}

/// Publishes a value of an agent.
pub(crate) async fn publish(given: &Given, name: &str, text: &str) -> Result<PublishedVersion, Failure> {
    Ok(registry(given)?.publish(new_version(name, text)).await?)
}

/// Publishes several values of one agent.
pub(crate) async fn publish_values(given: &Given, name: &str, texts: &[&str]) -> Verdict {
    for text in texts {
        publish(given, name, text).await?;
    }
    Ok(())
}

/// A request to publish values of agents together.
pub(crate) fn publication(publication: &str, values: &[(&str, &str)]) -> PublishAll {
    let request = PublishAll::new(id(publication));
    values.iter().fold(request, |request, (name, text)| request.version(new_version(name, text)))
}

/// Publishes values of agents together.
pub(crate) async fn publish_all(given: &Given, request: PublishAll) -> Result<Publication, Failure> {
    Ok(registry(given)?.publish_all(request).await?)
}

/// Loads a version that must exist.
pub(crate) async fn load_version(given: &Given, name: &VersionRef) -> Result<DefinitionVersion, Failure> {
    expect_some(registry(given)?.load_version(name).await?, "version")
}

/// Loads a manifest that must exist.
pub(crate) async fn load_manifest(given: &Given, choice: ManifestChoice) -> Result<Manifest, Failure> {
    expect_some(registry(given)?.load_manifest(&choice).await?, "manifest")
}

/// The names of a publication's versions, separated by spaces.
pub(crate) fn joined_names(publication: &Publication) -> String {
    publication.content.entries.iter().map(|entry| entry.name().to_string()).collect::<Vec<_>>().join(" ")
}

/// Checks the versions of an agent, oldest first: `1=value 2=value`. Reads small pages.
pub(crate) async fn expect_versions(given: &Given, name: &str, expected: &str) -> Verdict {
    let (store, definition) = (&registry(given)?, &agent(name));
    let mut found = read_all_pages(PageRequest::first(2), |page| store.list_versions(definition, page)).await?;
    found.reverse();
    let texts: Vec<_> =
        found.iter().map(|version| format!("{}={}", version.name.version, version.content.value)).collect();
    expect_eq(texts.join(" ").as_str(), expected)
}

/// Every publication, newest first. Reads small pages.
pub(crate) async fn publications(given: &Given) -> Result<Vec<Publication>, Failure> {
    let store = &registry(given)?;
    read_all_pages(PageRequest::first(2), |page| store.list_publications(page)).await
}
