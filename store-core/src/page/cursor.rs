//! Cursors: opaque texts from which a list continues, and the key that authenticates them.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{
    error::{Error, Result},
    id::TenantId,
    identity::StoreIdentity,
};

const MAX_CURSOR_BYTES: usize = 1 << 10;
/// The length of the code that authenticates a cursor: the first half of a SHA-256 HMAC.
const MAC_BYTES: usize = 16;
/// The first byte of each cursor, so that a later release can introduce another format.
const CURSOR_FORMAT: u8 = 1;

/// A position in a list from which reading continues: opaque text of at most 1 KiB.
///
/// It is valid only for the tenant, method, filters and order that it came from (PG-6), and stays valid when the store
/// is opened again (PG-12).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Makes a cursor from its text. The text is checked when the cursor is used.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, which can be stored and passed back later.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the encoded position, without a check of where the cursor comes from.
    pub(super) fn unchecked_position(&self) -> Option<Vec<u8>> {
        BASE64.decode(&self.0).ok()?.get(1 + MAC_BYTES..).map(<[u8]>::to_vec)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({})", self.0)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a cursor belongs to: a list of one tenant, with its filters and order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorScope {
    /// Everything that must be the same when the cursor is used, encoded so that different scopes have different bytes.
    binding: Vec<u8>,
}

impl CursorScope {
    /// Makes the scope of the list `method` of `tenant`. `query` describes its filters and order.
    #[must_use]
    pub fn new(tenant: &TenantId, method: &'static str, query: &str) -> Self {
        let mut binding = Vec::new();
        for part in [tenant.as_str(), method, query] {
            binding.extend_from_slice(&(part.len() as u64).to_be_bytes());
            binding.extend_from_slice(part.as_bytes());
        }
        Self { binding }
    }
}

/// Encodes the parts of a query that are set (`Some`), each with its name and length.
///
/// If a later release adds a part, queries that do not set it have the same encoding as before. Their cursors therefore
/// stay valid (PG-12).
#[must_use]
pub(crate) fn encode_query_parts(parts: &[(&str, Option<String>)]) -> String {
    let set_parts = parts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    set_parts.map(|(name, value)| format!("{name}={}:{value};", value.len())).collect()
}

/// The secret with which a store authenticates its cursors. It lets the store detect forged and changed cursors, and
/// cursors of other lists or stores (PG-6, PG-7).
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

impl CursorKey {
    /// Makes the key from these bytes. The store must use the same bytes each time it is opened.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Makes a cursor for `position` in the list of `scope`.
    #[must_use]
    pub fn make_cursor(&self, scope: &CursorScope, position: &[u8]) -> Cursor {
        let mut bytes = Vec::with_capacity(1 + MAC_BYTES + position.len());
        bytes.push(CURSOR_FORMAT);
        bytes.extend(self.mac(scope, position));
        bytes.extend_from_slice(position);
        Cursor(BASE64.encode(bytes))
    }

    /// Returns the position that [`make_cursor`](Self::make_cursor) encoded.
    ///
    /// # Errors
    /// `InvalidCursor` if the cursor was not made by this key for this scope.
    pub fn decode_cursor(&self, scope: &CursorScope, cursor: &Cursor) -> Result<Vec<u8>> {
        if cursor.0.len() > MAX_CURSOR_BYTES {
            return Err(Error::invalid_cursor("it is too long"));
        }
        let bytes = BASE64.decode(&cursor.0).map_err(|e| Error::invalid_cursor("it is malformed").with_source(e))?;
        let Some((&CURSOR_FORMAT, mac_and_position)) = bytes.split_first() else {
            return Err(Error::invalid_cursor("its format is unknown"));
        };
        let Some((mac, position)) = mac_and_position.split_at_checked(MAC_BYTES) else {
            return Err(Error::invalid_cursor("it is cut off"));
        };
        if mac != self.mac(scope, position) {
            return Err(Error::invalid_cursor("it belongs to another list"));
        }
        Ok(position.to_vec())
    }

    /// Returns the identity of the store that has this key and is kept in `place`. The same store must always name the
    /// same place, and a copy of it, which has the same key, another one.
    #[must_use]
    pub fn identity(&self, place: &str) -> StoreIdentity {
        // No list has this name, so the code authenticates no cursor.
        let scope = CursorScope::new(&TenantId::default_tenant(), "identity of the store", place);
        StoreIdentity::from_bytes(&self.mac(&scope, &[]))
    }

