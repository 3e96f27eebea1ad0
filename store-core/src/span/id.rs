//! The ids of traces and spans: bytes, written as hexadecimal digits.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{
    codec::{Codec, DecodeError, sha256_hex},
    error::{Error, Result},
};

macro_rules! hex_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal, $bytes:literal bytes;)*) => {$(
        $(#[$doc])*
        ///
        /// It is read from upper case and lower case digits, and written in lower case. It is never zero.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// Returns the id that the digest of a text begins with.
            pub(super) fn of_digest(text: &str) -> Self {
                let digits: String = sha256_hex(text).chars().take(2 * $bytes).collect();
                // No text is known whose digest begins with so many zeros.
                parse_digits(&digits).map_or(Self([1; $bytes]), Self)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                let reason = concat!("it does not have ", stringify!($bytes), " bytes in hexadecimal digits, or is zero");
                parse_digits(text).map(Self).ok_or_else(|| Error::invalid($what, reason))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Codec for $name {
            fn write(&self, out: &mut String) {
                self.to_string().write(out);
            }

            fn read(raw: &str) -> Result<Self, DecodeError> {
                let text = String::read(raw)?;
                text.parse().map_err(|_| DecodeError::new(concat!("is not a valid ", $what)))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

hex_ids! {
    /// The id of a trace: all spans of one operation, over all programs that took part in it. 16 bytes.
    TraceId = "trace id", 16 bytes;
    /// The id of a span in its trace. 8 bytes.
    SpanId = "span id", 8 bytes;
}

/// Reads exactly `N` bytes that are not all zero.
fn parse_digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * N)?;
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
    }
    (bytes != [0; N]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{SpanId, TraceId};
    use crate::ErrorKind;

    #[test]
    fn ids_are_read_from_any_case_and_written_in_lower_case() {
        let id: TraceId = "5B8EFFF798038103D269B633813FC60C".parse().unwrap();
        assert_eq!(id.to_string(), "5b8efff798038103d269b633813fc60c");
        assert_eq!("eee19b7ec3c1b174".parse::<SpanId>().unwrap().to_string(), "eee19b7ec3c1b174");
        assert_eq!("EEE19B7EC3C1B174".parse::<SpanId>().unwrap().to_string(), "eee19b7ec3c1b174");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in
            ["", "0000000000000000", "eee19b7ec3c1b17", "eee19b7ec3c1b1744", "eee19b7ec3c1b17x", "+ee19b7ec3c1b174"]
        {
            assert_eq!(text.parse::<SpanId>().unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn a_derived_id_depends_on_its_text_alone() {
        assert_eq!(SpanId::of_digest("a"), SpanId::of_digest("a"));
        assert_ne!(SpanId::of_digest("a"), SpanId::of_digest("b"));
        // The digest of the empty text is known.
        assert_eq!(TraceId::of_digest("").to_string(), "e3b0c44298fc1c149afbf4c8996fb924");
    }
}
