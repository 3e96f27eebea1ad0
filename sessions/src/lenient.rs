//! Changes a line that a strict JSON parser would refuse, but whose meaning is clear, so that the parser accepts it.

use std::{borrow::Cow, collections::BTreeSet};

use store_core::MAX_JSON_DEPTH;

use crate::{issue::IssueCode, json::Object, recover};

/// The text of a line for a strict parser, and what was odd about the line.
#[derive(Debug)]
pub(crate) struct LenientLine<'a> {
    /// The text. Invalid bytes and lone surrogates are replaced by U+FFFD, and raw control characters in strings are
    /// escaped.
    pub(crate) text: Cow<'a, str>,
    /// What was odd. It contains [`IssueCode::MalformedLine`] if the text is only a part of the line: the complete
    /// record in it.
    pub(crate) oddities: BTreeSet<IssueCode>,
}

/// Finds and replaces what is odd in a line.
pub(crate) fn read(bytes: &[u8]) -> LenientLine<'_> {
    let text = String::from_utf8_lossy(bytes);
    let is_utf8 = matches!(text, Cow::Borrowed(_));
    let found = OddityFinder::of(&text);
    let recovered = match found.is_balanced(&text) {
        true => None,
        false => recover::complete_record(&text, &|part| Object::parse(&patched(part.into()).text).is_some()),
    };
    let mut line = match recovered {
        Some(record) => {
            let mut line = patched(Cow::Owned(record.to_owned()));
            line.oddities.insert(IssueCode::MalformedLine);
            line
        }
        None => found.apply(text),
    };
    if !is_utf8 {
        line.oddities.insert(IssueCode::InvalidUtf8);
    }
    line
}

/// Replaces what is odd in a text.
fn patched(text: Cow<'_, str>) -> LenientLine<'_> {
    OddityFinder::of(&text).apply(text)
}

/// A replacement of some bytes of a line.
struct Patch {
    /// The index of the first byte that is replaced.
    from: usize,
    /// The index after the last byte that is replaced.
    to: usize,
    replacement: String,
}

fn apply_patches(text: &str, patches: &[Patch]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for Patch { from, to, replacement } in patches {
        out.push_str(text.get(kept..*from).unwrap_or_default());
        out.push_str(replacement);
        kept = *to;
    }
    out.push_str(text.get(kept..).unwrap_or_default());
    out
}

/// Finds what is odd in a text, and the patches for it.
#[derive(Default)]
struct OddityFinder {
    patches: Vec<Patch>,
    in_string: bool,
    depth: usize,
    /// Whether a control character that is not white space is outside of a string.
    has_stray_control: bool,
    /// How many objects and lists ended at the outermost level.
    outermost_count: usize,
    oddities: BTreeSet<IssueCode>,
}

impl OddityFinder {
    /// Looks at every byte of a text once.
    fn of(text: &str) -> Self {
        let mut finder = Self::default();
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at = if finder.in_string { finder.inside_string(bytes, at, byte) } else { finder.outside_string(at, byte) };
        }
        finder
    }

    fn apply(self, text: Cow<'_, str>) -> LenientLine<'_> {
        let Self { patches, oddities, .. } = self;
        let text = if patches.is_empty() { text } else { Cow::Owned(apply_patches(&text, &patches)) };
        LenientLine { text, oddities }
    }

    /// Whether the text may be one object: all braces and quotation marks are closed.
    fn is_balanced(&self, text: &str) -> bool {
        let text = text.trim();
        let is_closed = !self.in_string && self.depth == 0 && self.outermost_count == 1 && !self.has_stray_control;
        is_closed && text.starts_with('{') && text.ends_with('}')
    }

    /// Looks at a byte outside of strings. Returns the index at which to look next.
    fn outside_string(&mut self, at: usize, byte: u8) -> usize {
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > MAX_JSON_DEPTH {
                    self.oddities.insert(IssueCode::DeepJson);
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.outermost_count += usize::from(self.depth == 0);
            }
            0..=0x1f => self.has_stray_control |= !byte.is_ascii_whitespace(),
            _ => {}
        }
        at + 1
    }

    /// Looks at a byte in a string. Returns the index at which to look next.
    fn inside_string(&mut self, bytes: &[u8], at: usize, byte: u8) -> usize {
        match byte {
            b'"' => self.in_string = false,
            b'\\' => return self.escape(bytes, at),
            0..=0x1f => {
                self.oddities.insert(IssueCode::ControlCharacter);
                if byte == 0 {
                    self.oddities.insert(IssueCode::Nul);
                }
                self.patches.push(Patch { from: at, to: at + 1, replacement: format!("\\u{byte:04x}") });
            }
            _ => {}
        }
        at + 1
    }

    /// Looks at an escape in a string. Returns the index at which to look next.
    fn escape(&mut self, bytes: &[u8], at: usize) -> usize {
        let Some(unit) = code_unit(bytes, at) else { return at + 2 };
        match unit {
            0 => {
                self.oddities.insert(IssueCode::Nul);
            }
            0xd800..=0xdbff if matches!(code_unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => return at + 12,
            0xd800..=0xdfff => {
                self.oddities.insert(IssueCode::LoneSurrogate);
                self.patches.push(Patch { from: at, to: at + 6, replacement: "\\ufffd".to_owned() });
            }
            _ => {}
        }
        at + 6
    }
}

/// The code unit of the escape `\uXXXX` at `at`, if there is one.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = std::str::from_utf8(bytes.get(at..at + 6)?).ok()?;
    let digits = escape.strip_prefix("\\u")?;
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::read;

    fn check(bytes: &[u8], text: &str, oddities: &str) {
        let line = read(bytes);
        let found: Vec<_> = line.oddities.iter().map(|code| code.name()).collect();
        assert_eq!((line.text.as_ref(), found.join(" ").as_str()), (text, oddities));
    }

    #[test]
    fn only_invalid_characters_are_changed() {
        check(br#"{"a":"b\n\u0041"}"#, r#"{"a":"b\n\u0041"}"#, "");
        check(b"{\"a\":\"x\ty\"}", r#"{"a":"x\u0009y"}"#, "control_character");
        check(b"{\t\"a\":\"\x00\"}", "{\t\"a\":\"\\u0000\"}", "nul control_character");
        check(
            br#""\ud800 \udc00 \ud83d\ude00 \u0000""#,
            r#""\ufffd \ufffd \ud83d\ude00 \u0000""#,
            "lone_surrogate nul",
        );
        check(br#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#, "lone_surrogate");
        check(br#""\\ud800 \\u0000 \""#, r#""\\ud800 \\u0000 \""#, "");
        check(b"\"\xff\xfe\"", "\"\u{fffd}\u{fffd}\"", "invalid_utf8");
        check("\"\u{2028}\u{feff}\"".as_bytes(), "\"\u{2028}\u{feff}\"", "");
        check("[".repeat(129).as_bytes(), &"[".repeat(129), "deep_json");
        check(b"\"\\", "\"\\", "");
        check(b"\0\0{\"a\":\"\x00\"}", "{\"a\":\"\\u0000\"}", "malformed_line nul control_character");
        check(br#"{"a":1,"b":"x{"a":1,"b":"\ud800"}"#, r#"{"a":1,"b":"\ufffd"}"#, "malformed_line lone_surrogate");
        check("\"\\u00é\"".as_bytes(), "\"\\u00é\"", "");
    }
}
