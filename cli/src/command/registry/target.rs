//! Arguments that name a definition, one of its versions, or a publication.

use std::str::FromStr;

use agentstore::{
    DefinitionRef, DefinitionVersion, Error, Manifest, ManifestChoice, Publication, PublicationId, RegistryStore,
    VersionRef,
};

use crate::failure::Result;

/// A definition, or one of its versions: `KIND/ID` or `KIND/ID@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VersionArg {
    pub(super) definition: DefinitionRef,
    pub(super) version: Option<u64>,
}

impl FromStr for VersionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once('/').ok_or("expected `KIND/ID` or `KIND/ID@VERSION`")?;
        let (id, version) = match rest.rsplit_once('@').map(|(id, version)| (id, version.parse())) {
            Some((id, Ok(version))) => (id, Some(version)),
            _ => (rest, None),
        };
        let definition = || DefinitionRef::new(kind.parse()?, id.parse()?);
        Ok(Self { definition: definition().map_err(|error: Error| error.to_string())?, version })
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
        text.parse().map(ManifestChoice::Publication).map(Self).map_err(|error: Error| error.to_string())
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
        if text.contains('/') { text.parse().map(Self::Version) } else { text.parse().map(Self::Publication) }
    }
}

#[cfg(test)]
mod tests {
    use agentstore::{DefinitionRef, ManifestChoice};

    use super::{PublicationArg, TargetArg, VersionArg};

    #[test]
    fn an_argument_names_a_version_or_a_publication() {
        let check = |text: &str, expected: TargetArg| assert_eq!(text.parse(), Ok(expected), "{text}");
        let definition = |id: &str| DefinitionRef::new("agent".parse().unwrap(), id.parse().unwrap()).unwrap();
        let version = |id, version| TargetArg::Version(VersionArg { definition: definition(id), version });
        check("agent/coder", version("coder", None));
        check("agent/coder@3", version("coder", Some(3)));
        check("agent/a/b@c", version("a/b@c", None));
        check("@3", TargetArg::SameDefinition(3));
        let publication = |choice| TargetArg::Publication(PublicationArg(choice));
        check("latest", publication(ManifestChoice::Latest));
        check("7", publication(ManifestChoice::Snapshot(7)));
        check("release-7", publication(ManifestChoice::Publication("release-7".parse().unwrap())));
        for text in ["", "agent/", "/coder", "agent/@3"] {
            assert!(text.parse::<TargetArg>().is_err(), "{text}");
        }
        assert!("coder".parse::<VersionArg>().is_err());
    }
}
