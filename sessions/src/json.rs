//! JSON objects with their raw values, so that numbers, escapes and the order of keys are preserved.

use serde_json::value::RawValue;
use store_core::{Json, codec::Fields};

/// The outermost level of a JSON object.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<(String, &'a str)>);

impl<'a> Object<'a> {
    /// Parses an object. Returns `None` if `text` is not a JSON object.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        Some(Self(Fields::parse(text).ok()?.into_pairs().collect()))
    }

    /// The raw value of a field. If the name is repeated, the last field counts.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// Whether the field exists and is not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some_and(|raw| raw != "null")
    }

    /// A field that is text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        parse_json_string(self.raw(name)?)
    }

    /// A field that is a boolean.
    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// A field that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// A field that is an object.
    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.raw(name)?)
    }

    /// The raw items of a field that is a list.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        parse_json_array(self.raw(name)?)
    }

    /// The value of a field, of any type.
    pub(crate) fn json(&self, name: &str) -> Option<Json> {
        Json::parse(self.raw(name)?).ok()
    }

    /// The fields, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), *raw))
    }

    /// The object without some of its fields.
    pub(crate) fn without_fields(&self, names: &[&str]) -> Json {
        let mut out = String::new();
        let mut object = store_core::codec::ObjectWriter::open(&mut out);
        for (name, raw) in self.iter().filter(|(name, _)| !names.contains(name)) {
            object.key(name).push_str(raw);
        }
        object.close();
        Json::parse(&out).unwrap_or_else(|_| Json::null())
    }
}

/// The text of a JSON string, or `None` for any other value.
pub(crate) fn parse_json_string(raw: &str) -> Option<String> {
    if raw.starts_with('"') { serde_json::from_str(raw).ok() } else { None }
}

/// The raw items of a JSON array, or `None` for any other value.
pub(crate) fn parse_json_array(raw: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// A text as a JSON string.
pub(crate) fn json_string(text: &str) -> Json {
    Json::of(text).unwrap_or_else(|_| Json::null())
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn fields_keep_their_spelling() {
        let object = Object::parse(r#"{"a":1.0,"b":"x\u0041","a":12345678901234567890.10,"c":[1, {"d":2}]}"#).unwrap();
        assert_eq!(object.raw("a"), Some("12345678901234567890.10"));
        assert_eq!(object.text("b").as_deref(), Some("xA"));
        assert_eq!(object.list("c").unwrap(), ["1", "{\"d\":2}"]);
        assert_eq!(object.without_fields(&["b", "c"]).as_str(), r#"{"a":1.0,"a":12345678901234567890.10}"#);
        assert!(object.text("a").is_none() && !object.has("e"));
        for text in ["[]", "1", "{\"a\":}", "{} {}", ""] {
            assert!(Object::parse(text).is_none(), "{text}");
        }
    }
}
