//! JSON values as trees. Numbers keep their spelling, and objects keep the order of their fields.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::value::RawValue;
use store_core::{
    Error, Json, Result,
    codec::{Codec, Fields},
};

/// A JSON value.
///
/// Two objects are equal if they have the same fields, in any order. Two numbers are equal if they are spelled alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    /// A string that contains half of a surrogate pair, as JSON text. No Rust string can hold it.
    HalfSurrogate(String),
    List(Vec<Self>),
    Object(Object),
}

impl Value {
    /// Reads a value.
    pub(crate) fn of(json: &Json) -> Result<Self> {
        Self::parse(json.as_str())
    }

    pub(crate) fn parse(raw: &str) -> Result<Self> {
        let malformed = |_| Error::invalid("json", "it is not a JSON value");
        Ok(match raw.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'"') => match serde_json::from_str(raw) {
                Ok(text) => Self::Text(text),
                Err(_) => Self::HalfSurrogate(raw.to_owned()),
            },
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(malformed)?;
                Self::List(items.into_iter().map(|item| Self::parse(item.get())).collect::<Result<_>>()?)
            }
            Some(b'{') => {
                let fields = Fields::parse(raw).map_err(|_| Error::invalid("json", "an object cannot be read"))?;
                // A repeated name has its last value, at its first position.
                let (mut object, mut positions) = (Object::default(), BTreeMap::new());
                for (name, raw) in fields.into_pairs() {
                    let value = Self::parse(raw)?;
                    let at = *positions.entry(name.clone()).or_insert(object.0.len());
                    match object.0.get_mut(at) {
                        Some((_, old)) => *old = value,
                        None => object.0.push((name, value)),
                    }
                }
                Self::Object(object)
            }
            _ => Self::Number(raw.to_owned()),
        })
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Appends a text to a text. If the first ends and the second begins with half of a surrogate pair, the halves
    /// become the pair.
    pub(crate) fn append_text(&mut self, more: &Self) {
        if let (Self::Text(text), Self::Text(more)) = (&mut *self, more) {
            text.push_str(more);
            return;
        }
        let (start, more) = (self.encode(), more.encode());
        if let (Some(start), Some(more)) = (start.strip_suffix('"'), more.strip_prefix('"'))
            && let Ok(joined) = Self::parse(&format!("{start}{more}"))
        {
            *self = joined;
        }
    }

    pub(crate) const fn is_string(&self) -> bool {
        matches!(self, Self::Text(_) | Self::HalfSurrogate(_))
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    pub(crate) fn to_json(&self) -> Result<Json> {
        let mut out = String::new();
        self.write(&mut out);
        Json::parse(&out)
    }

    /// Returns the value as JSON text.
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => value.write(out),
            Self::Number(raw) | Self::HalfSurrogate(raw) => out.push_str(raw),
            Self::Text(text) => text.write(out),
            Self::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(object) => {
                out.push('{');
                for (at, (name, value)) in object.0.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    name.write(out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// A JSON object. A repeated name counts once, with its last value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object(Vec<(String, Value)>);

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let others = FieldsByName::of(other);
        self.0.len() == other.0.len() && self.0.iter().all(|(name, value)| others.get(name) == Some(value))
    }
}

impl Eq for Object {}

/// The fields of an object, by name. The fields of a large object are in a map, so that the time to compare two large
/// objects hardly grows faster than their length.
enum FieldsByName<'a> {
    Few(&'a Object),
    Many(BTreeMap<&'a str, &'a Value>),
}

impl<'a> FieldsByName<'a> {
    /// The number of fields up to which a search from the beginning is faster than a map.
    const FEW: usize = 16;

    fn of(object: &'a Object) -> Self {
        if object.0.len() <= Self::FEW { Self::Few(object) } else { Self::Many(object.iter().collect()) }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::Few(object) => object.get(name),
            Self::Many(fields) => fields.get(name).copied(),
        }
    }
}

