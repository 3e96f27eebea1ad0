//! Changes of a thread's state by key (CM-24 to CM-26, CM-39).

use store_core::{
    Error, Json, JsonMap, Limits, Result, StateChange, StateOp, check_limit,
    codec::{Fields, ObjectWriter},
};

use super::bug::Bug;

/// Returns the state after `change`.
pub(super) fn apply_change(
    state: &JsonMap,
    change: &StateChange,
    limits_and_bug: (&Limits, Option<Bug>),
) -> Result<JsonMap> {
    let (limits, bug) = limits_and_bug;
    let mut after = if change.clear { JsonMap::new() } else { state.clone() };
    for (key, op) in &change.changes {
        let old_value = after.remove(key);
        if let Some(value) = value_after(old_value.as_ref(), op, bug).map_err(|e| e.in_part("state"))? {
            check_limit("record bytes", value.as_str().len() as u64, limits.record_bytes)?;
            after.insert(key.clone(), value);
        }
    }
    Ok(after)
}

/// Refuses a state if it has too many keys or bytes, or if one of its values is too large.
pub(super) fn check_totals(state: &JsonMap, limits: &Limits) -> Result<()> {
    let check = |value: &Json| check_limit("record bytes", value.as_str().len() as u64, limits.record_bytes);
    state.values().try_for_each(check)?;
    check_limit("state keys", state.len() as u64, limits.state_keys)?;
    let bytes: usize = state.iter().map(|(key, value)| key.len() + value.as_str().len()).sum();
    check_limit("state bytes", bytes as u64, limits.state_bytes)
}

fn value_after(old: Option<&Json>, op: &StateOp, bug: Option<Bug>) -> Result<Option<Json>> {
    Ok(match op {
        StateOp::Set(value) if bug == Some(Bug::NumbersRewritten) => Some(rewrite_numbers(value)?),
        StateOp::Set(value) => Some(value.clone()),
        StateOp::Remove => None,
        StateOp::Add(by) if bug == Some(Bug::AddReplacesValue) => Some(Json::of(by)?),
        StateOp::Add(by) => {
            let sum = parse_number(old)?.unwrap_or(0).checked_add(*by);
            Some(Json::of(&sum.ok_or_else(|| Error::invalid("state", "the sum is too large"))?)?)
        }
        StateOp::Max(other) => Some(Json::of(&parse_number(old)?.map_or(*other, |old| old.max(*other)))?),
        StateOp::Append(items) => {
            let mut list: Vec<Json> = match old {
                None => Vec::new(),
                Some(list) if list.is_array() => list.to()?,
                Some(_) => return Err(Error::invalid("state", "the stored value is not a list")),
            };
            list.extend(items.iter().cloned());
            Some(Json::of(&list)?)
        }
        StateOp::Merge(new) => Some(merge(old, new)?),
        _ => return Err(Error::invalid("state", "the model does not know this change")),
    })
}

fn parse_number(old: Option<&Json>) -> Result<Option<i64>> {
    let parse =
        |json: &Json| json.as_str().parse().map_err(|_| Error::invalid("state", "the stored value is not an integer"));
    old.map(parse).transpose()
}

/// Merges two objects one level deep. If `old` has a field with the same name as one of `new`, the field gets the new
/// value. Other fields of `new` are added at the end.
fn merge(old: Option<&Json>, new: &Json) -> Result<Json> {
    let mut merged: Vec<(String, Json)> = Vec::new();
    for object in old.into_iter().chain([new]) {
        let no_object = |_| Error::invalid("state", "the value is not an object");
        for (name, raw) in Fields::parse(object.as_str()).map_err(no_object)?.into_pairs() {
            let value = Json::parse(raw)?;
            match merged.iter_mut().find(|(known_name, _)| *known_name == name) {
                Some((_, known_value)) => *known_value = value,
                None => merged.push((name, value)),
            }
        }
    }
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    for (name, value) in &merged {
        object.field(name, value);
    }
    object.close();
    Json::parse(&text)
}

/// Returns a value after its numbers were parsed and written again, as with the planted bug `NumbersRewritten`.
pub(super) fn rewrite_numbers(value: &Json) -> Result<Json> {
    let value: serde_json::Value = value.to()?;
    Json::of(&value)
}
