//! Arguments that name a definition, one of its versions, or a publication.

use std::str::FromStr;

use agentstore::{
    DefinitionRef, DefinitionVersion, Error, Manifest, ManifestChoice, Publication, PublicationId, RegistryStore,
    VersionRef,
    layers::{escape_part, unescape_part},
};

use crate::failure::Result;

/// A definition, or one of its versions: `KIND/ID` or `KIND/ID@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionArg {
    pub(super) definition: DefinitionRef,
    pub(super) version: Option<u64>,
}

impl FromStr for VersionArg {
    type Err = Error;

    fn from_str(text: &str) -> agentstore::Result<Self> {
        if text.contains('@') {
            let VersionRef { definition, version } = text.parse()?;
            return Ok(Self { definition, version: Some(version) });
        }
        Ok(Self { definition: text.parse()?, version: None })
    }
}

impl VersionArg {
    /// Loads the version; the current one if the argument names none.
    pub(super) async fn load(&self, registry: &dyn RegistryStore) -> Result<DefinitionVersion> {
        let Some(version) = self.version else {
            let found = registry.load_current(&self.definition).await?;
            return Ok(found.ok_or_else(|| Error::not_found("definition", self.definition.to_string()))?);
        };
        load_version(&self.definition.clone().at(version), registry).await
    }
}

/// Loads a version, which must exist.
pub(super) async fn load_version(name: &VersionRef, registry: &dyn RegistryStore) -> Result<DefinitionVersion> {
    let found = registry.load_version(name).await?;
    Ok(found.ok_or_else(|| Error::not_found("version", name.to_string()))?)
}

/// A publication: `latest`, the number of its snapshot, or its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicationArg(pub(super) ManifestChoice);

impl FromStr for PublicationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "latest" {
            return Ok(Self(ManifestChoice::Latest));
        }
        if let Ok(snapshot) = text.parse() {
            return Ok(Self(ManifestChoice::Snapshot(snapshot)));
        }
        let id = unescape_part(text).and_then(PublicationId::new).map_err(|error| error.to_string())?;
        Ok(Self(ManifestChoice::Publication(id)))
    }
}

/// Returns the id of a publication as an argument that names it. A command takes a number for that of a snapshot, and
/// `latest` for the latest publication, so the first character of such an id is escaped.
pub(super) fn publication_text(id: &PublicationId) -> String {
    let text = escape_part(id.as_str());
    match (text.parse(), text.as_bytes().first()) {
        (Ok(PublicationArg(ManifestChoice::Latest | ManifestChoice::Snapshot(_))), Some(first)) => {
            format!("%{first:02X}{}", text.get(1..).unwrap_or_default())
        }
        _ => text,
    }
}

/// Reads the id of a new publication. Commands take a number for that of a snapshot, so it is no id.
pub(super) fn parse_new_id(text: &str) -> Result<PublicationId, String> {
    match text.parse()? {
        PublicationArg(ManifestChoice::Publication(id)) => Ok(id),
        PublicationArg(_) => Err("it cannot be `latest` or a number, which name other publications".to_owned()),
    }
}

/// Loads the manifest of a publication, which must exist.
pub(super) async fn load_manifest(choice: &ManifestChoice, registry: &dyn RegistryStore) -> Result<Manifest> {
    let name = match choice {
        ManifestChoice::Latest => "latest".to_owned(),
        ManifestChoice::Snapshot(snapshot) => snapshot.to_string(),
        ManifestChoice::Publication(id) => id.to_string(),
    };
    let found = registry.load_manifest(choice).await?;
    Ok(found.ok_or_else(|| Error::not_found("publication", name))?)
}

/// Returns the number of the snapshot of a publication; 0 if there is none.
pub(super) fn snapshot_of(publication: Option<&Publication>) -> u64 {
    publication.map_or(0, |publication| publication.snapshot)
}

/// A version of a definition, or a publication. An argument with a `/` names a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetArg {
    /// A definition, or one of its versions.
    Version(VersionArg),
    /// A version of the definition that another argument names: `@VERSION`.
    SameDefinition(u64),
    /// A publication.
    Publication(PublicationArg),
}

impl FromStr for TargetArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(Ok(version)) = text.strip_prefix('@').map(str::parse) {
            return Ok(Self::SameDefinition(version));
        }
        if text.contains('/') {
            return text.parse().map(Self::Version).map_err(|error: Error| error.to_string());
        }
        text.parse().map(Self::Publication)
    }
}

#[cfg(test)]
mod tests {
    use agentstore::{DefinitionRef, ManifestChoice};

    use super::{PublicationArg, TargetArg, VersionArg, publication_text};

    #[test]
    fn an_argument_names_a_version_or_a_publication() {
        let check = |text: &str, expected: TargetArg| assert_eq!(text.parse(), Ok(expected), "{text}");
        let definition = |id: &str| DefinitionRef::new("agent".parse().unwrap(), id.parse().unwrap()).unwrap();
        let version = |id, version| TargetArg::Version(VersionArg { definition: definition(id), version });
        check("agent/coder", version("coder", None));
        check("agent/coder@3", version("coder", Some(3)));
        check("agent/a%2Fb%40c", version("a/b@c", None));
        check("agent/a%2Fb%40c@3", version("a/b@c", Some(3)));
        check("@3", TargetArg::SameDefinition(3));
        let publication = |choice| TargetArg::Publication(PublicationArg(choice));
        check("latest", publication(ManifestChoice::Latest));
        check("7", publication(ManifestChoice::Snapshot(7)));
        check("release-7", publication(ManifestChoice::Publication("release-7".parse().unwrap())));
        for text in ["", "agent/", "/coder", "agent/@3", "agent/a/b", "agent/a@c", "agent/a@3@4", "agent/50%", "50%"] {
            assert!(text.parse::<TargetArg>().is_err(), "{text}");
        }
        assert!("coder".parse::<VersionArg>().is_err());
    }

    #[test]
    fn the_text_of_a_publication_names_it() {
        for id in ["release-7", "7", "+7", "latest", "@7", "a/b@3", "50%", "%2F", "é"] {
            let text = publication_text(&id.parse().unwrap());
            let choice = ManifestChoice::Publication(id.parse().unwrap());
            assert_eq!(text.parse(), Ok(TargetArg::Publication(PublicationArg(choice))), "{text}");
        }
        assert_eq!(publication_text(&"release-7".parse().unwrap()), "release-7");
    }
}