impl Object {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Creates an object with one field `type`.
    pub(crate) fn of_type(kind: &str) -> Self {
        Self::default().with("type", Value::text(kind))
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn with_text(self, name: &str, text: impl Into<String>) -> Self {
        self.with(name, Value::text(text))
    }

    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    pub(crate) fn object(&self, name: &str) -> Option<&Self> {
        self.get(name)?.as_object()
    }

    pub(crate) fn list(&self, name: &str) -> Option<&[Value]> {
        self.get(name)?.as_list()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        if let Value::Number(raw) = self.get(name)? { raw.parse().ok() } else { None }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The changes that turn one value into another. Objects are compared field by field; any other value is replaced as a
/// whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    /// The values to set, by JSON pointer.
    pub(crate) set: Vec<(String, Value)>,
    /// The JSON pointers of the fields to remove.
    pub(crate) unset: Vec<String>,
}

impl Diff {
    pub(crate) fn between(from: &Object, to: &Object) -> Self {
        let mut diff = Self::default();
        diff.collect("", from, to);
        diff
    }

    fn collect(&mut self, pointer: &str, from: &Object, to: &Object) {
        let (old_fields, new_fields) = (FieldsByName::of(from), FieldsByName::of(to));
        for (name, value) in to.iter() {
            let pointer = child_pointer(pointer, name);
            match (old_fields.get(name), value) {
                (Some(old), value) if old == value => {}
                (Some(Value::Object(from)), Value::Object(to)) => self.collect(&pointer, from, to),
                _ => self.set.push((pointer, value.clone())),
            }
        }
        let removed_fields = from.iter().filter(|(name, _)| new_fields.get(name).is_none());
        self.unset.extend(removed_fields.map(|(name, _)| child_pointer(pointer, name)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.unset.is_empty()
    }

    pub(crate) fn apply(&self, object: &mut Object) {
        let mut changes: BTreeMap<&str, FieldChanges<'_>> = BTreeMap::new();
        for pointer in &self.unset {
            let (parent, name) = split_pointer(pointer);
            changes.entry(parent).or_default().unset.insert(name);
        }
        for (pointer, value) in &self.set {
            let (parent, name) = split_pointer(pointer);
            changes.entry(parent).or_default().set.push((name, value));
        }
        for (pointer, changes) in changes {
            if let Some(changed) = object_at(object, pointer) {
                changes.apply(changed);
            }
        }
    }
}

/// The changes of the fields of one object.
#[derive(Default)]
struct FieldChanges<'a> {
    set: Vec<(String, &'a Value)>,
    unset: BTreeSet<String>,
}

impl FieldChanges<'_> {
    fn apply(self, object: &mut Object) {
        if !self.unset.is_empty() {
            object.0.retain(|(name, _)| !self.unset.contains(name));
        }
        let positions: BTreeMap<_, _> = object.0.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        for (name, value) in self.set {
            match positions.get(&name).and_then(|at| object.0.get_mut(*at)) {
                Some((_, old)) => *old = value.clone(),
                None => object.0.push((name, value.clone())),
            }
        }
    }
}

/// Returns the pointer of the object that has the field at `pointer`, and the name of the field.
fn split_pointer(pointer: &str) -> (&str, String) {
    let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    (parent, unescaped(name))
}

/// Returns the object at a pointer, if there is one.
fn object_at<'a>(object: &'a mut Object, pointer: &str) -> Option<&'a mut Object> {
    let mut object = object;
    for step in pointer.split('/').skip(1) {
        match object.get_mut(&unescaped(step))? {
            Value::Object(child) => object = child,
            _ => return None,
        }
    }
    Some(object)
}

/// Returns the JSON pointer (RFC 6901) of a field of the object at `pointer`.
pub(crate) fn child_pointer(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Returns the text of a JSON string in which halves of surrogate pairs are replaced by U+FFFD.
pub(crate) fn lossy_text(json: &str) -> String {
    let unit = |escape: &str| u32::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let is_high = |unit: u32| (0xd800..0xdc00).contains(&unit);
    let is_low = |unit: u32| (0xdc00..0xe000).contains(&unit);
    let (mut fixed, mut rest) = (String::with_capacity(json.len()), json);
    while let Some((before, escape)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        fixed.push_str(before);
        let next = escape.get(6..).and_then(unit);
        let length = match unit(escape) {
            None => 2,
            Some(first) if is_high(first) && next.is_some_and(is_low) => 12,
            Some(_) => 6,
        };
        let is_half = length == 6 && unit(escape).is_some_and(|unit| is_high(unit) || is_low(unit));
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        fixed.push_str(if is_half { "\\ufffd" } else { escape });
        rest = after;
    }
    fixed.push_str(rest);
    serde_json::from_str(&fixed).unwrap_or_default()
}

/// Splits a data URL into its media type and its base64 text.
pub(crate) fn split_data_url(url: &str) -> Option<(String, &str)> {
    let (header, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((header.strip_suffix(";base64")?.to_owned(), data))
}

pub(crate) fn base64_of(text: &str) -> String {
    STANDARD.encode(text)
}

/// Returns the text that `base64` encodes, if it is valid UTF-8.
pub(crate) fn text_of_base64(base64: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(base64).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{Diff, Object, Value, lossy_text};

    fn object(raw: &str) -> Object {
        Value::parse(raw).unwrap().as_object().unwrap().clone()
    }

    #[test]
    fn numbers_keep_their_spelling_and_objects_their_order() {
        for raw in [r#"{"b":1.0,"a":[1e2,12345678901234567890123,-0.0]}"#, r#"["\ud800",null,true,{}]"#] {
            assert_eq!(Value::parse(raw).unwrap().encode(), raw);
        }
        assert_eq!(object(r#"{"a":1,"b":2}"#), object(r#"{"b":2,"a":1}"#));
        assert_ne!(object(r#"{"a":1}"#), object(r#"{"a":1.0}"#));
    }

    #[test]
    fn half_of_a_surrogate_pair_becomes_the_replacement_character() {
        assert_eq!(lossy_text(r#""a\ud800b\\ud800\udc00\ud83d\ude00\n""#), "a\u{fffd}b\\ud800\u{fffd}\u{1f600}\n");
    }

    /// If each field were searched for from the beginning, this test would take very long.
    #[test]
    fn large_objects_are_compared_and_changed() {
        let fields = |from: u32, to: u32, value: u32| {
            let fields: Vec<_> = (from..to).map(|at| format!("\"{at}\":{value}")).collect();
            object(&format!("{{{}}}", fields.join(",")))
        };
        let (from, same, to) = (fields(0, 50_000, 1), fields(0, 50_000, 1), fields(25_000, 75_000, 2));
        assert!(from == same && from != to);
        let diff = Diff::between(&from, &to);
        assert_eq!((diff.set.len(), diff.unset.len()), (50_000, 25_000));
        let mut changed = from;
        diff.apply(&mut changed);
        assert_eq!(changed, to);
    }

    #[test]
    fn a_diff_turns_one_object_into_the_other() {
        let from = object(r#"{"type":"text","text":"x","source":{"a":1,"b":2},"list":[1]}"#);
        let to = object(r#"{"type":"text","cache/1":{"x":null},"source":{"a":1,"b":3,"~c":4},"list":[1,2]}"#);
        let diff = Diff::between(&from, &to);
        let mut changed = from.clone();
        diff.apply(&mut changed);
        assert_eq!(changed, to);
        assert!(Diff::between(&from, &from).is_empty());
    }
}
