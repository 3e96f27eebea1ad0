//! Names of several parts as one text, such as `KIND/ID@VERSION`, that is read back as the same parts.

use crate::error::{Error, Result};

/// Returns a part of a name as the whole name has it: `%25`, `%2F` and `%40` stand for `%`, `/` and `@`.
///
/// So a `/` always separates two parts, and a `@` is always in front of a version.
///
/// ```
/// use store_core::layers::{escape_part, unescape_part};
///
/// assert_eq!(escape_part("ada@example.com/50%"), "ada%40example.com%2F50%25");
/// assert_eq!(unescape_part("ada%40example.com%2F50%25")?, "ada@example.com/50%");
/// # Ok::<(), store_core::Error>(())
/// ```
#[must_use]
pub fn escape_part(part: &str) -> String {
    part.replace('%', "%25").replace('/', "%2F").replace('@', "%40")
}

/// Reads a part of a name: two hexadecimal digits after a `%` stand for a byte (RFC 3986). All else stands for itself.
///
/// # Errors
/// `Invalid` for a `%` without two such digits, and for bytes that are no UTF-8.
pub fn unescape_part(text: &str) -> Result<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| Error::invalid("name", "a `%` in it must be written `%25`"))?);
        bytes.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("name", "its escaped bytes are no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{escape_part, unescape_part};
    use crate::ErrorKind;

    #[test]
    fn a_part_is_read_as_it_was_given() {
        for part in ["coder", "a/b", "a@1", "100%", "%2F", "%", "é %40 🦀", "..", "a b"] {
            let text = escape_part(part);
            assert_eq!(unescape_part(&text).unwrap(), part);
            assert!(!text.contains(['/', '@']), "{text}");
        }
    }

    #[test]
    fn every_escape_is_read_and_a_bare_percent_sign_is_refused() {
        assert_eq!(unescape_part("%6Catest%2f%C3%A9").unwrap(), "latest/é");
        assert_eq!(unescape_part("a/b@c").unwrap(), "a/b@c");
        for bad in ["%", "50%", "%4", "%zz", "%+1", "%é", "%FF"] {
            assert_eq!(unescape_part(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