    fn mac(&self, scope: &CursorScope, position: &[u8]) -> [u8; MAC_BYTES] {
        // HMAC pads a short key with zeros to the block size of its hash.
        let block: [u8; 64] = std::array::from_fn(|index| self.0.get(index).copied().unwrap_or_default());
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(&scope.binding);
        mac.update(position);
        let full_mac = mac.finalize().into_bytes();
        std::array::from_fn(|index| full_mac.get(index).copied().unwrap_or_default())
    }
}

impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CursorKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::{BASE64, CURSOR_FORMAT, Cursor, CursorKey, CursorScope, MAX_CURSOR_BYTES};
    use crate::{ErrorKind, TenantId, codec::Codec};

    fn scope(tenant: &str, method: &'static str, query: &str) -> CursorScope {
        CursorScope::new(&TenantId::new(tenant).unwrap(), method, query)
    }

    #[test]
    fn a_cursor_is_accepted_by_its_own_list_only() {
        let key = CursorKey::new([7; 32]);
        let cursor = key.make_cursor(&scope("a", "threads", "q"), b"here");
        assert_eq!(key.decode_cursor(&scope("a", "threads", "q"), &cursor).unwrap(), b"here");
        for other_scope in [scope("b", "threads", "q"), scope("a", "runs", "q"), scope("a", "threads", "r")] {
            assert_eq!(key.decode_cursor(&other_scope, &cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
        }
        let other_key = CursorKey::new([8; 32]);
        assert_eq!(
            other_key.decode_cursor(&scope("a", "threads", "q"), &cursor).unwrap_err().kind(),
            ErrorKind::InvalidCursor
        );
    }

    #[test]
    fn a_changed_cursor_is_refused() {
        let key = CursorKey::new([7; 32]);
        let scope = scope("a", "threads", "q");
        let cursor = key.make_cursor(&scope, b"here");
        for index in 0..cursor.as_str().len() {
            for bit in 0..8 {
                let mut bytes = cursor.as_str().as_bytes().to_vec();
                bytes[index] ^= 1 << bit;
                let Ok(text) = String::from_utf8(bytes) else { continue };
                let changed_cursor = Cursor::from_text(text);
                assert_eq!(key.decode_cursor(&scope, &changed_cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
            }
        }
        for text in ["", "A", "!!!!", &"A".repeat(5000)] {
            assert!(key.decode_cursor(&scope, &Cursor::from_text(text)).is_err());
        }
    }

    /// Tests CP-3: the identity is that of the key in its place, and is no cursor of any list.
    #[test]
    fn the_identity_follows_from_the_key_and_the_place() {
        let key = CursorKey::new([7; 32]);
        assert_eq!(key.identity("a"), CursorKey::new([7; 32]).identity("a"));
        assert_ne!(key.identity("a"), key.identity("b"));
        assert_ne!(key.identity("a"), CursorKey::new([8; 32]).identity("a"));
        assert_eq!(key.identity("a").as_str().len(), 32);
    }

    #[test]
    fn a_cursor_of_another_format_is_refused() {
        let (key, scope) = (CursorKey::new([7; 32]), scope("a", "threads", "q"));
        let cursor = BASE64.decode(key.make_cursor(&scope, b"here").as_str()).unwrap();
        for format in (0..=u8::MAX).filter(|format| *format != CURSOR_FORMAT) {
            let mut bytes = cursor.clone();
            bytes[0] = format;
            let error = key.decode_cursor(&scope, &Cursor::from_text(BASE64.encode(bytes))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor);
            assert!(error.to_string().contains("its format is unknown"), "{error}");
        }
    }

    #[test]
    fn the_longest_position_makes_a_cursor_of_at_most_a_kibibyte() {
        let cursor = CursorKey::new([7; 32]).make_cursor(&scope("a", "threads", "q"), &[0; 600]);
        assert!(cursor.as_str().len() <= 1024);
    }

    #[test]
    fn the_length_of_a_cursor_is_limited() {
        let (key, scope) = (CursorKey::new([7; 32]), scope("a", "threads", "q"));
        let cursor = |length: usize| key.make_cursor(&scope, &vec![b'x'; length]);
        let longest = (0..MAX_CURSOR_BYTES).rfind(|&length| cursor(length).as_str().len() <= MAX_CURSOR_BYTES).unwrap();
        assert_eq!(cursor(longest).as_str().len(), MAX_CURSOR_BYTES);
        assert!(key.decode_cursor(&scope, &cursor(longest)).is_ok());
        assert_eq!(key.decode_cursor(&scope, &cursor(longest + 1)).unwrap_err().kind(), ErrorKind::InvalidCursor);
    }

    #[test]
    fn a_cursor_is_written_and_shown_as_its_text() {
        let cursor = Cursor::from_text("abc");
        assert_eq!((cursor.encode(), cursor.to_string()), ("\"abc\"".to_owned(), "abc".to_owned()));
    }
}
