//! The keys of documents, and their encoding, which keeps their order.

use std::{fmt, sync::Arc};

use crate::{
    codec::{Codec, DecodeError},
    error::{Error, Result},
    id::{CollectionId, SegmentId, ThreadId},
    limits::{check_limit, length},
};

/// The maximum number of segments of a key.
pub const MAX_KEY_SEGMENTS: usize = 8;
/// The maximum length of an encoded key, in bytes. With it, a cursor after any key has at most 1 KiB (PG-6).
pub const MAX_KEY_BYTES: usize = 700;

/// Begins a number. It sorts before [`ID_MARK`], so numbers come before ids.
const NUMBER_MARK: char = '#';
/// Begins an id.
const ID_MARK: char = '$';
/// Ends an id. It sorts before every character that an id may contain, so `a` comes before `ab`, whatever follows `a`.
const ID_END: char = '\u{1}';
/// Sorts after both marks, and so after everything that can follow a segment.
pub(super) const AFTER_EVERY_MARK: char = '%';

/// One segment of a key.
///
/// Numbers come before ids. Numbers are ordered by their value, and ids by their bytes (DO-6).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeySegment {
    /// A number.
    Number(u64),
    /// An id.
    Id(SegmentId),
}

impl KeySegment {
    /// Makes a segment from the text of an id.
    ///
    /// # Errors
    /// `Invalid` if the text is no id (ID-1).
    pub fn id(text: impl AsRef<str>) -> Result<Self> {
        SegmentId::new(text).map(Self::Id)
    }

    /// Appends the encoded segment.
    ///
    /// A number is written as a letter for its number of digits, and then its digits, so that it needs no fixed width.
    fn encode(&self, out: &mut String) {
        match self {
            Self::Number(number) => {
                let digits = number.to_string();
                out.push(NUMBER_MARK);
                out.extend(digit_count_letter(digits.len()));
                out.push_str(&digits);
            }
            Self::Id(id) => {
                out.push(ID_MARK);
                out.push_str(id.as_str());
                out.push(ID_END);
            }
        }
    }

    /// Splits the first segment from the encoded segments `text`.
    fn decode_first(text: &str) -> Option<(Self, &str)> {
        if let Some(rest) = text.strip_prefix(ID_MARK) {
            let (id, rest) = rest.split_once(ID_END)?;
            return Some((Self::Id(SegmentId::new(id).ok()?), rest));
        }
        let rest = text.strip_prefix(NUMBER_MARK)?;
        let letter = rest.chars().next()?;
        let digit_count = (1..=20).find(|&count| digit_count_letter(count) == Some(letter))?;
        let (digits, rest) = rest.get(1..)?.split_at_checked(digit_count)?;
        let number: u64 = digits.parse().ok()?;
        (number.to_string() == digits).then_some((Self::Number(number), rest))
    }
}

/// Returns the letter for a number of digits from 1 to 20. Later letters stand for more digits.
fn digit_count_letter(digits: usize) -> Option<char> {
    let offset = u8::try_from(digits).ok()?.checked_sub(1)?;
    (offset < 20).then(|| char::from(b'A' + offset))
}

impl fmt::Display for KeySegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl From<u64> for KeySegment {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<SegmentId> for KeySegment {
    fn from(id: SegmentId) -> Self {
        Self::Id(id)
    }
}

/// Written as a number or as a string.
impl Codec for KeySegment {
    fn write(&self, out: &mut String) {
        match self {
            Self::Number(number) => number.write(out),
            Self::Id(id) => id.write(out),
        }
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        if raw.starts_with('"') { SegmentId::read(raw).map(Self::Id) } else { u64::read(raw).map(Self::Number) }
    }
}

/// Returns the encoding of segments. Strings of segments sort byte by byte as the segments do, one after another.
///
/// # Errors
/// `LimitExceeded` for more than [`MAX_KEY_SEGMENTS`] segments or more than [`MAX_KEY_BYTES`] bytes.
pub(super) fn encode_segments(segments: &[KeySegment]) -> Result<String> {
    check_limit("segments of a document key", length(segments.len()), length(MAX_KEY_SEGMENTS))?;
    let mut text = String::new();
    for segment in segments {
        segment.encode(&mut text);
    }
    check_limit("bytes of a document key", length(text.len()), length(MAX_KEY_BYTES))?;
    Ok(text)
}

/// The key of a document: its collection, and 1 to 8 segments.
///
/// Keys are ordered by collection, and then segment by segment. A key comes before the longer keys that begin with it.
///
/// ```
/// use store_core::{CollectionId, DocumentKey, KeySegment};
///
/// let key = |number| DocumentKey::new(CollectionId::new("versions")?, [KeySegment::id("a")?, number]);
/// assert!(key(KeySegment::Number(9))? < key(KeySegment::Number(10))?);
/// assert_eq!(key(KeySegment::Number(9))?.to_string(), "versions/a/9");
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    collection: CollectionId,
    /// The segments, encoded so that their order is the order of the bytes.
    encoded: Arc<str>,
}

impl DocumentKey {
    /// Makes the key of a document in `collection`.
    ///
    /// # Errors
    /// `Invalid` if there is no segment. `LimitExceeded` for more than 8 segments, or for segments of more than 700
    /// bytes in all: an id counts its own bytes and two more, a number its digits and two more.
    pub fn new(collection: CollectionId, segments: impl IntoIterator<Item = KeySegment>) -> Result<Self> {
        let segments: Vec<_> = segments.into_iter().collect();
        if segments.is_empty() {
            return Err(Error::invalid("document key", "it has no segment"));
        }
        Ok(Self { collection, encoded: encode_segments(&segments)?.into() })
    }

