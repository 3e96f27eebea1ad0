//! JSON objects as ordered pairs of name and value: [`ObjectWriter`] writes an object, [`Fields`] reads one, and
//! [`Extra`] keeps the fields that the reader does not know.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Codec, DecodeError};
use crate::json::Json;

/// The fields of a record that this release does not know, in their original order (ID-11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Extra {
    fields: Vec<(String, Json)>,
}

impl Extra {
    /// Returns whether there are no unknown fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the fields, each with its name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.iter().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Sets the value of a field.
    pub(crate) fn insert(&mut self, name: &str, value: Json) {
        self.remove(name);
        self.fields.push((name.to_owned(), value));
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, name: &str) {
        self.fields.retain(|(found, _)| found != name);
    }
}

/// Writes a JSON object field by field.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut String,
    is_empty: bool,
}

impl<'a> ObjectWriter<'a> {
    /// Begins an object at the end of `out`.
    pub fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    /// Writes the key of a field. The caller writes the value next.
    pub fn key(&mut self, name: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        super::value::write_text(self.out, name);
        self.out.push(':');
        self.out
    }

    /// Writes the key of a field, given as one text: the quoted name and the colon. The caller writes the value next.
    pub(crate) fn quoted_key(&mut self, quoted: &'static str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        self.out.push_str(quoted);
        self.out
    }

    /// Writes a field with its value.
    pub fn field<T: Codec>(&mut self, name: &str, value: &T) -> &mut Self {
        value.write(self.key(name));
        self
    }

    /// Writes a field if there is a value.
    pub fn maybe<T: Codec>(&mut self, name: &str, value: Option<&T>) -> &mut Self {
        if let Some(value) = value {
            self.field(name, value);
        }
        self
    }

    /// Writes a field unless it has its default value.
    pub fn field_unless_default<T: Codec + Default + PartialEq>(&mut self, name: &str, value: &T) -> &mut Self {
        if !super::is_default(value) {
            self.field(name, value);
        }
        self
    }

    /// Writes the unknown fields.
    pub fn extra(&mut self, extra: &Extra) -> &mut Self {
        for (name, value) in extra.iter() {
            self.field(name, value);
        }
        self
    }

    /// Ends the object.
    pub fn close(self) {
        self.out.push('}');
    }
}

/// The fields of a JSON object that have not been read yet.
#[derive(Debug)]
pub struct Fields<'a> {
    pairs: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads the outermost level of an object.
    ///
    /// # Errors
    /// [`DecodeError`] if `raw` is not a JSON object.
    pub fn parse(raw: &'a str) -> Result<Self, DecodeError> {
        serde_json::from_str(raw).map_err(|_| DecodeError::new("is not a JSON object"))
    }

    /// Takes the raw value of a field. If the field occurs several times, the last value is taken, as most JSON readers
    /// do.
    ///
    /// The other values are dropped. If they were kept and written after the field, the next reader would take one of
    /// them.
    pub fn take_raw(&mut self, name: &str) -> Option<&'a str> {
        let at = self.pairs.iter().rposition(|(key, _)| key == name)?;
        let (_, value) = self.pairs.remove(at);
        self.pairs.retain(|(key, _)| key != name);
        Some(value.get())
    }

    /// Takes a field that must be present.
    ///
    /// # Errors
    /// [`DecodeError`] if the field is missing or has another type.
    pub fn take<T: Codec>(&mut self, name: &str) -> Result<T, DecodeError> {
        let raw = self.take_raw(name).ok_or_else(|| DecodeError::new("is missing").within(name))?;
        T::read(raw).map_err(|e| e.within(name))
    }

    /// Takes a field that may be missing.
    ///
    /// # Errors
    /// [`DecodeError`] if the field is present and has another type.
    pub fn maybe<T: Codec>(&mut self, name: &str) -> Result<Option<T>, DecodeError> {
        self.take_raw(name).map(T::read).transpose().map_err(|e| e.within(name))
    }

    /// Returns the name and raw value of the first field that has not been taken. For an externally tagged value these
    /// are its kind and its data.
    #[must_use]
    pub fn first(&self) -> Option<(&str, &'a str)> {
        self.pairs.first().map(|(name, value)| (name.as_ref(), value.get()))
    }

    /// Returns the names of the fields that have not been taken, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_ref())
    }

    /// Returns all fields that have not been taken, in order.
    pub fn into_pairs(self) -> impl Iterator<Item = (String, &'a str)> {
        self.pairs.into_iter().map(|(name, value)| (name.into_owned(), value.get()))
    }

    /// Returns the fields that have not been taken, to be kept in a record.
    ///
    /// # Errors
    /// [`DecodeError`] if a value is nested too deeply.
    pub fn rest(self) -> Result<Extra, DecodeError> {
        let to_field = |(name, value): (Cow<'_, str>, &RawValue)| {
            let json = Json::read(value.get()).map_err(|e| e.within(&name))?;
            Ok((name.into_owned(), json))
        };
        self.pairs.into_iter().map(to_field).collect::<Result<_, _>>().map(|fields| Extra { fields })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    pairs.push((key, map.next_value()?));
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_map(PairsVisitor).map(|pairs| Self { pairs })
    }
}

/// A key, borrowed if it contains no escape.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }

        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Extra, Fields};
    use crate::Json;

    #[test]
    fn a_name_may_be_escaped() {
        assert_eq!(Fields::parse(r#"{"\u0061\n":1}"#).unwrap().first(), Some(("a\n", "1")));
    }

    #[test]
    fn an_extra_is_empty_if_it_has_no_fields() {
        assert!(Extra::default().is_empty());
        let extra = Extra { fields: vec![("a".to_owned(), Json::null())] };
        assert!(!extra.is_empty());
        assert_eq!(extra.iter().count(), 1);
    }
}
