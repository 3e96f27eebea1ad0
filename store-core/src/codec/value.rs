//! The codecs of plain values: text, numbers, lists, maps, ids.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use serde_json::value::RawValue;

use super::{Codec, DecodeError};
use crate::{id, json::Json, time::Timestamp};

/// Writes `text` as a JSON string.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    // Most texts need no escape. Checking all bytes first, without a branch, costs almost nothing.
    if !text.bytes().fold(false, |needs_escape, byte| needs_escape | matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        out.push_str(text);
        out.push('"');
        return;
    }
    let mut unwritten_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(text.get(unwritten_from..at).unwrap_or_default());
        unwritten_from = at + 1;
        if escape.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(text.get(unwritten_from..).unwrap_or_default());
    out.push('"');
}

impl Codec for String {
    fn write(&self, out: &mut String) {
        write_text(out, self);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        serde_json::from_str(raw).map_err(|_| DecodeError::new("is not a string"))
    }
}

impl Codec for Json {
    fn write(&self, out: &mut String) {
        out.push_str(self.as_str());
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        Self::parse(raw).map_err(|_| DecodeError::new("is not a JSON value"))
    }
}

/// Writes a number in decimal digits. The standard formatting takes several times as long.
fn write_number(out: &mut String, number: u64) {
    // `u64::MAX` has 20 digits.
    const MAX_DIGITS: usize = 20;
    let (mut digits, mut digit_count, mut remaining) = ([0; MAX_DIGITS], 0, number);
    for digit in digits.iter_mut().rev() {
        // The remainder is below ten, so the conversion cannot fail.
        *digit = b'0' + u8::try_from(remaining % 10).unwrap_or_default();
        digit_count += 1;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    let (_, digits) = digits.split_at(MAX_DIGITS - digit_count);
    out.push_str(std::str::from_utf8(digits).unwrap_or_default());
}

macro_rules! scalar_codecs {
    ($($type:ty: $reason:literal, |$value:ident, $out:ident| $write:expr;)*) => {$(
        impl Codec for $type {
            fn write(&self, $out: &mut String) {
                let $value = self;
                $write;
            }

            fn read(raw: &str) -> Result<Self, DecodeError> {
                serde_json::from_str(raw).map_err(|_| DecodeError::new($reason))
            }
        }
    )*};
}

scalar_codecs! {
    bool: "is not a boolean", |value, out| out.push_str(if *value { "true" } else { "false" });
    u8: "is not an integer from 0 to 255", |value, out| write_number(out, (*value).into());
    u32: "is not an integer from 0 to 4294967295", |value, out| write_number(out, (*value).into());
    u64: "is not an integer of 0 or more", |value, out| write_number(out, *value);
    i64: "is not an integer", |value, out| {
        if *value < 0 {
            out.push('-');
        }
        write_number(out, value.unsigned_abs());
    };
    Timestamp: "is not a timestamp", |value, out| write_number(out, value.as_millis());
}

macro_rules! id_codecs {
    ($($id:ident)*) => {$(
        impl Codec for id::$id {
            fn write(&self, out: &mut String) {
                write_text(out, self.as_str());
            }

            fn read(raw: &str) -> Result<Self, DecodeError> {
                serde_json::from_str(raw).map_err(|_| DecodeError::new(concat!("is not a valid ", stringify!($id))))
            }
        }
    )*};
}

id_codecs! {
    TenantId ThreadId EntryId RunId AgentId ResourceId DispatchId CommitKey
    EventId EventKind WriterId EventKey CausationId CorrelationId
    WorkerId InstanceId DedupeKey InterruptKey OutboxId LaneId OutboxTarget OrderKey
    TopicId CollectionId SegmentId
    UserId AgentType ProfileKey SharedScopeId DefinitionKind DefinitionId PublicationId
    EffectId EffectKind IdempotencyKey PinHolder
    ReplayStreamId WireProtocol WireProtocolVersion WireEventId WireEventType ProjectorVersion
    DatasetId CaseId EvaluationId CellId
}

impl<T: Codec> Codec for Vec<T> {
    fn write(&self, out: &mut String) {
        out.push('[');
        for (at, item) in self.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            item.write(out);
        }
        out.push(']');
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| DecodeError::new("is not a list"))?;
        let read = |(at, item): (usize, &RawValue)| T::read(item.get()).map_err(|e| e.within(&at.to_string()));
        items.into_iter().enumerate().map(read).collect()
    }
}

impl<T: Codec> Codec for BTreeMap<String, T> {
    fn write(&self, out: &mut String) {
        let mut object = super::ObjectWriter::open(out);
        for (name, value) in self {
            object.field(name, value);
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let read = |(name, value): (String, &str)| {
            let value = T::read(value).map_err(|e| e.within(&name))?;
            Ok((name, value))
        };
        super::Fields::parse(raw)?.into_pairs().map(read).collect()
    }
}

impl<T: Codec> Codec for BTreeMap<id::TopicId, T> {
    fn write(&self, out: &mut String) {
        let mut object = super::ObjectWriter::open(out);
        for (topic, value) in self {
            object.field(topic.as_str(), value);
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let read = |(name, value): (String, &str)| {
            let topic =
                id::TopicId::new(&name).map_err(|_| DecodeError::new("is not a valid TopicId").within(&name))?;
            Ok((topic, T::read(value).map_err(|e| e.within(&name))?))
        };
        super::Fields::parse(raw)?.into_pairs().map(read).collect()
    }
}

impl<T: Codec> Codec for Arc<T> {
    fn write(&self, out: &mut String) {
        T::write(self, out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        T::read(raw).map(Self::new)
    }
}

impl<T: Codec> Codec for Box<T> {
    fn write(&self, out: &mut String) {
        T::write(self, out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        T::read(raw).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Codec;

    #[test]
    fn text_round_trips() {
        for text in ["", "a\"b\\c", "\u{0}\u{1f}\n\r\t", "\u{2028}\u{feff}é🦀", "\u{7f}"] {
            let raw = text.to_owned().encode();
            assert_eq!(String::read(&raw).unwrap(), text, "{raw}");
        }
    }

    #[test]
    fn numbers_are_written_in_decimal_digits() {
        for number in [0, 7, 10, 99, 100, 253_402_300_799_999, u64::MAX] {
            assert_eq!(number.encode(), number.to_string());
        }
        for number in [i64::MIN, -10, -1, 0, i64::MAX] {
            assert_eq!(number.encode(), number.to_string());
        }
    }

    #[test]
    fn text_is_written_with_the_short_escapes() {
        assert_eq!("\u{0}\u{1f}\n\r\t\"\\/".to_owned().encode(), r#""\u0000\u001f\n\r\t\"\\/""#);
    }

    #[test]
    fn a_map_round_trips_and_names_the_key_of_a_bad_value() {
        let map = BTreeMap::from([("a".to_owned(), 1_u64), ("b".to_owned(), 2)]);
        assert_eq!(BTreeMap::read(&map.encode()).unwrap(), map);
        let error = BTreeMap::<String, u64>::read(r#"{"a":"x"}"#).unwrap_err();
        assert!(error.to_string().starts_with("`a`: "), "{error}");
    }
}
