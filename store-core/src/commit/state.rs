//! Changes of a thread's state, key by key (CM-24 to CM-26, CM-39, CM-40).

use std::collections::BTreeMap;

use super::{StateChange, StateOp, view::CommitView};
use crate::{
    codec::{Codec, Fields, ObjectWriter},
    error::{Error, Quoted, Result},
    json::Json,
    limits::{Limits, check_limit, length},
    thread::StoredThread,
    version::{Expect, Version},
};

/// The changes that a store writes to a thread's state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateWrite {
    /// Whether all keys are removed before the values are set.
    pub clear: bool,
    /// Values to set, and keys to remove (`None`).
    pub values: BTreeMap<String, Option<Json>>,
}

/// Computes the new values, and updates the number of state keys and bytes that the thread records.
pub(super) fn plan_state_change(
    view: &(impl CommitView + ?Sized),
    thread: &mut StoredThread,
    change: &StateChange,
    limits: &Limits,
) -> Result<StateWrite> {
    let mut write = StateWrite { clear: change.clear, values: BTreeMap::new() };
    if change.clear {
        (thread.state_keys, thread.state_bytes) = (0, 0);
    }
    for (key, op) in &change.changes {
        let stored = if change.clear { None } else { view.state(key)? };
        let value =
            apply_operation(stored.as_ref(), op, limits).map_err(|e| e.in_part(format!("state.{}", Quoted(key))))?;
        let size = |value: &Json| length(key.len() + value.as_str().len());
        if let Some(stored) = &stored {
            thread.state_keys = thread.state_keys.saturating_sub(1);
            thread.state_bytes = thread.state_bytes.saturating_sub(size(stored));
        }
        if let Some(value) = &value {
            thread.state_keys += 1;
            thread.state_bytes = thread.state_bytes.saturating_add(size(value));
        }
        write.values.insert(key.clone(), value);
    }
    check_limit("state keys", thread.state_keys, limits.state_keys)?;
    check_limit("state bytes", thread.state_bytes, limits.state_bytes)?;
    thread.thread.state_revision += u64::from(!change.is_empty());
    Ok(write)
}

/// Checks the expected revision (CM-40).
pub(super) fn check_revision(thread: &StoredThread, change: &StateChange) -> Result<()> {
    // A `Conflict` contains versions, so each revision is put into a version as its number.
    let version = |number| Version::new(number, thread.thread.generation(), thread.thread.version.incarnation());
    match change.expect_revision {
        None => Ok(()),
        Some(expected) => {
            Expect::Version(version(expected)).check("state revision", Some(version(thread.thread.state_revision)))
        }
    }
}

/// Returns the new value, or none if the key is removed.
///
/// The new value must not exceed the limit for one record, whatever the operation is (ER-9).
fn apply_operation(stored: Option<&Json>, op: &StateOp, limits: &Limits) -> Result<Option<Json>> {
    let value = op.apply(stored)?;
    let bytes = value.as_ref().map_or(0, |value| length(value.as_str().len()));
    check_limit("record bytes", bytes, limits.record_bytes)?;
    Ok(value)
}

impl StateOp {
    /// Returns the value after this operation, or none if it removes the value. The size is not limited.
    ///
    /// # Errors
    /// `Invalid` if the stored value does not have the type that the operation needs, and if a sum overflows (CM-39).
    pub(crate) fn apply(&self, stored: Option<&Json>) -> Result<Option<Json>> {
        let value = match self {
            Self::Set(value) => value.clone(),
            Self::Remove => return Ok(None),
            Self::Add(by) => {
                let sum = read_integer(stored)?.unwrap_or(0).checked_add(*by);
                Json::of(&sum.ok_or_else(|| Error::invalid("state", "the sum overflows"))?)?
            }
            Self::Max(other) => Json::of(&read_integer(stored)?.unwrap_or(*other).max(*other))?,
            Self::Append(items) => append_items(stored, items)?,
            Self::Merge(fields) => merge_fields(stored, fields)?,
        };
        Ok(Some(value))
    }
}

