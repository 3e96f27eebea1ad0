//! Macros that implement codecs: `named_enum!` for enums without data, and `record!` for structs that are stored as
//! objects.

/// Implements the codec of an enum without data. Its values are stored as names in lower snake case (ID-12). A name
/// that this release does not know is an error.
macro_rules! named_enum {
    ($type:ident as $what:literal { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name under which the value is stored.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::error::Error;

            fn from_str(text: &str) -> crate::error::Result<Self> {
                match text {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(crate::error::Error::invalid($what, concat!("it is none of" $(, " `", $name, "`")*))),
                }
            }
        }

        impl crate::codec::Codec for $type {
            fn write(&self, out: &mut String) {
                out.push('"');
                out.push_str(self.name());
                out.push('"');
            }

            fn read(raw: &str) -> Result<Self, crate::codec::DecodeError> {
                String::read(raw)?.parse().map_err(|_| crate::codec::DecodeError::new(concat!("is an invalid ", $what)))
            }
        }

        crate::codec::serde_by_codec!($type);
    };
}

/// Implements the codec of a struct that is stored as an object.
///
/// A field is `req` (always written, must be present), `opt` (an `Option`, left out if it is `None`) or `def` (left out
/// if it has its default). The struct has a field `extra` for unknown fields.
macro_rules! record {
    ($type:ident { $($field:ident: $mode:ident),* $(,)? }) => {
        impl crate::codec::Codec for $type {
            fn write(&self, out: &mut String) {
                let mut object = crate::codec::ObjectWriter::open(out);
                $(crate::codec::record!(@write object, self.$field, $field, $mode);)*
                object.extra(&self.extra);
                object.close();
            }

            fn read(raw: &str) -> Result<Self, crate::codec::DecodeError> {
                let mut fields = crate::codec::Fields::parse(raw)?;
                $(let $field = crate::codec::record!(@read fields, $field, $mode);)*
                Ok(Self { $($field,)* extra: fields.rest()? })
            }
        }

        crate::codec::serde_by_codec!($type);
    };
    // The name of a field needs no escapes, so the name, its quotes and the colon are one literal.
    (@write $object:ident, $value:expr, $field:ident, req) => {
        crate::codec::Codec::write(&$value, $object.quoted_key(concat!("\"", stringify!($field), "\":")))
    };
    (@write $object:ident, $value:expr, $field:ident, opt) => {
        if let Some(value) = $value.as_ref() {
            crate::codec::record!(@write $object, *value, $field, req);
        }
    };
    (@write $object:ident, $value:expr, $field:ident, def) => {
        if !crate::codec::is_default(&$value) {
            crate::codec::record!(@write $object, $value, $field, req);
        }
    };
    (@read $fields:ident, $field:ident, req) => { $fields.take(stringify!($field))? };
    (@read $fields:ident, $field:ident, opt) => { $fields.maybe(stringify!($field))? };
    (@read $fields:ident, $field:ident, def) => { $fields.maybe(stringify!($field))?.unwrap_or_default() };
}

/// Implements serde's traits for a type that has a codec. Programs use them to read and write records, and the command
/// `agentstore` uses them to print JSON documents.
macro_rules! serde_by_codec {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = crate::codec::Codec::encode(self);
                let raw: &serde_json::value::RawValue =
                    serde_json::from_str(&text).map_err(serde::ser::Error::custom)?;
                serde::Serialize::serialize(raw, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = <Box<serde_json::value::RawValue>>::deserialize(deserializer)?;
                crate::codec::Codec::read(raw.get()).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {named_enum, record, serde_by_codec};
