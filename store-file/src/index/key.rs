//! Keys made of parts: no two lists of parts give the same bytes, and bytes are ordered as the parts are.

/// Ends a text part. A zero byte inside of a part is followed by [`ESCAPED`], which is greater.
const END: [u8; 2] = [0, 1];
const ESCAPED: u8 = 0xff;

/// A key under construction. Its first byte says what the key is for, and with it which parts follow.
///
/// A key without its last parts is a prefix of exactly those keys that agree with it in the parts it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// A key of this sort.
    pub(crate) fn new(sort: u8) -> Self {
        Self(vec![sort])
    }

    /// A key that was taken apart into bytes before.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Adds text, ordered byte by byte; a text comes before those that it is the beginning of.
    #[must_use]
    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds bytes, ordered as text is.
    #[must_use]
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.reserve(bytes.len() + END.len());
        let mut parts = bytes.split(|byte| *byte == 0);
        self.0.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            self.0.extend_from_slice(&[0, ESCAPED]);
            self.0.extend_from_slice(part);
        }
        self.0.extend_from_slice(&END);
        self
    }

    /// Adds a number, the least first.
    #[must_use]
    pub(crate) fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Adds a mark: one byte, for a small closed set.
    #[must_use]
    pub(crate) fn mark(mut self, mark: u8) -> Self {
        self.0.push(mark);
        self
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl From<Key> for Vec<u8> {
    fn from(key: Key) -> Self {
        key.0
    }
}

/// Takes a key apart, in the order in which it was made. Every method answers nothing for bytes of another shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyReader<'a>(&'a [u8]);

impl<'a> KeyReader<'a> {
    /// Reads the parts of a key of this sort.
    pub(crate) fn new(sort: u8, key: &'a [u8]) -> Option<Self> {
        let (first, rest) = key.split_first()?;
        (*first == sort).then_some(Self(rest))
    }

    /// Reads the parts of a key of this sort that follow the number of a log.
    pub(crate) fn of_log(sort: u8, key: &'a [u8]) -> Option<Self> {
        let mut reader = Self::new(sort, key)?;
        reader.number()?;
        Some(reader)
    }

    /// Reads the parts of a key that follow those of `list`.
    pub(crate) fn below(list: &Key, key: &'a [u8]) -> Option<Self> {
        key.strip_prefix(list.as_bytes()).map(Self)
    }

    /// The next part, a text.
    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    /// The next part, bytes.
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut part = Vec::new();
        loop {
            match self.0 {
                [0, ESCAPED, rest @ ..] => {
                    part.push(0);
                    self.0 = rest;
                }
                [0, 1, rest @ ..] => {
                    self.0 = rest;
                    return Some(part);
                }
                [byte, rest @ ..] if *byte != 0 => {
                    part.push(*byte);
                    self.0 = rest;
                }
                _ => return None,
            }
        }
    }

    /// The next part, a mark.
    pub(crate) fn mark(&mut self) -> Option<u8> {
        let (mark, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*mark)
    }

    /// The next part, a number made by [`Key::number`].
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }
}

/// The least bytes that are greater than everything that starts with `prefix`: the end of the prefix's range.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    // No bytes are greater than all others; no key starts with a byte of all ones.
    vec![0xff; prefix.len() + 64]
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyReader, after_prefix};

    const TEXTS: &[&str] = &["", "\0", "\0\0", "\0\u{1}", "\u{1}", "a", "a\0", "a\0b", "aa", "ab", "b", "é", "🦀"];

    #[test]
    fn the_order_of_keys_is_the_order_of_their_parts() {
        let numbers = [0, 1, 255, 256, u64::MAX - 1, u64::MAX];
        for (left, right) in TEXTS.iter().flat_map(|left| TEXTS.iter().map(move |right| (left, right))) {
            for (low, high) in numbers.iter().flat_map(|low| numbers.iter().map(move |high| (low, high))) {
                let key = |text: &str, number| Key::new(1).text(text).number(number).text(text).into_bytes();
                assert_eq!(key(left, *low).cmp(&key(right, *high)), (left, low).cmp(&(right, high)));
            }
        }
    }

    #[test]
    fn a_key_is_parsed_into_its_parts() {
        for text in TEXTS {
            let key = Key::new(9).text(text).number(3).text(text).into_bytes();
            let mut reader = KeyReader::new(9, &key).unwrap();
            assert_eq!(reader.text().unwrap(), *text);
            assert_eq!((reader.number(), reader.text().as_deref()), (Some(3), Some(*text)));
            for len in 1..key.len() {
                let mut short = KeyReader::new(9, &key[..len]).unwrap();
                let parts = (short.text(), short.number(), short.text());
                assert!(parts.2.is_none(), "{len}");
            }
        }
        assert!(KeyReader::new(1, Key::new(2).as_bytes()).is_none());
    }

    #[test]
    fn a_prefix_holds_its_own_keys_only() {
        let (a, ab) = (Key::new(1).text("a"), Key::new(1).text("ab"));
        let inside = a.clone().number(7).into_bytes();
        assert!(inside.starts_with(a.as_bytes()) && !ab.as_bytes().starts_with(a.as_bytes()));
        for prefix in [&b"a"[..], b"a\xff", b"\xff\xff", b""] {
            let end = after_prefix(prefix);
            assert!(prefix < &end[..] && [prefix, b"\xfe\xff"].concat() < end, "{prefix:?}");
        }
    }
}
