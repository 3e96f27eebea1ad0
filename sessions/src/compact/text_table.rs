//! A table of texts, such as the ids of lines. Each text is kept once and has a number.

use std::hash::{BuildHasher, RandomState};

use super::{List, to_u32};
use crate::source::hex;

const TEXTS_PER_START: u32 = 16;

const PAGE_BYTES: usize = 64 << 10;

/// A page gets no further texts if it has less room than this. It is enough for 16 ids.
const MIN_ROOM: usize = 1 << 10;

/// The first byte of a text of at most this many bytes is its length.
const MAX_SHORT_LENGTH: usize = 127;

/// The first byte of a text of hexadecimal digits is this number plus the number of pairs of digits.
const HEX_MARKER: u8 = 127;

const MAX_HEX_BYTES: usize = 126;

/// The first byte of a UUID.
const UUID_MARKER: u8 = 254;

/// The first byte of any other text. Its length follows, in eight bytes.
const LONG_MARKER: u8 = 255;

/// Where a UUID has hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

const EMPTY_SLOT: u32 = u32::MAX;

/// A table of texts. A UUID takes about 24 bytes, and any other text of the same length about 44.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    /// The texts without gaps, in the form that `encode` returns.
    pages: Vec<Vec<u8>>,
    /// Where the first of every 16 texts begins: its page, and its place there. All 16 are on the same page.
    starts: List<(u32, u32)>,
    count: u32,
    /// The numbers of the texts. The hash of a text gives a slot. The number of the text is in this slot or, if the
    /// slot was in use already, in the next free one.
    slots: List<u32>,
    hasher: RandomState,
}

impl TextTable {
    /// The number of a text, and whether it is new. Numbers count from 0. Returns `None` if the table is full.
    pub(crate) fn add(&mut self, text: &str) -> Option<(u32, bool)> {
        let encoded = encode(text);
        if let Some(known) = self.find_encoded(&encoded) {
            return Some((known, false));
        }
        if self.count >= EMPTY_SLOT - 1 {
            return None;
        }
        let number = self.count;
        if number.is_multiple_of(TEXTS_PER_START) {
            self.begin_page_if_full();
            let place = self.pages.last().map_or(0, Vec::len);
            self.starts.push((to_u32(self.pages.len().saturating_sub(1)), to_u32(place)));
        }
        if let Some(page) = self.pages.last_mut() {
            page.extend_from_slice(&encoded);
        }
        self.count += 1;
        // At most three of four slots are in use.
        if u64::from(self.count) * 4 > to_u64(self.slots.len()) * 3 {
            self.rebuild_slots();
        } else {
            self.fill_slot(&encoded, number);
        }
        Some((number, true))
    }

    fn begin_page_if_full(&mut self) {
        if self.pages.last().is_none_or(|page| page.len() + MIN_ROOM > PAGE_BYTES) {
            // Most tables are small, so the first page is as large as it needs to be.
            let capacity = if self.pages.is_empty() { 0 } else { PAGE_BYTES };
            self.pages.push(Vec::with_capacity(capacity));
        }
    }

