//! References between definitions: from one definition to everything that it needs.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{DefinitionRef, DefinitionVersion};
use crate::{
    error::{Error, Result},
    id::{DefinitionId, DefinitionKind},
};

/// A reference from one definition to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The kind; absent if the reference names only an id, which must then be unique.
    pub kind: Option<DefinitionKind>,
    /// The id.
    pub id: DefinitionId,
}

/// Why references cannot be resolved (RG-10).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The publication does not have the definition from which to begin.
    #[error("the publication does not have {root}")]
    MissingRoot {
        /// The definition.
        root: DefinitionRef,
    },
    /// The publication does not have a definition that another one needs.
    #[error("{from} needs `{id}`, which the publication does not have")]
    Missing {
        /// The definition with the reference.
        from: DefinitionRef,
        /// The id that it names.
        id: DefinitionId,
    },
    /// The reference has a kind that the application does not know.
    #[error("{from} needs a definition of the unknown kind `{kind}`")]
    UnknownKind {
        /// The definition with the reference.
        from: DefinitionRef,
        /// The kind that it names.
        kind: DefinitionKind,
    },
    /// The reference names no kind, and several definitions have the id.
    #[error("{from} needs `{id}`, which several definitions are named")]
    Ambiguous {
        /// The definition with the reference.
        from: DefinitionRef,
        /// The id that it names.
        id: DefinitionId,
        /// The definitions with the id.
        candidates: Vec<DefinitionRef>,
    },
    /// A definition needs itself.
    #[error("{} needs itself", path.first().map(ToString::to_string).unwrap_or_default())]
    Cycle {
        /// The definitions of the cycle: each needs the next one, and the last one needs the first.
        path: Vec<DefinitionRef>,
    },
}

impl From<ReferenceError> for Error {
    fn from(error: ReferenceError) -> Self {
        Self::invalid("reference", error.to_string()).with_source(error)
    }
}

/// Returns `root` and everything that it needs, directly or not, inside of a publication (RG-10). Each definition comes
/// after those that it needs, so `root` is the last one.
///
/// `versions` are those of a manifest. `references_of` reads the references from the value of a version.
///
/// # Errors
/// The first reference, in the order of `references_of`, that cannot be resolved.
pub fn resolve_references<'a>(
    root: &DefinitionRef,
    versions: &'a [DefinitionVersion],
    known_kinds: &BTreeSet<DefinitionKind>,
    references_of: impl Fn(&DefinitionVersion) -> Vec<Reference>,
) -> Result<Vec<&'a DefinitionVersion>, ReferenceError> {
    let by_name: BTreeMap<_, _> = versions.iter().map(|version| (&version.name.definition, version)).collect();
    let start = *by_name.get(root).ok_or_else(|| ReferenceError::MissingRoot { root: root.clone() })?;
    let targets_of = |version: &'a DefinitionVersion| {
        let references = references_of(version).into_iter();
        references.map(|reference| target_of(version, &reference, &by_name, known_kinds)).collect::<Result<Vec<_>, _>>()
    };
    let (mut resolved, mut done) = (Vec::new(), BTreeSet::new());
    // The path from the root: each definition with the targets that are still to be visited, the next one last. A list
    // instead of a recursion, because a publication may have a long chain.
    let mut path = vec![(start, reversed(targets_of(start)?))];
    while let Some((version, targets)) = path.last_mut() {
        let Some(target) = targets.pop() else {
            done.insert(&version.name.definition);
            resolved.push(*version);
            path.pop();
            continue;
        };
        let name = &target.name.definition;
        if let Some(start) = path.iter().position(|(version, _)| version.name.definition == *name) {
            let cycle = path.iter().skip(start).map(|(version, _)| version.name.definition.clone()).collect();
            return Err(ReferenceError::Cycle { path: cycle });
        }
        if !done.contains(name) {
            path.push((target, reversed(targets_of(target)?)));
        }
    }
    Ok(resolved)
}

fn reversed<T>(mut items: Vec<T>) -> Vec<T> {
    items.reverse();
    items
}

