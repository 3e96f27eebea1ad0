//! The list of the formats, and what each of them provides.
//!
//! # How to add a format
//! 1. Write a folder with a type that implements [`Format`]: it recognises a source, reads it and writes threads.
//! 2. Add the type to [`FORMATS`].
//!
//! # How a format reads
//! [`Format::run_first_pass`] reads a source once, finds everything that needs the whole file (ids, parents,
//! hashes, lengths), and returns a [`SessionWithIssues`](crate::session::SessionWithIssues) for each thread that the
//! source becomes. A format whose lines form a tree implements [`LineFormat`](crate::lines::LineFormat) instead, and
//! uses the function [`run_first_pass`](crate::lines::run_first_pass).
//!
//! [`Session::drafts`](crate::session::Session::drafts) returns the entries, in the order in which they are appended.
//! Each has an id that is the same in every import of the same bytes, an explicit parent (`ParentRef::Entry` or `Root`,
//! also for a side entry), and an `ImportOrigin`. The first draft contains the provenance
//! ([`Provenance::to_entry`](crate::provenance::Provenance::to_entry),
//! [`Provenance::to_custom`](crate::provenance::Provenance::to_custom)).

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use async_trait::async_trait;

use crate::{
    agent_core::AgentCoreFormat,
    claude_code::ClaudeCodeFormat,
    codex::CodexFormat,
    detect::{Sample, SourceKind},
    error::{Error, Result},
    export::{ExportFiles, ExportSource, WrittenSession},
    kimi_cli::KimiCliFormat,
    options::ImportOptions,
    pi::PiFormat,
    session::FirstPassResult,
};

/// The formats, in the order in which they are tried on a source.
pub(crate) static FORMATS: &[&dyn Format] =
    &[&PiFormat, &CodexFormat, &ClaudeCodeFormat, &KimiCliFormat, &AgentCoreFormat];

/// Whether two names are those of versions of one format.
pub(crate) fn is_same_format(name: &str, other: &str) -> bool {
    let has = |format: &&&dyn Format, name: &str| format.names().iter().any(|known| known.name() == name);
    name == other || FORMATS.iter().any(|format| has(&format, name) && has(&format, other))
}

/// The texts that name a format.
fn texts_of(format: &'static dyn Format) -> impl Iterator<Item = &'static str> {
    let unversioned = Some(format.unversioned_name());
    let unversioned = unversioned.filter(|unversioned| format.names().iter().all(|name| name.0 != *unversioned));
    unversioned.into_iter().chain(format.names().iter().map(|name| name.0))
}

/// A format of session files: how it is recognised, read and written.
#[async_trait]
pub(crate) trait Format: Sync {
    /// The name of the format without a version, such as `pi`. It stands for the version that [`Self::newest`]
    /// returns.
    fn unversioned_name(&self) -> &'static str {
        self.newest().name()
    }

    /// The version that is read and written if the caller names the format without a version.
    fn newest(&self) -> FormatName;

    /// Every version.
    fn names(&self) -> &'static [FormatName];

    /// Returns what a file is, or `None` if it is not of this format. A file that could be mistaken for one of this
    /// format, but cannot be read, is also recognised here ([`SourceKind::Unsupported`]).
    fn recognise(&self, sample: &Sample<'_>) -> Option<SourceKind>;

    /// The source that contains this file or folder, if its name and the names around it show that it is part of a
    /// session of this format.
    fn source_of(&self, _path: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Runs the first pass over a source.
    fn run_first_pass(&self, name: FormatName, path: &Path, options: &ImportOptions) -> Result<FirstPassResult>;

    /// Writes a thread. A thread that has not changed since its import from this format is written as the bytes that
    /// were imported ([`ExportSource::unchanged_provenance`]).
    async fn export(
        &self,
        name: FormatName,
        source: &ExportSource<'_>,
        files: &mut ExportFiles<'_>,
    ) -> Result<WrittenSession>;

    /// Whether a tool continues the sessions of the format, so that [`Self::place`] returns a place.
    fn has_tool(&self) -> bool {
        true
    }

    /// Where the tool looks for the sessions of a working folder, and the command that continues this session. `None`
    /// if no tool reads the format.
    async fn place(&self, _source: &ExportSource<'_>, _folders: &ToolFolders) -> Result<Option<ToolPlace>> {
        Ok(None)
    }
}

/// The folders that decide where a tool looks for session files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolFolders {
    /// The home folder of the user.
    pub home: PathBuf,
    /// The folder in which the tool will be started. It is an absolute path.
    pub working_folder: PathBuf,
    /// The values of environment variables with which a user moves the folder of a tool, such as `CODEX_HOME`.
    pub variables: std::collections::BTreeMap<String, String>,
}

impl ToolFolders {
    /// The folders of a user.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>, working_folder: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), working_folder: working_folder.into(), variables: std::collections::BTreeMap::new() }
    }

    /// The folder that an environment variable names, or else a folder in the home folder.
    pub(crate) fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        let named = self.variables.get(variable).filter(|value| !value.is_empty());
        named.map_or_else(|| self.home.join(below_home), PathBuf::from)
    }
}

/// Where a tool looks for a session, and the command that continues the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolPlace {
    /// The folder to which the session is exported.
    pub folder: PathBuf,
    /// The command that continues the session.
    pub command: String,
}

impl ToolPlace {
    pub(crate) fn new(folder: PathBuf, command: impl Into<String>) -> Self {
        Self { folder, command: command.into() }
    }
}

/// The name of a format that is read or written, such as `pi-v3`.
///
/// ```
/// use sessions::FormatName;
///
/// let name: FormatName = "pi".parse()?;
/// assert_eq!(name.name(), "pi-v3");
/// # Ok::<(), sessions::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatName(&'static str);

impl FormatName {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The name, such as `pi-v3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Every format, with each of its versions.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().flat_map(|format| format.names()).copied()
    }

    /// Every text that names a format: the names of the versions, and for a format with several versions the name
    /// without a version.
    pub fn accepted_texts() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().flat_map(|format| texts_of(*format))
    }

    /// Those of the [`accepted_texts`](Self::accepted_texts) whose sessions a tool continues
    /// ([`tool_place`](crate::tool_place)).
    pub fn accepted_tools() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().filter(|format| format.has_tool()).flat_map(|format| texts_of(*format))
    }

    /// Whether this and the other format are versions of one format.
    #[must_use]
    pub fn is_version_of_same_format(self, other: Self) -> bool {
        is_same_format(self.0, other.0)
    }

    /// The names of all formats, for messages.
    #[must_use]
    pub fn known_names() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// The format with this name. The result is never `None`, because names are made only from the list of formats.
    pub(crate) fn format(self) -> Option<&'static dyn Format> {
        FORMATS.iter().find(|format| format.names().contains(&self)).copied()
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl FromStr for FormatName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let of_version = Self::all().find(|format| format.0 == text);
        let newest = || FORMATS.iter().find(|format| format.unversioned_name() == text).map(|format| format.newest());
        of_version
            .or_else(newest)
            .ok_or_else(|| Error::UnknownFormat { name: text.to_owned(), known: Self::known_names() })
    }
}
