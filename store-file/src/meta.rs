//! What a root is: the file `agentstore.json`.

use std::fmt;

use serde_json::{Map, Value};
use store_core::{Error, Result, SchemaRemedy};

use crate::{
    error,
    log::{add_checksum, verified_checksum},
    vfs::{FilePath, Vfs, hash_of, hex, read_small, replace},
};

/// The format of a root that this release writes.
pub(crate) const FORMAT: u64 = 2;
/// The format of the first release, which had no journal. Such a root gets one when it is opened.
const WITHOUT_JOURNAL: u64 = 1;
const NAME: &str = "agentstore.json";
const MAX_BYTES: u64 = 64 * 1024;

/// What a root is. Fields that a newer release wrote beside these are kept.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    fields: Map<String, Value>,
    format: u64,
    key: [u8; 32],
    incarnation: u64,
}

impl Meta {
    /// A new root's: a key of its own, incarnation 0.
    ///
    /// # Errors
    /// `Unavailable` if the operating system gives no random bytes.
    pub(crate) fn new() -> Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .map_err(|source| Error::unavailable("random bytes are not available").with_source(source))?;
        Ok(Self { fields: Map::new(), format: FORMAT, key, incarnation: 0 })
    }

    /// Reads it, `None` if there is none.
    ///
    /// # Errors
    /// `SchemaMismatch` for the format of another release, `Corrupt` for a file whose checksum is wrong or that cannot
    /// be decoded.
    pub(crate) fn load(vfs: &dyn Vfs) -> Result<Option<Self>> {
        let path = FilePath::new(NAME)?;
        let bytes = read_small(vfs, &path, MAX_BYTES).map_err(|source| error::io(NAME, source))?;
        bytes.map(|bytes| Self::parse(&bytes)).transpose()
    }

    /// Writes it durably: after a crash the file holds the former state or this one.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn save(&self, vfs: &dyn Vfs) -> Result<()> {
        let path = FilePath::new(NAME)?;
        replace(vfs, &path, &self.encode()?).map_err(|source| error::io(NAME, source))
    }

    /// 32 random bytes that this root alone has: they name it, and cursors are signed with them.
    pub(crate) const fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// The name of the root that its journal carries.
    pub(crate) fn name(&self) -> String {
        hash_of(&hex(&self.key))
    }

    /// Whether it has a journal.
    pub(crate) const fn has_journal(&self) -> bool {
        self.format != WITHOUT_JOURNAL
    }

    /// This root with a journal, to be saved.
    #[must_use]
    pub(crate) fn with_journal(&self) -> Self {
        Self { format: FORMAT, ..self.clone() }
    }

    /// The number of times that the root was opened in a state that may be older than what was given out (FI-12).
    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// This root in its next incarnation, to be saved.
    #[must_use]
    pub(crate) fn next_incarnation(&self) -> Self {
        Self { incarnation: self.incarnation + 1, ..self.clone() }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let mut fields = self.fields.clone();
        fields.insert("format".to_owned(), self.format.into());
        fields.insert("key".to_owned(), hex(&self.key).into());
        fields.insert("incarnation".to_owned(), self.incarnation.into());
        Ok(add_checksum(&Value::Object(fields).to_string())?.0)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let damaged = || error::corrupt(NAME, None);
        let mut fields: Map<String, Value> = serde_json::from_slice(line).map_err(|e| damaged().with_source(e))?;
        // The format is checked before the sum, because a newer format may have its sum in another place or form.
        let format = fields.get("format").and_then(Value::as_u64).ok_or_else(damaged)?;
        if format != FORMAT && format != WITHOUT_JOURNAL {
            let (found, supported) = (format!("format {format}"), format!("format {FORMAT}"));
            return Err(Error::schema_mismatch(found, supported, SchemaRemedy::Release));
        }
        verified_checksum(line).ok_or_else(damaged)?;
        let key = fields.remove("key").as_ref().and_then(Value::as_str).and_then(unhex).ok_or_else(damaged)?;
        let incarnation = fields.remove("incarnation").as_ref().and_then(Value::as_u64).ok_or_else(damaged)?;
        for derived in ["format", "crc"] {
            fields.remove(derived);
        }
        Ok(Self { fields, format, key, incarnation })
    }
}

/// Without the key: a caller that has it can forge cursors.
impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use store_core::ErrorKind;

    use super::Meta;
    use crate::{
        log::add_checksum,
        vfs::sim::{Fault, SimDisk, Survivors},
    };

    #[test]
    fn the_root_metadata_round_trips_and_survives_a_power_cut() {
        let disk = SimDisk::new();
        assert_eq!(Meta::load(&disk).unwrap(), None);
        let meta = Meta::new().unwrap();
        meta.save(&disk).unwrap();
        let disk = disk.after_crash(Survivors::Synced);
        assert_eq!(Meta::load(&disk).unwrap().unwrap(), meta);
        assert!(!format!("{meta:?}").contains(&super::hex(meta.key())));
    }

    #[test]
    fn a_crash_during_a_replacement_leaves_the_old_or_the_new_metadata() {
        let meta = Meta::new().unwrap();
        let next = meta.next_incarnation();
        for call in 0.. {
            let disk = SimDisk::new();
            meta.save(&disk).unwrap();
            let disk = disk.after_crash(Survivors::All).with_fault(call, Fault::Stop);
            let saved = next.save(&disk).is_ok();
            let torn = (0..200).map(Survivors::Torn);
            let seeds = (0..50).map(Survivors::Random);
            for survivors in [Survivors::All, Survivors::Synced, Survivors::Names].into_iter().chain(torn).chain(seeds)
            {
                let found = Meta::load(&disk.after_crash(survivors)).unwrap().unwrap();
                assert!(found == next || found == meta && !saved, "call {call}, {survivors:?}");
            }
            if saved {
                break;
            }
        }
    }

    #[test]
    fn a_newer_format_is_named_and_damage_is_found() {
        let (newer, _) = add_checksum(r#"{"format":3,"key":"?"}"#).unwrap();
        let error = Meta::parse(&newer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().contains("format 3"), "{error}");
        let good = Meta::new().unwrap().encode().unwrap();
        for bit in 0..(good.len() - 1) * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::parse(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn unknown_fields_are_kept() {
        let mut meta = Meta::new().unwrap();
        meta.fields.insert("later".to_owned(), "x".into());
        let again = Meta::parse(&meta.next_incarnation().encode().unwrap()).unwrap();
        assert_eq!((again.fields["later"].as_str(), again.incarnation()), (Some("x"), 1));
    }
}
