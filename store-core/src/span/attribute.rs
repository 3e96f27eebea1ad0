//! Attributes: what is known about a span, an event or a link, as pairs of key and value.

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    json::Json,
};

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attribute {
    /// The key, such as `gen_ai.request.model`.
    pub key: String,
    /// The value.
    pub value: AttributeValue,
    /// Unknown fields, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Attribute { key: req, value: def });

impl Attribute {
    /// Makes an attribute.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        Self { key: key.into(), value: value.into(), extra: Extra::default() }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AttributeValue {
    /// No value.
    #[default]
    Empty,
    /// Text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// An integer. OTLP/JSON writes it as text, because many readers of JSON cannot read 64 bits.
    Int(i64),
    /// A number with a fraction, as it was written, or one of the texts `NaN`, `Infinity` and `-Infinity`.
    Double(Json),
    /// Several values.
    List(Vec<Self>),
    /// Values under keys.
    Map(Vec<Attribute>),
    /// Bytes, in base64.
    Bytes(String),
    /// A value of a kind that this release does not know, kept unchanged (ID-11).
    Unknown(Json),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for AttributeValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// A count above the largest integer of OTLP is written as that integer.
impl From<u64> for AttributeValue {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Self>> FromIterator<T> for AttributeValue {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl AttributeValue {
    /// Returns the text, if the value is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if the value is one.
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Reads a value of a known kind; none if it is of no such kind, or has further fields.
    fn read_known(raw: &str) -> Option<Self> {
        let mut fields = Fields::parse(raw).ok()?;
        let Some((kind, _)) = fields.first() else { return Some(Self::Empty) };
        let value = match kind.to_owned().as_str() {
            "stringValue" => Self::Text(fields.take("stringValue").ok()?),
            "boolValue" => Self::Bool(fields.take("boolValue").ok()?),
            "intValue" => Self::Int(read_number(fields.take_raw("intValue")?)?),
            "doubleValue" => Self::Double(fields.take("doubleValue").ok()?),
            "bytesValue" => Self::Bytes(fields.take("bytesValue").ok()?),
            "arrayValue" => Self::List(take_values(fields.take_raw("arrayValue")?)?),
            "kvlistValue" => Self::Map(take_values(fields.take_raw("kvlistValue")?)?),
            _ => return None,
        };
        fields.first().is_none().then_some(value)
    }
}

/// Reads a number that is written as text or as a number.
pub(super) fn read_number<T: Codec>(raw: &str) -> Option<T> {
    T::read(raw).ok().or_else(|| T::read(&String::read(raw).ok()?).ok())
}

/// Reads the list in `{"values": […]}`. A missing list is an empty one.
fn take_values<T: Codec>(raw: &str) -> Option<Vec<T>> {
    let mut fields = Fields::parse(raw).ok()?;
    let values = fields.maybe("values").ok()?.unwrap_or_default();
    fields.first().is_none().then_some(values)
}

fn write_values<T: Codec>(values: &Vec<T>, out: &mut String) {
    let mut object = ObjectWriter::open(out);
    object.field("values", values);
    object.close();
}

/// Written as `{"<kind>Value": …}`, as OTLP/JSON does.
impl Codec for AttributeValue {
    fn write(&self, out: &mut String) {
        if let Self::Unknown(json) = self {
            return json.write(out);
        }
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Empty | Self::Unknown(_) => {}
            Self::Text(text) => drop(object.field("stringValue", text)),
            Self::Bool(value) => drop(object.field("boolValue", value)),
            Self::Int(value) => drop(object.field("intValue", &value.to_string())),
            Self::Double(value) => drop(object.field("doubleValue", value)),
            Self::Bytes(text) => drop(object.field("bytesValue", text)),
            Self::List(values) => write_values(values, object.key("arrayValue")),
            Self::Map(values) => write_values(values, object.key("kvlistValue")),
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        match Self::read_known(raw) {
            Some(value) => Ok(value),
            None => Json::read(raw).map(Self::Unknown),
        }
    }
}

serde_by_codec!(AttributeValue);

#[cfg(test)]
mod tests {
    use super::{Attribute, AttributeValue};
    use crate::{Json, codec::Codec};

    #[test]
    fn every_kind_of_value_round_trips() {
        for raw in [
            "{}",
            r#"{"stringValue":"a\n"}"#,
            r#"{"boolValue":false}"#,
            r#"{"intValue":"-9223372036854775808"}"#,
            r#"{"doubleValue":1.50}"#,
            r#"{"doubleValue":"NaN"}"#,
            r#"{"bytesValue":"AA=="}"#,
            r#"{"arrayValue":{"values":[{"intValue":"1"},{},{"arrayValue":{"values":[]}}]}}"#,
            r#"{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":true}},{"key":"b"}]}}"#,
            r#"{"arrayValue":{"values":[{"stringValueStrindex":3}]}}"#,
            r#"{"stringValue":"a","later":1}"#,
            r#"{"intValue":"x"}"#,
            "[1.0]",
        ] {
            assert_eq!(AttributeValue::read(raw).unwrap().encode(), raw);
        }
    }

    #[test]
    fn an_integer_may_be_text_or_a_number() {
        for (raw, expected) in [
            (r#"{"intValue":"7"}"#, AttributeValue::Int(7)),
            (r#"{"intValue":7}"#, AttributeValue::Int(7)),
            (r#"{"intValue":7.5}"#, AttributeValue::Unknown(Json::parse(r#"{"intValue":7.5}"#).unwrap())),
            (r#"{"arrayValue":{}}"#, AttributeValue::List(Vec::new())),
        ] {
            assert_eq!(AttributeValue::read(raw).unwrap(), expected, "{raw}");
        }
        assert_eq!(AttributeValue::from(u64::MAX), AttributeValue::Int(i64::MAX));
    }

    #[test]
    fn an_attribute_keeps_fields_that_are_not_known() {
        let raw = r#"{"key":"a","value":{"intValue":"1"},"later":[1.0]}"#;
        assert_eq!(Attribute::read(raw).unwrap().encode(), raw);
        assert!(Attribute::read(r#"{"value":{}}"#).is_err());
    }
}
