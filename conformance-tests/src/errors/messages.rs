//! The messages of errors, which people read, and their kinds and fields, which programs read.

use store_core::{
    Detail, DocumentExpect, DocumentKey, Error, ErrorKind, KeySegment, Outcome, SchemaRemedy, Subject, Timestamp,
    UnavailableCause, Version,
};

use super::{
    long_ids::refusals_with_long_ids,
    refusals::{SECRET, create_records_and_make_refused_calls},
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq},
    given::id,
    tenant::all_error_texts,
};

/// An error of each kind, with the outcome that the table of the contract gives for it, and whether it is retryable.
fn error_table() -> Vec<(Detail, Outcome, bool)> {
    use Outcome::{NotApplied, Unknown};
    let text = || "words".to_owned();
    let version = Some(Version::new(1, 1, 0));
    let key = DocumentKey::new(id("collection"), [KeySegment::Number(1)]).expect("a valid key");
    let document = Box::new(key.into());
    vec![
        (Detail::Invalid { what: text(), reason: text() }, NotApplied, false),
        (Detail::LimitExceeded { limit: "entries", max: 1, actual: 2 }, NotApplied, false),
        (Detail::NotFound { what: Subject::new("thread", "t") }, NotApplied, false),
        (Detail::AlreadyExists { what: Subject::new("thread", "t"), key: None }, NotApplied, false),
        (Detail::AlreadyExists { what: Subject::new("dispatch", "d"), key: Some(text()) }, NotApplied, false),
        (Detail::Conflict { what: "version", expected: version, actual: None }, NotApplied, false),
        (Detail::DocumentConflict { document, expected: DocumentExpect::Absent, actual: Some(7) }, NotApplied, false),
        (Detail::SnapshotConflict { expected: 1, actual: 2 }, NotApplied, false),
        (Detail::InvalidTransition { what: Subject::new("run", "r"), from: text(), to: text() }, NotApplied, false),
        (Detail::HasChildren { count: 2 }, NotApplied, false),
        (Detail::IdempotencyMismatch { key: text() }, NotApplied, false),
        (Detail::AlreadyConsumed { id: text() }, NotApplied, false),
        (Detail::ClaimLost { what: "dispatch", id: text() }, NotApplied, false),
        (Detail::StaleEpoch { expected: text(), actual: text() }, NotApplied, false),
        (Detail::InvalidCursor { reason: "it is malformed" }, NotApplied, false),
        (Detail::CursorExpired { floor: 3 }, NotApplied, false),
        (Detail::Unsupported { operation: "sync" }, NotApplied, false),
        (Detail::Unavailable { reason: text(), cause: UnavailableCause::Other }, NotApplied, true),
        (Detail::Closed, NotApplied, false),
        (Detail::CommitUnknown { key: Some(id("k")) }, Unknown, true),
        (Detail::CommitUnknown { key: None }, Unknown, false),
        (Detail::StorageFull, NotApplied, true),
        (Detail::Poisoned { what: text(), since: Timestamp::MIN }, NotApplied, false),
        (Detail::Quarantined { what: Subject::new("thread", "t"), sequence: 7 }, NotApplied, false),
        (Detail::Corrupt { location: text() }, NotApplied, false),
        (Detail::SchemaMismatch { found: text(), supported: text(), remedy: SchemaRemedy::Create }, NotApplied, false),
        (Detail::UnsafeDurability { setting: text(), option: text() }, NotApplied, false),
    ]
}

/// Every kind of error has the outcome that the table gives. It is retryable if the table says so, and only then. The
/// table lists every kind.
pub(super) async fn outcomes_agree_with_the_table(_given: &Given) -> Verdict {
    let mut kinds = Vec::new();
    for (detail, outcome, retryable) in error_table() {
        let error = Error::new(detail);
        expect_eq((error.outcome(), error.is_retryable()), (outcome, retryable))
            .map_err(|failure| failure.about(error.kind().name()))?;
        kinds.push(error.kind());
    }
    kinds.dedup();
    expect_eq(kinds, ErrorKind::ALL.to_vec())
}

