//! The error type of all contracts: what happened, whether it may have had an effect, and why.

mod detail;
mod kind;

use std::{error::Error as StdError, fmt};

use serde::{Serialize, Serializer, ser::SerializeMap};

pub(crate) use self::detail::Quoted;
pub use self::{
    detail::{Detail, SchemaRemedy, Subject, UnavailableCause},
    kind::{ErrorKind, Outcome},
};
use crate::{id::CommitKey, version::Version};

/// The result of every contract method.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn StdError + Send + Sync>;

/// An error: its kind with data, the part of the request that it is about, and the underlying error (ER-1).
///
/// Callers use [`kind`](Self::kind), [`outcome`](Self::outcome) and [`is_retryable`](Self::is_retryable). No caller
/// needs to parse the message. Messages name ids, but never payloads or secrets (ER-6).
///
/// ```
/// use store_core::{ErrorKind, Outcome, ThreadId};
///
/// let error = ThreadId::new("").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.outcome(), Outcome::NotApplied);
/// assert_eq!(error.to_string(), "invalid thread id: it is empty");
/// ```
pub struct Error {
    data: Box<ErrorData>,
}

struct ErrorData {
    detail: Detail,
    part: Option<String>,
    source: Option<Source>,
}

impl Error {
    /// Makes the error that `detail` describes.
    #[must_use]
    pub fn new(detail: Detail) -> Self {
        Self { data: Box::new(ErrorData { detail, part: None, source: None }) }
    }

