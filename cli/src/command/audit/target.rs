//! What an audit record is about: a config record, a value of a profile or a definition.

use agentstore::{
    AuditResource, ConfigName, DefinitionRef, DocumentExpect, Error, Json, ProfileKey, ProfileOwner, ProfileStoreExt,
    Restoration, VersionContent,
};

use crate::{failure::Result, session::Session};

/// Something that can be restored from an audit record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Config(ConfigName),
    Profile(ProfileOwner, ProfileKey),
    Definition(DefinitionRef),
}

/// What is stored now.
pub(super) struct Current {
    /// The value, in the form of audit records; absent if there is none.
    pub(super) value: Option<Json>,
    /// The expectation that it does not change until it is restored.
    pub(super) unchanged: DocumentExpect,
}

impl Target {
    /// Returns what a resource names, if it can be restored.
    pub(super) fn of(resource: &AuditResource) -> Option<Self> {
        let parts = resource.parts();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let target = match *parts.as_slice() {
            ["config", namespace, id] => Self::Config(ConfigName::new(namespace, id).ok()?),
            ["profile", owner, key] => Self::Profile(owner.parse().ok()?, key.parse().ok()?),
            ["profile", kind, id, key] => Self::Profile(format!("{kind}:{id}").parse().ok()?, key.parse().ok()?),
            ["definition", kind, id] => {
                Self::Definition(DefinitionRef::new(kind.parse().ok()?, id.parse().ok()?).ok()?)
            }
            _ => return None,
        };
        target.resource().is_ok_and(|it| it == *resource).then_some(target)
    }

    fn resource(&self) -> agentstore::Result<AuditResource> {
        match self {
            Self::Config(name) => name.resource(),
            Self::Profile(owner, key) => owner.resource(key),
            Self::Definition(definition) => definition.resource(),
        }
    }

    /// Loads what is stored now.
    pub(super) async fn load(&self, session: &Session) -> Result<Current> {
        let (value, revision) = match self {
            Self::Config(name) => {
                let record = session.config()?.load_config(name).await?;
                let value = record.as_ref().map(|record| Json::of(&record.content)).transpose()?;
                (value, record.map(|record| record.revision))
            }
            Self::Profile(owner, key) => {
                let value = session.profiles()?.load_profile(owner, key).await?;
                value.map_or((None, None), |value| (Some(value.value), Some(value.revision)))
            }
            Self::Definition(definition) => {
                let version = session.registry()?.load_current(definition).await?;
                (version.map(|version| Json::of(&version.content)).transpose()?, None)
            }
        };
        let unchanged = match (self, revision) {
            (Self::Definition(_), _) => DocumentExpect::Any,
            (_, Some(revision)) => DocumentExpect::Revision(revision),
            (_, None) => DocumentExpect::Absent,
        };
        Ok(Current { value, unchanged })
    }

    /// Returns whether two values are the same. Two versions are the same if their hashes are equal.
    pub(super) fn is_same(&self, current: &Json, wanted: &Json) -> Result<bool> {
        if let Self::Definition(_) = self {
            return Ok(version_of(current)?.hash == version_of(wanted)?.hash);
        }
        Ok(current == wanted)
    }

    /// Restores the value. Returns what identifies it now: the name and the value of a field.
    pub(super) async fn restore(self, request: Restoration, session: &Session) -> Result<(&'static str, Option<u64>)> {
        Ok(match self {
            Self::Config(name) => {
                let written = session.config()?.restore_config(name, request).await?;
                ("revision", written.records.into_iter().flatten().next().map(|record| record.revision))
            }
            Self::Profile(owner, key) => {
                ("revision", session.profiles()?.restore_profile(&owner, key, request).await?.revision)
            }
            Self::Definition(definition) => {
                let Restoration { from, audit, .. } = request;
                let published = session.registry()?.restore_version(&definition, from, audit).await?;
                ("version", Some(published.name.version))
            }
        })
    }
}

fn version_of(value: &Json) -> Result<VersionContent> {
    let error = |e: Error| Error::invalid("audit record", "its value is no version").with_source(e);
    Ok(value.to().map_err(error)?)
}

#[cfg(test)]
mod tests {
    use agentstore::{AuditResource, ConfigName, DefinitionRef};

    use super::Target;

    #[test]
    fn a_target_is_read_from_its_resource() {
        let mut targets = Vec::new();
        for (parent, id) in [("limits", "tokens"), ("a/b", "c%2Fd"), ("config", "%"), ("a@x.example", "@1")] {
            targets.push(Target::Config(ConfigName::new(parent, id).unwrap()));
            targets.push(Target::Profile(format!("user:{parent}").parse().unwrap(), id.parse().unwrap()));
            targets.push(Target::Profile("system".parse().unwrap(), id.parse().unwrap()));
            targets.push(Target::Definition(DefinitionRef::new(parent.parse().unwrap(), id.parse().unwrap()).unwrap()));
        }
        for target in targets {
            assert_eq!(Target::of(&target.resource().unwrap()), Some(target));
        }
        for path in ["config", "config/a", "config/a/b/c", "profile/robot/r/k", "publication/p"] {
            assert_eq!(Target::of(&AuditResource::new(path).unwrap()), None, "{path}");
        }
    }
}