    /// Makes the key from the text that [`encoded`](Self::encoded) returned. For backends.
    ///
    /// # Errors
    /// `Corrupt` if the text is no encoded key.
    pub fn from_encoded(collection: CollectionId, encoded: &str) -> Result<Self> {
        if decode_segments(encoded).is_none_or(|segments| segments.is_empty() || segments.len() > MAX_KEY_SEGMENTS) {
            return Err(Error::corrupt("the key of a document cannot be read"));
        }
        Ok(Self { collection, encoded: encoded.into() })
    }

    /// Returns the collection.
    #[must_use]
    pub const fn collection(&self) -> &CollectionId {
        &self.collection
    }

    /// Returns the segments.
    #[must_use]
    pub fn segments(&self) -> Vec<KeySegment> {
        decode_segments(&self.encoded).unwrap_or_default()
    }

    /// Returns the encoded segments, at most 700 bytes of UTF-8 without U+0000.
    ///
    /// Within a collection, the order of these texts, byte by byte, is the order of the keys. The text of a key begins
    /// with the text of another key if and only if its segments begin with those of the other key (DO-7).
    #[must_use]
    pub fn encoded(&self) -> &str {
        &self.encoded
    }

    /// Returns the reference to the document of `thread` with this key.
    #[must_use]
    pub const fn in_thread(self, thread: ThreadId) -> super::DocumentRef {
        super::DocumentRef { scope: super::DocumentScope::Thread(thread), key: self }
    }
}

fn decode_segments(encoded: &str) -> Option<Vec<KeySegment>> {
    let (mut segments, mut rest) = (Vec::new(), encoded);
    while !rest.is_empty() {
        let (segment, after) = KeySegment::decode_first(rest)?;
        segments.push(segment);
        rest = after;
    }
    Some(segments)
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.collection)?;
        self.segments().iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

impl fmt::Debug for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DocumentKey").field(&self.collection).field(&self.segments()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{DocumentKey, KeySegment, MAX_KEY_BYTES};
    use crate::{CollectionId, ErrorKind};

    fn id(text: &str) -> KeySegment {
        KeySegment::id(text).unwrap()
    }

    fn key(segments: &[KeySegment]) -> DocumentKey {
        DocumentKey::new(CollectionId::new("c").unwrap(), segments.iter().cloned()).unwrap()
    }

    /// Segments that are easily confused: equal beginnings, separators and marks inside of ids, numbers of all lengths.
    fn segments() -> Vec<KeySegment> {
        let ids = ["a", "ab", "a b", "a/b", "#A1", "$a", "%", "é", "e\u{301}", "A", "\u{a0}a", "🦀", "1", "10"];
        let numbers = [0, 1, 9, 10, 11, 99, 100, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        ids.map(id).into_iter().chain(numbers.map(KeySegment::Number)).collect()
    }

    #[test]
    fn the_bytes_of_keys_have_the_order_of_their_segments_do_6() {
        let mut lists: Vec<Vec<KeySegment>> = segments().into_iter().map(|segment| vec![segment]).collect();
        for first in segments() {
            lists.extend(segments().into_iter().map(|second| vec![first.clone(), second]));
        }
        for left in &lists {
            for right in &lists {
                let (left_key, right_key) = (key(left), key(right));
                assert_eq!(left_key.encoded().cmp(right_key.encoded()), left.cmp(right), "{left:?} {right:?}");
                assert_eq!(left_key.cmp(&right_key), left.cmp(right));
                assert_eq!(left_key.encoded().starts_with(right_key.encoded()), left.starts_with(right));
            }
        }
    }

    #[test]
    fn an_encoded_key_is_read_back_do_7() {
        for first in segments() {
            for second in segments() {
                let list = [first.clone(), second];
                let written = key(&list);
                assert_eq!(written.segments(), list);
                let read = DocumentKey::from_encoded(written.collection().clone(), written.encoded()).unwrap();
                assert_eq!(read, written);
            }
        }
    }

    #[test]
    fn the_encoding_does_not_change() {
        let encoded = |segments: &[KeySegment]| key(segments).encoded().to_owned();
        assert_eq!(encoded(&[id("ada"), KeySegment::Number(0)]), "$ada\u{1}#A0");
        assert_eq!(encoded(&[KeySegment::Number(42), KeySegment::Number(u64::MAX)]), "#B42#T18446744073709551615");
    }

    #[test]
    fn a_damaged_key_is_corrupt() {
        for text in ["", "ada", "$ada", "#A", "#B1", "#B01", "#U1", "#A1x", "$ada\u{1}#", "$\u{1}", "#é1", "#Aé"] {
            let error = DocumentKey::from_encoded(CollectionId::new("c").unwrap(), text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text:?}");
        }
    }

    #[test]
    fn a_key_has_one_to_eight_segments_and_a_limited_length() {
        let new_key = |segments: Vec<KeySegment>| DocumentKey::new(CollectionId::new("c").unwrap(), segments);
        assert_eq!(new_key(vec![]).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(new_key(vec![KeySegment::Number(1); 8]).is_ok());
        assert_eq!(new_key(vec![KeySegment::Number(1); 9]).unwrap_err().kind(), ErrorKind::LimitExceeded);
        let of_bytes = |bytes: usize| vec![id(&"x".repeat(256)), id(&"x".repeat(256)), id(&"x".repeat(bytes - 518))];
        assert_eq!(new_key(of_bytes(MAX_KEY_BYTES)).unwrap().encoded().len(), MAX_KEY_BYTES);
        assert_eq!(new_key(of_bytes(MAX_KEY_BYTES + 1)).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