    /// Adds the underlying error, which is kept as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.data.source = Some(source.into());
        self
    }

    /// Adds the part of the request that the error is about, such as `entries[2]` (CM-19).
    #[must_use]
    pub fn in_part(mut self, part: impl Into<String>) -> Self {
        self.data.part = Some(part.into());
        self
    }

    /// Makes an `Invalid` error: no store ever accepts the argument.
    #[must_use]
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(Detail::Invalid { what: what.into(), reason: reason.into() })
    }

    /// Makes a `LimitExceeded` error: a size or a number is above a limit.
    #[must_use]
    pub fn limit_exceeded(limit: &'static str, max: u64, actual: u64) -> Self {
        Self::new(Detail::LimitExceeded { limit, max, actual })
    }

    /// Makes a `NotFound` error: a record that the call needs does not exist.
    #[must_use]
    pub fn not_found(noun: &'static str, id: impl AsRef<str>) -> Self {
        Self::new(Detail::NotFound { what: Subject::new(noun, id) })
    }

    /// Makes an `AlreadyExists` error: the id is in use.
    #[must_use]
    pub fn already_exists(noun: &'static str, id: impl AsRef<str>) -> Self {
        Self::new(Detail::AlreadyExists { what: Subject::new(noun, id), key: None })
    }

    /// Makes an `AlreadyExists` error: the record with this id has the key.
    #[must_use]
    pub fn key_taken(key: impl AsRef<str>, noun: &'static str, id: impl AsRef<str>) -> Self {
        Self::new(Detail::AlreadyExists { what: Subject::new(noun, id), key: Some(key.as_ref().to_owned()) })
    }

    /// Makes a `Conflict` error: a guard did not hold. `None` means that there is no such record.
    #[must_use]
    pub fn conflict(what: &'static str, expected: Option<Version>, actual: Option<Version>) -> Self {
        Self::new(Detail::Conflict { what, expected, actual })
    }

    /// Makes an `InvalidTransition` error: the state of the record does not allow the change.
    #[must_use]
    pub fn invalid_transition(
        noun: &'static str,
        id: impl AsRef<str>,
        from: impl Into<String>,
        to: impl Into<String>,
    ) -> Self {
        Self::new(Detail::InvalidTransition { what: Subject::new(noun, id), from: from.into(), to: to.into() })
    }

    /// Makes an `InvalidCursor` error: the cursor cannot be used here.
    #[must_use]
    pub fn invalid_cursor(reason: &'static str) -> Self {
        Self::new(Detail::InvalidCursor { reason })
    }

    /// Makes an `Unavailable` error with the cause `Other`: the call was certainly not applied, for the given reason.
    #[must_use]
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(Detail::Unavailable { reason: reason.into(), cause: UnavailableCause::Other })
    }

    /// Makes an `Unavailable` error: the call was not applied, because the server of the store cannot be reached, is
    /// busy, or refuses the connection.
    #[must_use]
    pub fn server_unavailable(reason: impl Into<String>) -> Self {
        Self::new(Detail::Unavailable { reason: reason.into(), cause: UnavailableCause::Server })
    }

    /// Makes an `Unavailable` error: the call was certainly not applied, because another process has the store open,
    /// and only one process may open it at a time.
    #[must_use]
    pub fn store_in_use(reason: impl Into<String>) -> Self {
        Self::new(Detail::Unavailable { reason: reason.into(), cause: UnavailableCause::Held })
    }

    /// Makes an `Unavailable` error: the call was certainly not applied, because a write buffer is attached to the
    /// store, which was opened without it.
    #[must_use]
    pub fn behind_buffer(reason: impl Into<String>) -> Self {
        Self::new(Detail::Unavailable { reason: reason.into(), cause: UnavailableCause::Buffered })
    }

    /// Makes a `SchemaMismatch` error: there is no schema, or one that this release does not read.
    #[must_use]
    pub fn schema_mismatch(found: impl Into<String>, supported: impl Into<String>, remedy: SchemaRemedy) -> Self {
        Self::new(Detail::SchemaMismatch { found: found.into(), supported: supported.into(), remedy })
    }

    /// Makes a `Closed` error: the store or the tenant was closed.
    #[must_use]
    pub fn closed() -> Self {
        Self::new(Detail::Closed)
    }

    /// Makes a `CommitUnknown` error: it is unknown whether the call took effect.
    #[must_use]
    pub fn commit_unknown(key: Option<CommitKey>) -> Self {
        Self::new(Detail::CommitUnknown { key })
    }

    /// Makes a `Corrupt` error: stored bytes are not the bytes that were written.
    #[must_use]
    pub fn corrupt(location: impl Into<String>) -> Self {
        Self::new(Detail::Corrupt { location: location.into() })
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.data.detail.kind()
    }

    /// Returns the kind with its data.
    #[must_use]
    pub fn detail(&self) -> &Detail {
        &self.data.detail
    }

    /// Returns the part of the request that the error is about, such as `entries[2]`, if there is one.
    #[must_use]
    pub fn part(&self) -> Option<&str> {
        self.data.part.as_deref()
    }

    /// Returns whether the call may have had an effect (ER-2).
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.kind().outcome()
    }

    /// Returns whether the call can be repeated unchanged: it may then succeed, and it cannot take effect twice (ER-5).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &self.data.detail {
            Detail::Unavailable { .. } | Detail::StorageFull => true,
            Detail::CommitUnknown { key } => key.is_some(),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = &self.data.part {
            write!(f, "{part}: ")?;
        }
        self.data.detail.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorData { detail, part, source } = &*self.data;
        f.debug_struct("Error").field("detail", detail).field("part", part).field("source", source).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.data.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Writes the error as `{kind, outcome, retryable, message, part?, …fields}` (ER-7).
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind().name())?;
        map.serialize_entry("outcome", self.outcome().name())?;
        map.serialize_entry("retryable", &self.is_retryable())?;
        map.serialize_entry("message", &self.to_string())?;
        if let Some(part) = &self.data.part {
            map.serialize_entry("part", part)?;
        }
        self.data.detail.write_fields(&mut map)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{Detail, Error, SchemaRemedy};
    use crate::{DocumentExpect, DocumentKey, DocumentRef, KeySegment};

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let message = Error::not_found("thread", "é".repeat(100)).to_string();
        assert!(message.starts_with("thread `éé") && message.ends_with("…` does not exist"), "{message}");
        assert!(message.len() < 100, "{message}");
    }

    #[test]
    fn an_error_is_written_as_a_json_document() {
        let error = Error::not_found("thread", "t-1").in_part("create");
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"not_found","outcome":"not_applied","retryable":false,"message":"create: thread `t-1` does not exist","part":"create","what":"thread","id":"t-1"}"#
        );
    }

    #[test]
    fn an_error_has_fields_for_everything_that_advice_depends_on() {
        let document = |error: &Error| serde_json::to_value(error).unwrap();
        let key_taken = Error::key_taken("k", "dispatch", "d");
        assert_eq!(key_taken.to_string(), "key `k` is already used by dispatch `d`");
        assert_eq!([&document(&key_taken)["key"], &document(&key_taken)["id"]], ["k", "d"]);
        assert!(document(&Error::already_exists("dispatch", "d")).get("key").is_none());
        let causes = [Error::store_in_use("x"), Error::server_unavailable("x"), Error::unavailable("x")];
        assert_eq!(causes.map(|error| document(&error)["cause"].clone()), ["held", "server", "other"]);
        let remedies = [SchemaRemedy::Create, SchemaRemedy::Migrate, SchemaRemedy::Release];
        let names = remedies.map(|remedy| document(&Error::schema_mismatch("none", "1", remedy))["mend"].clone());
        assert_eq!(names, ["make", "migrate", "release"]);
    }

    #[test]
    fn a_conflict_of_a_document_names_the_record_that_it_contains() {
        let check = |collection: &str, segments: &[KeySegment], what: &str, id: Option<&str>| {
            let key = DocumentKey::new(collection.parse().unwrap(), segments.to_vec()).unwrap();
            let document = Box::new(DocumentRef::from(key));
            let (expected, actual) = (DocumentExpect::Absent, Some(7));
            let error = Error::new(Detail::DocumentConflict { document: document.clone(), expected, actual });
            let name = id.map_or_else(|| document.to_string(), str::to_owned);
            assert_eq!(error.to_string(), format!("conflict in {what} `{name}`: expected none, but found revision 7"));
            let written = serde_json::to_value(&error).unwrap();
            assert_eq!((written["what"].as_str(), written["id"].as_str()), (Some(what), id));
            assert_eq!(written["document"]["collection"], collection);
        };
        let [id, other] = ["a/b", "c"].map(|text| KeySegment::id(text).unwrap());
        let number = KeySegment::Number;
        check("layer.config", &[id.clone(), other.clone()], "config record", Some("a%2Fb/c"));
        check("layer.profiles", &[number(2), id.clone(), other.clone()], "profile value", Some("user:a/b c"));
        check("layer.profiles", &[number(3), other.clone()], "profile value", Some("system c"));
        let definition = [other.clone(), id.clone()];
        let version = [definition.as_slice(), &[number(3)]].concat();
        let pin = [version.as_slice(), &[number(1)]].concat();
        check("layer.registry.definitions", &definition, "definition", Some("c/a%2Fb"));
        check("layer.registry.versions", &version, "version", Some("c/a%2Fb@3"));
        check("layer.registry.pins", &pin, "pin of version", Some("c/a%2Fb@3"));
        check("layer.registry.marks", &version, "mark of version", Some("c/a%2Fb@3"));
        check("layer.registry.publications", &[number(4)], "snapshot", Some("4"));
        let one = std::slice::from_ref(&other);
        check("layer.registry.publication_ids", one, "publication", Some("c"));
        check("layer.config", one, "document", None);
        check("notes", &[id, other.clone()], "document", None);
    }

    #[test]
    fn a_conflict_of_snapshots_says_which_one_is_the_latest() {
        let text = |expected, actual| Error::new(Detail::SnapshotConflict { expected, actual }).to_string();
        assert_eq!(text(1, 2), "conflict in the latest snapshot: expected 1, but found 2");
        assert_eq!(text(0, 2), "conflict in the latest snapshot: expected none, but found 2");
    }

    #[test]
    fn an_unknown_commit_can_be_repeated_only_with_its_key() {
        let key = crate::CommitKey::new("k").unwrap();
        assert!(Error::commit_unknown(Some(key)).is_retryable());
        assert!(!Error::commit_unknown(None).is_retryable());
        assert!(Error::new(Detail::StorageFull).is_retryable());
    }

    #[test]
    fn a_message_says_what_was_found_and_what_to_do() {
        let message = Error::not_found("thread", "x".repeat(100)).to_string();
        assert_eq!(message, format!("thread `{}…` does not exist", "x".repeat(61)));
        let (expected, actual) = (Some(crate::Version::new(3, 1, 0)), None);
        let conflict = Error::new(Detail::Conflict { what: "version", expected, actual });
        assert_eq!(conflict.to_string(), "conflict in version: expected version 3, but found none");
        let unknown = |key| Error::commit_unknown(key).to_string();
        assert!(unknown(None).ends_with("read the store before you repeat it"));
        assert!(unknown(crate::CommitKey::new("k").ok()).ends_with("repeat it with its key `k`"));
    }
}