/// Every error can be written as a JSON document with `kind`, `outcome`, `retryable`, `message` and the fields of its
/// kind.
pub(super) async fn errors_are_written_as_json(_given: &Given) -> Verdict {
    for (detail, outcome, retryable) in error_table() {
        let error = Error::new(detail).in_part("entries[2]").with_source("underneath");
        let text = serde_json::to_string(&error).map_err(|broken| Failure::new(broken.to_string()))?;
        let document: serde_json::Value = serde_json::from_str(&text).map_err(|e| Failure::new(e.to_string()))?;
        let expected = serde_json::json!({
            "kind": error.kind().name(), "outcome": outcome.name(), "retryable": retryable,
            "message": error.to_string(), "part": "entries[2]",
        });
        for (field, value) in expected.as_object().into_iter().flatten() {
            expect_eq(document.get(field), Some(value)).map_err(|failure| failure.about(&text))?;
        }
        // Five fields do not depend on the kind: those of `expected`.
        let field_count = document.as_object().map_or(0, serde_json::Map::len);
        let kind_has_no_fields = matches!(error.kind(), ErrorKind::Closed | ErrorKind::StorageFull);
        expect(
            (field_count > 5) != kind_has_no_fields,
            format!("the document lacks the fields of its kind, or has others: {text}"),
        )?;
        expect(std::error::Error::source(&error).is_some(), "the error lost its source")?;
    }
    Ok(())
}

/// Returns the text of a message outside backticks, and the length of the longest value in backticks.
fn unquoted_text_and_longest_value(message: &str) -> (String, usize) {
    let parts: Vec<&str> = message.split('`').collect();
    let unquoted_text = parts.iter().step_by(2).copied().collect();
    (unquoted_text, parts.iter().skip(1).step_by(2).map(|value| value.len()).max().unwrap_or_default())
}

/// Checks the form of the message of an error that `call` returned.
fn expect_well_formed(call: &str, error: &Error) -> Verdict {
    let message = error.to_string();
    let (unquoted_text, longest_value) = unquoted_text_and_longest_value(&message);
    let name = format!("{call}: {message}");
    expect(!message.is_empty() && !message.ends_with(['.', '!', '\n']), &name)?;
    expect(!message.starts_with(char::is_uppercase), &name)?;
    expect(longest_value <= 64, format!("a value of {longest_value} bytes in {name}"))?;
    expect(unquoted_text.len() <= 256, format!("{} bytes outside values in {name}", unquoted_text.len()))
}

/// Messages begin in lower case, end without a full stop, and show values in backticks, cut at 64 bytes.
pub(super) async fn messages_are_short_and_lower_case(given: &Given) -> Verdict {
    for (detail, ..) in error_table() {
        expect_well_formed("table", &Error::new(detail))?;
    }
    for (call, error) in create_records_and_make_refused_calls(given.contract(), &given.stores()?).await? {
        expect_well_formed(call, &error)?;
    }
    let longest_id = "é".repeat(128);
    for (call, error) in refusals_with_long_ids(given.contract(), &given.stores()?, &longest_id).await? {
        expect_well_formed(call, &error)?;
    }
    Ok(())
}

/// Neither an error nor the errors that caused it show a payload, a token or a value of the state.
pub(super) async fn errors_show_no_secret(given: &Given) -> Verdict {
    for (call, error) in create_records_and_make_refused_calls(given.contract(), &given.stores()?).await? {
        for text in all_error_texts(&error) {
            expect(!text.contains(SECRET), format!("{call}: {text}"))?;
        }
    }
    Ok(())
}

/// The error of a refused call names what it is about: the type and the id of the record, or the part of the request.
pub(super) async fn refusals_name_the_record_or_part_concerned(given: &Given) -> Verdict {
    for (call, error) in create_records_and_make_refused_calls(given.contract(), &given.stores()?).await? {
        let is_named = match error.detail() {
            Detail::NotFound { what } | Detail::AlreadyExists { what, .. } => {
                !what.noun.is_empty() && error.to_string().contains(&format!("{} `{}`", what.noun, what.id))
            }
            Detail::Invalid { what, reason } => !what.is_empty() && !reason.is_empty(),
            Detail::LimitExceeded { limit, max, actual } => !limit.is_empty() && actual > max,
            Detail::Conflict { what, expected, actual } => !what.is_empty() && expected != actual,
            _ => true,
        };
        expect(is_named, format!("{call}: {error}"))?;
        // In these calls the second entry is the one that is refused.
        let refuses_second_entry = ["message", "entry taken", "entry parent", "label target"].contains(&call);
        expect(!refuses_second_entry || error.part() == Some("entries[1]"), format!("{call}: {:?}", error.part()))?;
    }
    Ok(())
}
