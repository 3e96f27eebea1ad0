//! How two sets of definitions differ, such as two publications, or a folder and a publication.

use std::collections::{BTreeMap, BTreeSet};

use agentstore::{DefinitionRef, DefinitionVersion, Json, Manifest};
use serde::Serialize;

use crate::{failure::Result, json_text, output::Output, text::terminal_safe};

/// The content of a definition.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Content {
    pub(super) version: u64,
    pub(super) hash: String,
    pub(super) value: Json,
}

impl From<&DefinitionVersion> for Content {
    fn from(version: &DefinitionVersion) -> Self {
        let content = &version.content;
        Self { version: version.name.version, hash: content.hash.clone(), value: content.value.clone() }
    }
}

/// Definitions with their contents.
pub(super) type Contents = BTreeMap<DefinitionRef, Content>;

/// Returns the definitions of a manifest. Without a manifest, there are none.
pub(super) fn contents_of(manifest: Option<&Manifest>) -> Contents {
    let versions = manifest.map(|manifest| manifest.versions.as_slice()).unwrap_or_default();
    versions.iter().map(|version| (version.name.definition.clone(), version.into())).collect()
}

/// How a definition differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Added,
    Changed,
    Removed,
}

/// A definition whose contents differ.
#[derive(Debug, Serialize)]
struct Difference<'a> {
    definition: &'a DefinitionRef,
    change: Change,
    before: Option<&'a Content>,
    after: Option<&'a Content>,
}

/// The definitions in which two sets differ.
#[derive(Debug, Serialize)]
pub(super) struct Differences<'a> {
    differences: Vec<Difference<'a>>,
    /// The number of definitions whose contents are the same in both sets.
    same: u64,
}

impl<'a> Differences<'a> {
    /// Compares two sets.
    pub(super) fn of(before: &'a Contents, after: &'a Contents) -> Self {
        let (mut differences, mut same) = (Vec::new(), 0);
        let definitions: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for definition in definitions {
            let (before, after) = (before.get(definition), after.get(definition));
            let change = match (before, after) {
                (Some(before), Some(after)) if before.hash == after.hash => {
                    same += 1;
                    continue;
                }
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
                (Some(_), Some(_)) => Change::Changed,
            };
            differences.push(Difference { definition, change, before, after });
        }
        Self { differences, same }
    }

    /// Returns whether the contents of both sets are the same.
    pub(super) fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Prints the lines in which the definitions differ, and how many are the same.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        for Difference { definition, change, before, after } in &self.differences {
            let name = terminal_safe(&definition.to_string());
            let line = match (before, after) {
                (Some(before), Some(after)) => {
                    format!("changed  {name}, version {} to {}", before.version, after.version)
                }
                (_, Some(after)) => format!("added    {name}, version {}", after.version),
                (Some(before), None) => format!("removed  {name}, version {}", before.version),
                (None, None) => continue,
            };
            out.print_line(out.style(line).bold())?;
            // What was removed still exists as a version.
            if *change != Change::Removed {
                json_text::print_difference(before.map(|it| &it.value), after.map(|it| &it.value), out)?;
            }
        }
        out.print_line(self.summary())
    }

    fn summary(&self) -> String {
        let count = |change| self.differences.iter().filter(|difference| difference.change == change).count();
        let (added, changed, removed) = (count(Change::Added), count(Change::Changed), count(Change::Removed));
        format!("{added} added, {changed} changed, {removed} removed, {} the same", self.same)
    }
}
