//! Datasets, their versions and cases.

use std::{fmt, str::FromStr};

use serde::Serialize;

use super::keys::{self, decode};
use crate::{
    codec::{Codec, Extra, record, sha256_hex},
    document::{Document, KeySegment},
    error::{Error, Result},
    id::{CaseId, DatasetId, EntryId, RunId, ThreadId},
    json::Json,
    layers::{escape_part, unescape_part},
    log::{Message, ToolResult, ToolUse},
    run::Completion,
    time::Timestamp,
};

/// The name in front of the hash of a case. Another way of hashing would get another name.
const HASH_NAME: &str = "sha256:";

/// A dataset, without its cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dataset {
    /// The id.
    pub id: DatasetId,
    /// The number of the current version, which is the newest.
    pub version: u64,
    /// The number of cases of the current version.
    pub cases: u64,
    /// When the first version was made; set by the store.
    pub created_at: Timestamp,
    /// When the current version was made; set by the store.
    pub updated_at: Timestamp,
}

impl Dataset {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let DatasetState { version, cases, .. } = decode(document)?;
        let (created_at, updated_at) = (document.created_at, document.updated_at);
        Ok(Self { id: keys::dataset_of(document)?, version, cases, created_at, updated_at })
    }

    /// Names the current version.
    #[must_use]
    pub fn current(&self) -> DatasetVersionRef {
        DatasetVersionRef::new(self.id.clone(), self.version)
    }
}

/// What is stored of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DatasetState {
    pub(super) version: u64,
    pub(super) cases: u64,
    pub(super) extra: Extra,
}

record!(DatasetState { version: req, cases: req });

/// Names a version of a dataset. It is written as `DATASET@VERSION`, and read back.
///
/// ```
/// use store_core::DatasetVersionRef;
///
/// let version = DatasetVersionRef::new("support/refunds".parse()?, 3);
/// assert_eq!(version.to_string(), "support%2Frefunds@3");
/// assert_eq!("support%2Frefunds@3".parse::<DatasetVersionRef>()?, version);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct DatasetVersionRef {
    /// The dataset.
    pub dataset: DatasetId,
    /// The number of the version, from 1.
    pub version: u64,
}

impl DatasetVersionRef {
    /// Names a version.
    #[must_use]
    pub const fn new(dataset: DatasetId, version: u64) -> Self {
        Self { dataset, version }
    }
}

impl fmt::Display for DatasetVersionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", escape_part(self.dataset.as_str()), self.version)
    }
}

impl FromStr for DatasetVersionRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid =
            || Error::invalid("dataset version", "it must be `DATASET@VERSION`; write `%40` for `@` in a name");
        let (dataset, version) = text.rsplit_once('@').ok_or_else(invalid)?;
        Ok(Self::new(unescape_part(dataset)?.parse()?, version.parse().map_err(|_| invalid())?))
    }
}

/// A version of a dataset, without its cases. It never changes (TR-3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DatasetVersion {
    /// The name.
    pub name: DatasetVersionRef,
    /// The content.
    pub content: DatasetVersionContent,
    /// When the version was made; set by the store.
    pub created_at: Timestamp,
}

impl DatasetVersion {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let segments = document.key.segments();
        let [_, KeySegment::Number(version)] = segments.as_slice() else { return Err(keys::unreadable(document)) };
        let name = DatasetVersionRef::new(keys::dataset_of(document)?, *version);
        Ok(Self { name, content: decode(document)?, created_at: document.created_at })
    }
}

/// What is stored of a version: how many cases it has, and how it differs from the version before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetVersionContent {
    /// The number of cases.
    pub cases: u64,
    /// The number of cases that are new.
    pub added: u64,
    /// The number of cases that have another content.
    pub replaced: u64,
    /// The number of cases that are gone.
    pub removed: u64,
    /// Who made the version.
    pub by: Option<String>,
    /// What was noted with the version.
    pub metadata: Option<Json>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DatasetVersionContent { cases: req, added: def, replaced: def, removed: def, by: opt, metadata: opt });

/// A case of a version of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DatasetCase {
    /// The id, unique in the dataset.
    pub id: CaseId,
    /// The hash of the content.
    pub hash: String,
    /// The version in which the case got this content.
    pub since: u64,
    /// The content.
    pub content: CaseContent,
}

/// The content of a case: what an agent is given, and what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseContent {
    /// What the agent is given: any JSON value; an array of messages in a case that was made from a run.
    pub input: Json,
    /// What is expected of the agent.
    pub expectation: Option<Json>,
    /// The tool calls of the recorded run with their results, so that an evaluation need not call the tools.
    pub tool_results: Vec<RecordedCall>,
    /// How the recorded run ended.
    pub outcome: Option<CaseOutcome>,
    /// The run that the case is a copy of.
    pub origin: Option<CaseOrigin>,
    /// What the application notes about the case.
    pub metadata: Option<Json>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(CaseContent { input: req, expectation: opt, tool_results: def, outcome: opt, origin: opt, metadata: opt });

impl CaseContent {
    /// Makes a case with this input and nothing else.
    #[must_use]
    pub fn new(input: Json) -> Self {
        Self {
            input,
            expectation: None,
            tool_results: Vec::new(),
            outcome: None,
            origin: None,
            metadata: None,
            extra: Extra::default(),
        }
    }

    /// Sets what is expected of the agent.
    #[must_use]
    pub fn expecting(mut self, expectation: Json) -> Self {
        self.expectation = Some(expectation);
        self
    }

    /// Returns the hash of the content: SHA-256 over its bytes as they are stored, with the name of the method in
    /// front. Two contents with one hash are equal byte by byte, also in the spelling of numbers and the order of keys.
    #[must_use]
    pub fn hash(&self) -> String {
        hash_of(&self.encode())
    }
}

/// Returns the hash of a content that is stored as `text`.
pub(in crate::layers) fn hash_of(text: &str) -> String {
    format!("{HASH_NAME}{}", sha256_hex(text))
}

/// A tool call of a recorded run, with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// The call.
    pub call: ToolUse,
    /// The result; absent if the run recorded none.
    pub result: Option<ToolResult>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(RecordedCall { call: req, result: opt });

/// How a recorded run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseOutcome {
    /// The outcome of the run, with its output and error.
    pub completion: Completion,
    /// The last message of the model in the run.
    pub answer: Option<Message>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(CaseOutcome { completion: req, answer: opt });

/// The run that a case is a copy of. The run may have been deleted since.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseOrigin {
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// The entries of the run that the case was made from, in the order of their path.
    pub entries: Vec<EntryId>,
    /// Which published definitions the run used.
    pub manifest: Option<String>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(CaseOrigin { thread: req, run: req, entries: def, manifest: opt });

/// What is stored of a case beside its content: in which versions it has the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::layers) struct CaseRow {
    /// The version in which the case got the content.
    pub(in crate::layers) from: u64,
    /// The first version in which the case does not have the content any more.
    pub(in crate::layers) until: Option<u64>,
    pub(in crate::layers) hash: String,
    pub(in crate::layers) extra: Extra,
}

record!(CaseRow { from: req, until: opt, hash: req });

impl CaseRow {
    /// Returns whether a version has the case with this content.
    pub(super) fn is_in(&self, version: u64) -> bool {
        self.from <= version && self.until.is_none_or(|until| version < until)
    }
}
