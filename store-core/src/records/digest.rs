//! The digest of the data of a tenant: the same for equal data, whatever store keeps it (VF-3).

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{RecordList, RecordPort, StoredRecord, objects, walk::RecordWalk};
use crate::{
    codec::Codec,
    error::{Detail, Error, Result},
    limits::length,
    progress::Progress,
    store::TenantStores,
};

/// The digest of one list of records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListDigest {
    /// The name of the list.
    pub list: &'static str,
    /// The number of records.
    pub records: u64,
    /// The SHA-256 digest of the records, in hexadecimal digits.
    pub digest: String,
}

/// The digest of everything that a store keeps for a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TenantDigest {
    /// The SHA-256 digest of the digests of all lists, in hexadecimal digits.
    pub digest: String,
    /// The lists that have records, in the order in which they are copied.
    pub lists: Vec<ListDigest>,
}

impl TenantDigest {
    /// Returns the number of all records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.lists.iter().map(|list| list.records).sum()
    }
}

/// The digest of a list while its records are read.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningDigest {
    hash: Sha256,
    records: u64,
}

impl RunningDigest {
    pub(super) fn add(&mut self, key: &str, text: &str) {
        self.records += 1;
        for part in [key, text] {
            self.hash.update(length(part.len()).to_be_bytes());
            self.hash.update(part);
        }
    }

    pub(super) fn add_record(&mut self, record: &StoredRecord, canonical: &str) {
        self.add(&record.key().encode(), canonical);
    }

    pub(super) fn finish(self, list: &'static str) -> Option<ListDigest> {
        (self.records > 0).then(|| ListDigest { list, records: self.records, digest: hex(&self.hash.finalize()) })
    }
}

/// Returns the digest of lists.
pub(super) fn digest_of_lists(lists: Vec<ListDigest>) -> TenantDigest {
    let mut hash = Sha256::new();
    for ListDigest { list, records, digest } in &lists {
        hash.update(format!("{list} {records} {digest}\n"));
    }
    TenantDigest { digest: hex(&hash.finalize()), lists }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Reads everything that a store keeps for a tenant, and returns its digest. Two stores with equal data have equal
/// digests, of whatever backends they are (VF-3).
///
/// The digest is that of one moment if no caller writes meanwhile.
///
/// # Errors
/// `Unsupported` if the store has no records to dump; any error of reading. `Unavailable` if `progress` stops it.
pub async fn digest_tenant(stores: &TenantStores, progress: &dyn Progress) -> Result<TenantDigest> {
    let port = port_of(stores)?;
    let (mut lists, mut done) = (Vec::new(), 0);
    for list in RecordList::ALL {
        let (mut digest, mut walk) = (RunningDigest::default(), RecordWalk::new(port, *list, None));
        loop {
            let records = walk.next_page().await?;
            if records.is_empty() {
                break;
            }
            for record in records.iter().filter(|record| record.list() != RecordList::Numbers) {
                digest.add_record(record, &record.canonical());
            }
            done += length(records.len());
            if !progress.advance(done, None) {
                return Err(Error::unavailable("the digest was stopped before its end"));
            }
        }
        lists.extend(digest.finish(list.name()));
    }
    if let Some(objects) = &stores.objects {
        lists.extend(objects::digest(&**objects).await?);
    }
    Ok(digest_of_lists(lists))
}

/// Returns the records of a store, or an error that it has none to dump.
pub(super) fn port_of(stores: &TenantStores) -> Result<&dyn RecordPort> {
    let unsupported = || Error::new(Detail::Unsupported { operation: "dumping and restoring records" });
    stores.records.as_deref().ok_or_else(unsupported)
}

#[cfg(test)]
mod tests {
    use super::{RunningDigest, digest_of_lists, hex};

    #[test]
    fn a_digest_tells_lists_records_and_their_borders_apart_vf_3() {
        let digest = |records: &[(&str, &str)]| {
            let mut running = RunningDigest::default();
            records.iter().for_each(|(key, text)| running.add(key, text));
            running
        };
        let of = |records: &[(&str, &str)], list| digest_of_lists(digest(records).finish(list).into_iter().collect());
        let first = of(&[("a", "bc"), ("d", "e")], "runs");
        assert_eq!(first, of(&[("a", "bc"), ("d", "e")], "runs"));
        assert_eq!(first.records(), 2);
        let others = [of(&[("ab", "c"), ("d", "e")], "runs"), of(&[("d", "e"), ("a", "bc")], "runs")];
        assert!(others.iter().all(|other| other.digest != first.digest));
        assert_ne!(of(&[("a", "bc"), ("d", "e")], "events").digest, first.digest);
        assert_ne!(of(&[("a", "bc")], "runs").digest, first.digest);
        assert_eq!(digest(&[]).finish("runs"), None);
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
