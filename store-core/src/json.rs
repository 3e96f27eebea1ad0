//! JSON values that are kept as text. Only white space outside of strings is removed.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// The deepest nesting of a JSON value, in levels.
pub const MAX_JSON_DEPTH: usize = 128;

/// A JSON value as text.
///
/// Syntax and depth are checked when the value is made, and white space outside of strings is removed. Nothing else is
/// changed: the spelling of numbers, the order of keys, repeated keys and escapes stay (ID-10).
///
/// Two values are equal if their bytes are equal (CM-11). Cheap to clone.
///
/// ```
/// use store_core::Json;
///
/// let json = Json::parse(r#"{ "b": 1.0, "a": 12345678901234567890 }"#)?;
/// assert_eq!(json.as_str(), r#"{"b":1.0,"a":12345678901234567890}"#);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks `text` and makes a value from it.
    ///
    /// # Errors
    /// `Invalid` if `text` is not a JSON value; `LimitExceeded` if it is nested deeper than [`MAX_JSON_DEPTH`] (ER-9).
    pub fn parse(text: &str) -> Result<Self> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|e| Error::invalid("json", "it is not a JSON value").with_source(e))?;
        compact(raw.get()).map(Self)
    }

    /// Returns the JSON of a Rust value.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be written as JSON, for example a map whose keys are not text; any error of
    /// [`Json::parse`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let text = serde_json::to_string(value)
            .map_err(|e| Error::invalid("json", "the value cannot be written as JSON").with_source(e))?;
        Self::parse(&text)
    }

    /// Returns the value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the value into a Rust type.
    ///
    /// # Errors
    /// `Invalid` if the value does not fit the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        // The message of serde quotes the value, which may be secret. Only the column is kept (ER-6).
        let column_text = |e: serde_json::Error| format!("at column {}", e.column());
        serde_json::from_str(&self.0)
            .map_err(|e| Error::invalid("json", "its shape is wrong").with_source(column_text(e)))
    }

    /// Returns whether the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Returns whether the value is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.0.starts_with('[')
    }
}

/// Returns the JSON `text` without the white space outside of strings.
fn compact(text: &str) -> Result<Arc<str>> {
    let mut out = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut uncopied_start = 0;
    for (index, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_JSON_DEPTH {
                    return Err(Error::limit_exceeded("json depth", MAX_JSON_DEPTH as u64, depth as u64));
                }
            }
            b'}' | b']' => depth -= 1,
            b' ' | b'\n' | b'\r' | b'\t' => {
                out.push_str(text.get(uncopied_start..index).unwrap_or_default());
                uncopied_start = index + 1;
            }
            _ => {}
        }
    }
    out.push_str(text.get(uncopied_start..).unwrap_or_default());
    Ok(Arc::from(out))
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        compact(raw.get()).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, MAX_JSON_DEPTH};
    use crate::ErrorKind;

    fn expect_parsed_text(text: &str, expected: &str) {
        assert_eq!(Json::parse(text).unwrap().as_str(), expected, "{text}");
    }

    #[test]
    fn only_white_space_outside_of_strings_is_removed() {
        expect_parsed_text("1e2", "1e2");
        expect_parsed_text("-0.0", "-0.0");
        expect_parsed_text("12345678901234567890.10", "12345678901234567890.10");
        expect_parsed_text(r#" { "b" : 1 , "a" : 2 , "b" : 3 } "#, r#"{"b":1,"a":2,"b":3}"#);
        expect_parsed_text(r#""a \" b \\""#, r#""a \" b \\""#);
        expect_parsed_text(r#"["\ud800", "\u0000", " "]"#, r#"["\ud800","\u0000"," "]"#);
        expect_parsed_text("\"\u{2028}\u{feff}\"", "\"\u{2028}\u{feff}\"");
        expect_parsed_text("\n[\t1,\r\n2]", "[1,2]");
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in ["", " ", "{", "nul", "{\"a\":}", "[1,]", "1 2", "\"\u{1}\"", "'a'", "NaN", "01"] {
            assert_eq!(Json::parse(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(MAX_JSON_DEPTH)).is_ok());
        for depth in [MAX_JSON_DEPTH + 1, 10_000] {
            assert_eq!(Json::parse(&nested(depth)).unwrap_err().kind(), ErrorKind::LimitExceeded);
        }
    }

    #[test]
    fn a_value_passes_through_serde_unchanged() {
        let text = r#"{"n":1.0,"n":1E5}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }

    #[test]
    fn only_nesting_counts_as_depth() {
        assert!(Json::parse(&format!("[{}{{}}]", "[],{},".repeat(MAX_JSON_DEPTH))).is_ok());
    }

    #[test]
    fn objects_and_arrays_are_recognised() {
        for (text, is_object, is_array) in
            [("{}", true, false), (" [1]", false, true), ("\"{[\"", false, false), ("1", false, false)]
        {
            let json = Json::parse(text).unwrap();
            assert_eq!((json.is_object(), json.is_array()), (is_object, is_array), "{text}");
        }
    }
}
