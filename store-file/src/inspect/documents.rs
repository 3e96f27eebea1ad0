//! What the index says of the documents in the log of a collection, compared with the log: while a log is rewritten, a
//! newer log has what was written since and what was moved.

use store_core::{CollectionId, Result, TenantId};

use crate::{
    codec::{CollectionRow, DocumentRow, Rows, damaged},
    fold::Owner,
    index::{Direction, Index, Key, Snapshot},
    staged::Staged,
    table,
};

/// Documents by their keys in the index.
type Documents = Vec<(Key, DocumentRow)>;

/// The key of something about documents that the index lacks, or has otherwise.
pub(super) fn differs(rebuilt: &Index, stored: &Snapshot, owner: &Owner) -> Result<Option<Vec<u8>>> {
    let tenant = &owner.tenant;
    let mut bytes = 0;
    for (collection, given) in collections(rebuilt, tenant)? {
        let has = stored.collection_row(tenant, &collection)?;
        if has.is_none_or(|has| has != given && has.rewrites <= given.rewrites) {
            return Ok(Some(table::collection(tenant, &collection).into_bytes()));
        }
        let is_current = has == Some(given);
        for (key, row) in documents(&rebuilt.snapshot(), tenant, &collection)? {
            let fits = match stored.document_row(&key)? {
                Some(found) if found.log == owner.log => found == row,
                Some(found) => !is_current && found.state.revision >= row.state.revision,
                None => !is_current,
            };
            if !fits {
                return Ok(Some(key.into_bytes()));
            }
        }
        for (key, row) in documents(stored, tenant, &collection)? {
            if row.log == owner.log {
                bytes += u64::from(row.span.len);
                if rebuilt.document_row(&key)?.is_none() {
                    return Ok(Some(key.into_bytes()));
                }
            }
        }
    }
    let key = table::document_bytes(owner.log);
    Ok((stored.document_bytes(owner.log)? != bytes).then(|| key.into_bytes()))
}

/// Writes what the log of a collection gives into the index.
pub(super) fn restore(rebuilt: &Index, staged: &mut Staged<'_>, stored: &Snapshot, owner: &Owner) -> Result<()> {
    let tenant = &owner.tenant;
    let mut bytes = 0;
    for (collection, given) in collections(rebuilt, tenant)? {
        let newer = stored.collection_row(tenant, &collection)?.filter(|has| has.rewrites > given.rewrites);
        if newer.is_none() {
            staged.put(table::collection(tenant, &collection), given.encode());
        }
        for (key, row) in documents(stored, tenant, &collection)? {
            if row.log == owner.log && rebuilt.document_row(&key)?.is_none() {
                staged.delete(key);
            }
        }
        for (key, row) in documents(&rebuilt.snapshot(), tenant, &collection)? {
            // Of a log that is being rewritten, what the index lacks may have been deleted since.
            let is_own = match stored.document_row(&key)? {
                Some(found) => found.log == owner.log || newer.is_none(),
                None => newer.is_none(),
            };
            if is_own {
                bytes += u64::from(row.span.len);
                staged.put(key, row.encode());
            }
        }
    }
    if bytes > 0 || stored.document_bytes(owner.log)? > 0 {
        staged.put(table::document_bytes(owner.log), bytes.to_be_bytes());
    }
    Ok(())
}

fn collections(rebuilt: &Index, tenant: &TenantId) -> Result<Vec<(CollectionId, CollectionRow)>> {
    let mut found = Vec::new();
    for pair in rebuilt.snapshot().prefix(table::collections(tenant).as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let collection = table::read_collection(&key).ok_or_else(|| damaged("collection"))?;
        let row = CollectionRow::decode(&value).ok_or_else(|| damaged("collection"))?;
        found.push((CollectionId::new(collection)?, row));
    }
    Ok(found)
}

fn documents(rows: &Snapshot, tenant: &TenantId, collection: &CollectionId) -> Result<Documents> {
    let list = table::documents(tenant).text(collection.as_str());
    let pairs = rows.prefix(list.as_bytes(), Direction::Forward);
    let row = |value: &[u8]| DocumentRow::decode(value).ok_or_else(|| damaged("document"));
    pairs.map(|pair| pair.and_then(|(key, value)| Ok((Key::from_bytes(&key), row(&value)?)))).collect()
}
