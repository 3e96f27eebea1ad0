//! Changes a line that a strict JSON parser would refuse, but whose meaning is clear, so that the parser accepts it.

use std::{borrow::Cow, collections::BTreeSet};

use store_core::MAX_JSON_DEPTH;

use crate::issue::IssueCode;

/// The text of a line for a strict parser, and what was odd about the line.
#[derive(Debug)]
pub(crate) struct LenientLine<'a> {
    /// The text. Invalid bytes and lone surrogates are replaced by U+FFFD, and raw control characters in strings are
    /// escaped.
    pub(crate) text: Cow<'a, str>,
    /// What was odd.
    pub(crate) oddities: BTreeSet<IssueCode>,
}

/// Finds and replaces what is odd in a line. It looks at every byte once.
pub(crate) fn read(bytes: &[u8]) -> LenientLine<'_> {
    let text = String::from_utf8_lossy(bytes);
    let mut finder = OddityFinder::default();
    if matches!(text, Cow::Owned(_)) {
        finder.oddities.insert(IssueCode::InvalidUtf8);
    }
    finder.run(&text);
    let OddityFinder { patches, oddities, .. } = finder;
    let text = if patches.is_empty() { text } else { Cow::Owned(apply_patches(&text, &patches)) };
    LenientLine { text, oddities }
}

/// A replacement: the text `.2` for the bytes from `.0` to `.1`.
type Patch = (usize, usize, String);

fn apply_patches(text: &str, patches: &[Patch]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for (from, to, instead) in patches {
        out.push_str(text.get(kept..*from).unwrap_or_default());
        out.push_str(instead);
        kept = *to;
    }
    out.push_str(text.get(kept..).unwrap_or_default());
    out
}

#[derive(Default)]
struct OddityFinder {
    patches: Vec<Patch>,
    in_string: bool,
    depth: usize,
    oddities: BTreeSet<IssueCode>,
}

impl OddityFinder {
    fn run(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at = if self.in_string { self.inside_string(bytes, at, byte) } else { self.outside_string(at, byte) };
        }
    }

    fn outside_string(&mut self, at: usize, byte: u8) -> usize {
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > MAX_JSON_DEPTH {
                    self.oddities.insert(IssueCode::DeepJson);
                }
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        at + 1
    }

    fn inside_string(&mut self, bytes: &[u8], at: usize, byte: u8) -> usize {
        match byte {
            b'"' => self.in_string = false,
            b'\\' => return self.escape(bytes, at),
            0..=0x1f => {
                self.oddities.insert(IssueCode::ControlCharacter);
                if byte == 0 {
                    self.oddities.insert(IssueCode::Nul);
                }
                self.patches.push((at, at + 1, format!("\\u{byte:04x}")));
            }
            _ => {}
        }
        at + 1
    }

    fn escape(&mut self, bytes: &[u8], at: usize) -> usize {
        let Some(unit) = code_unit(bytes, at) else { return at + 2 };
        match unit {
            0 => {
                self.oddities.insert(IssueCode::Nul);
            }
            0xd800..=0xdbff if matches!(code_unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => return at + 12,
            0xd800..=0xdfff => {
                self.oddities.insert(IssueCode::LoneSurrogate);
                self.patches.push((at, at + 6, "\\ufffd".to_owned()));
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
        check("\"\\u00é\"".as_bytes(), "\"\\u00é\"", "");
    }
}