/// Reads a 64-bit integer that is written without a fraction or an exponent.
fn read_integer(stored: Option<&Json>) -> Result<Option<i64>> {
    let read = |json: &Json| {
        json.as_str().parse().map_err(|_| Error::invalid("state", "the stored value is not a 64-bit integer"))
    };
    stored.map(read).transpose()
}

fn append_items(stored: Option<&Json>, items: &[Json]) -> Result<Json> {
    let mut text = match stored {
        None => String::from("["),
        // The items are written in place of the closing bracket.
        Some(list) if list.is_array() => list.as_str().strip_suffix(']').unwrap_or_default().to_owned(),
        Some(_) => return Err(Error::invalid("state", "the stored value is not a list")),
    };
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(item.as_str());
    }
    text.push(']');
    Json::parse(&text)
}

fn merge_fields(stored: Option<&Json>, new_fields: &Json) -> Result<Json> {
    let invalid = |_| Error::invalid("state", "the stored value is not an object");
    let empty_object = Json::parse("{}")?;
    let stored_object = stored.unwrap_or(&empty_object);
    let mut values: BTreeMap<String, &str> = BTreeMap::new();
    let mut order = Vec::new();
    for raw in [stored_object, new_fields] {
        for (name, value) in Fields::parse(raw.as_str()).map_err(invalid)?.into_pairs() {
            if values.insert(name.clone(), value).is_none() {
                order.push(name);
            }
        }
    }
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    for name in order {
        if let Some(value) = values.get(&name) {
            object.field(&name, &Json::read(value).map_err(invalid)?);
        }
    }
    object.close();
    Json::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::apply_operation;
    use crate::{Json, Limits, StateOp};

    fn expect_result(stored: Option<&str>, op: &StateOp, expected: Result<&str, ()>) {
        let stored = stored.map(|text| Json::parse(text).unwrap());
        let found = apply_operation(stored.as_ref(), op, &Limits::default())
            .map_err(|_| ())
            .map(|json| json.unwrap().as_str().to_owned());
        assert_eq!(found, expected.map(str::to_owned), "{stored:?} {op:?}");
    }

    #[test]
    fn state_operations_are_checked_against_stored_values() {
        let json = |text: &str| Json::parse(text).unwrap();
        expect_result(None, &StateOp::Add(5), Ok("5"));
        expect_result(Some("-3"), &StateOp::Add(5), Ok("2"));
        expect_result(Some("1.0"), &StateOp::Add(5), Err(()));
        expect_result(Some("1e3"), &StateOp::Add(5), Err(()));
        expect_result(Some("9223372036854775807"), &StateOp::Add(1), Err(()));
        expect_result(Some("\"1\""), &StateOp::Max(1), Err(()));
        expect_result(None, &StateOp::Max(-4), Ok("-4"));
        expect_result(Some("7"), &StateOp::Max(3), Ok("7"));
        expect_result(None, &StateOp::Append(vec![json("1"), json("[2]")]), Ok("[1,[2]]"));
        expect_result(Some("[[]]"), &StateOp::Append(vec![json("{}")]), Ok("[[],{}]"));
        expect_result(Some("[]"), &StateOp::Append(vec![]), Ok("[]"));
        expect_result(Some("{}"), &StateOp::Append(vec![]), Err(()));
        expect_result(None, &StateOp::Merge(json(r#"{"a":1.0}"#)), Ok(r#"{"a":1.0}"#));
        expect_result(
            Some(r#"{"b":1,"a":{"x":1}}"#),
            &StateOp::Merge(json(r#"{"a":{"y":2}}"#)),
            Ok(r#"{"b":1,"a":{"y":2}}"#),
        );
        expect_result(Some("[1]"), &StateOp::Merge(json("{}")), Err(()));
    }
}