fn target_of<'a>(
    from: &DefinitionVersion,
    reference: &Reference,
    by_name: &BTreeMap<&'a DefinitionRef, &'a DefinitionVersion>,
    known_kinds: &BTreeSet<DefinitionKind>,
) -> Result<&'a DefinitionVersion, ReferenceError> {
    let from = from.name.definition.clone();
    if let Some(kind) = reference.kind.as_ref().filter(|kind| !known_kinds.contains(*kind)) {
        return Err(ReferenceError::UnknownKind { from, kind: kind.clone() });
    }
    let is_meant = |name: &DefinitionRef| {
        *name.id() == reference.id && reference.kind.as_ref().is_none_or(|kind| kind == name.kind())
    };
    let found: Vec<_> = by_name.iter().filter(|(name, _)| is_meant(name)).collect();
    match found.as_slice() {
        [] => Err(ReferenceError::Missing { from, id: reference.id.clone() }),
        [(_, version)] => Ok(**version),
        several => {
            let candidates = several.iter().map(|(name, _)| (***name).clone()).collect();
            Err(ReferenceError::Ambiguous { from, id: reference.id.clone(), candidates })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Reference, ReferenceError, resolve_references};
    use crate::{
        DefinitionKind, Json, Timestamp,
        codec::Extra,
        layers::registry::{DefinitionRef, DefinitionVersion, VersionContent},
    };

    fn name(text: &str) -> DefinitionRef {
        let (kind, id) = text.split_once('/').unwrap();
        DefinitionRef::new(kind.parse().unwrap(), id.parse().unwrap()).unwrap()
    }

    /// A definition whose value is the list of what it needs: `kind/id` or `id`.
    fn version(text: &str, needs: &[&str]) -> DefinitionVersion {
        let content = VersionContent {
            hash: String::new(),
            schema_version: 1,
            value: Json::of(needs).unwrap(),
            metadata: None,
            copied_from: None,
            extra: Extra::default(),
        };
        DefinitionVersion { name: name(text).at(1), content, created_at: Timestamp::from_millis(1).unwrap() }
    }

    fn references_of(version: &DefinitionVersion) -> Vec<Reference> {
        let needs: Vec<String> = version.content.value.to().unwrap();
        let reference = |text: String| match text.split_once('/') {
            Some((kind, id)) => Reference { kind: Some(kind.parse().unwrap()), id: id.parse().unwrap() },
            None => Reference { kind: None, id: text.parse().unwrap() },
        };
        needs.into_iter().map(reference).collect()
    }

    fn check(versions: &[(&str, &[&str])], wanted: Result<&str, ReferenceError>) {
        let versions: Vec<_> = versions.iter().map(|(text, needs)| version(text, needs)).collect();
        let kinds: BTreeSet<DefinitionKind> = ["agent", "tool"].map(|kind| kind.parse().unwrap()).into();
        let found = resolve_references(&name("agent/a"), &versions, &kinds, references_of)
            .map(|found| found.iter().map(|version| version.name.definition.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(found, wanted.map(str::to_owned));
    }

    #[test]
    fn everything_that_is_needed_comes_first_rg_10() {
        check(&[("agent/a", &[])], Ok("agent/a"));
        check(&[("agent/a", &["tool/t", "u"]), ("tool/t", &[]), ("tool/u", &[])], Ok("tool/t tool/u agent/a"));
        check(
            &[("agent/a", &["agent/b", "agent/c"]), ("agent/b", &["t"]), ("agent/c", &["t"]), ("tool/t", &[])],
            Ok("tool/t agent/b agent/c agent/a"),
        );
        check(&[("agent/a", &["tool/t", "tool/t"]), ("tool/t", &[]), ("tool/unused", &["?"])], Ok("tool/t agent/a"));
    }

    #[test]
    fn references_that_cannot_be_resolved_are_refused_by_name_rg_10() {
        let (from, id) = (name("agent/a"), |text: &str| text.parse().unwrap());
        check(&[("agent/b", &[])], Err(ReferenceError::MissingRoot { root: from.clone() }));
        check(&[("agent/a", &["tool/t"])], Err(ReferenceError::Missing { from: from.clone(), id: id("t") }));
        let kind = "skill".parse().unwrap();
        check(&[("agent/a", &["skill/t"])], Err(ReferenceError::UnknownKind { from: from.clone(), kind }));
        let candidates = vec![name("agent/t"), name("tool/t")];
        check(
            &[("agent/a", &["t"]), ("agent/t", &[]), ("tool/t", &[])],
            Err(ReferenceError::Ambiguous { from, id: id("t"), candidates }),
        );
        let cycle = |names: &[&str]| ReferenceError::Cycle { path: names.iter().map(|text| name(text)).collect() };
        check(&[("agent/a", &["a"])], Err(cycle(&["agent/a"])));
        check(
            &[("agent/a", &["b"]), ("agent/b", &["c"]), ("agent/c", &["agent/b"])],
            Err(cycle(&["agent/b", "agent/c"])),
        );
    }
}