    /// The number of a text, if it is in the table.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.find_encoded(&encode(text))
    }

    /// The text with this number.
    pub(crate) fn text(&self, number: u32) -> Option<String> {
        decode(self.encoded(number)?)
    }

    /// The number of texts.
    pub(crate) const fn len(&self) -> u32 {
        self.count
    }

    fn find_encoded(&self, encoded: &[u8]) -> Option<u32> {
        let mut at = self.first_slot(encoded);
        loop {
            let number = *self.slots.get(at).filter(|number| **number != EMPTY_SLOT)?;
            if self.encoded(number) == Some(encoded) {
                return Some(number);
            }
            at = self.slot_after(at);
        }
    }

    fn encoded(&self, number: u32) -> Option<&[u8]> {
        if number >= self.count {
            return None;
        }
        let (page, place) = *self.starts.get(usize::try_from(number / TEXTS_PER_START).ok()?)?;
        let page = self.pages.get(usize::try_from(page).ok()?)?;
        let mut rest = page.get(usize::try_from(place).ok()?..)?;
        for _ in 0..number % TEXTS_PER_START {
            rest = rest.get(encoded_len(rest)..)?;
        }
        rest.get(..encoded_len(rest))
    }

    fn first_slot(&self, encoded: &[u8]) -> usize {
        let hash = self.hasher.hash_one(encoded) >> 32;
        usize::try_from((hash * to_u64(self.slots.len())) >> 32).unwrap_or_default()
    }

    const fn slot_after(&self, at: usize) -> usize {
        if at + 1 < self.slots.len() { at + 1 } else { 0 }
    }

    fn fill_slot(&mut self, encoded: &[u8], number: u32) {
        let mut at = self.first_slot(encoded);
        while self.slots.get(at).is_some_and(|slot| *slot != EMPTY_SLOT) {
            at = self.slot_after(at);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = number;
        }
    }

    /// Makes a larger list of slots. The smaller one is freed first, so that both are never in memory together.
    fn rebuild_slots(&mut self) {
        let slots = (self.slots.len() / 2 * 3).max(64);
        self.slots = List::default();
        self.slots = List::filled(&EMPTY_SLOT, slots);
        let pages = std::mem::take(&mut self.pages);
        let mut numbers = 0..self.count;
        for page in &pages {
            let mut rest = page.as_slice();
            while !rest.is_empty()
                && let Some(number) = numbers.next()
            {
                let (encoded, after) = rest.split_at_checked(encoded_len(rest)).unwrap_or_default();
                self.fill_slot(encoded, number);
                rest = after;
            }
        }
        self.pages = pages;
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The bytes of a text, after a first byte that says how they are encoded. Each text has exactly one encoding.
fn encode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let is_uuid = bytes.len() == 36 && HYPHENS.iter().all(|at| bytes.get(*at) == Some(&b'-'));
    let digits: Vec<_> = match is_uuid {
        true => bytes.iter().copied().filter(|byte| *byte != b'-').collect(),
        false => Vec::new(),
    };
    if let Some(packed) = pack(&digits).filter(|packed| packed.len() == 16) {
        return [&[UUID_MARKER], packed.as_slice()].concat();
    }
    if let Some(packed) = pack(bytes).filter(|packed| (1..=MAX_HEX_BYTES).contains(&packed.len())) {
        let pairs = u8::try_from(packed.len()).unwrap_or_default();
        return [&[HEX_MARKER + pairs], packed.as_slice()].concat();
    }
    match u8::try_from(bytes.len()) {
        Ok(len) if bytes.len() <= MAX_SHORT_LENGTH => [&[len], bytes].concat(),
        _ => [&[LONG_MARKER], to_u64(bytes.len()).to_le_bytes().as_slice(), bytes].concat(),
    }
}

/// Packs lower-case hexadecimal digits, two into each byte. Returns `None` if there are other digits or an odd number.
fn pack(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// The number of bytes that the first text in `bytes` takes, including its first byte.
fn encoded_len(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(&UUID_MARKER) => 17,
        Some(&LONG_MARKER) => {
            let len = bytes.get(1..9).and_then(|len| len.try_into().ok()).map_or(0, u64::from_le_bytes);
            usize::try_from(len).unwrap_or_default().saturating_add(9)
        }
        Some(&first) if first > HEX_MARKER => usize::from(first - HEX_MARKER) + 1,
        Some(&first) => usize::from(first) + 1,
    }
}

fn decode(encoded: &[u8]) -> Option<String> {
    let (first, rest) = encoded.split_first()?;
    match *first {
        UUID_MARKER => {
            let mut text = hex(rest);
            for at in HYPHENS {
                text.insert(at, '-');
            }
            Some(text)
        }
        LONG_MARKER => String::from_utf8(rest.get(8..)?.to_vec()).ok(),
        first if first > HEX_MARKER => Some(hex(rest)),
        _ => String::from_utf8(rest.to_vec()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::TextTable;

    #[test]
    fn every_text_keeps_its_number_and_its_content() {
        let mut texts: Vec<_> = [
            "",
            "a",
            "ab",
            "abc",
            "AB",
            "a0000006",
            "ä",
            "0b1c2d3e-0000-4000-8000-00000000000f",
            "0B1c2d3e-0000-4000-8000-00000000000f",
            "0b1c2d3e0000400080000000000000000f",
            "0b1c2d3e-0000-4000-8000-00000000000g",
            "-b1c2d3e-0000-4000-8000-00000000000f",
        ]
        .map(str::to_owned)
        .into();
        for count in [125, 126, 127, 128, 251, 252, 253, 254, 300, 70_000] {
            texts.extend(["f", "x"].map(|digit| digit.repeat(count)));
        }
        texts.extend((0..5_000).map(|n| format!("{n:08x}")));
        texts.extend((0..500).map(|n| format!("call_{n}")));
        let mut table = TextTable::default();
        for (at, text) in (0..).zip(&texts) {
            assert_eq!(table.find(text), None, "{text}");
            assert_eq!(table.add(text), Some((at, true)));
        }
        for (at, text) in (0..).zip(&texts) {
            assert_eq!(table.add(text), Some((at, false)));
            assert_eq!((table.find(text), table.text(at).as_ref()), (Some(at), Some(text)));
        }
        assert_eq!((table.len() as usize, table.text(table.len())), (texts.len(), None));
    }
}
