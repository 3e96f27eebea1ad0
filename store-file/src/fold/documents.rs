//! What lines about documents change in the index.
//!
//! Documents of a thread stand in the log of the thread, under the number of that log. Documents of the tenant stand in
//! a log for each collection. While that log is rewritten, there are two: the newer one has what was written since, and
//! what was moved. Opening reads the older one first.

use store_core::{DocumentRef, Result, document::DocumentState};

use super::Owner;
use crate::{
    codec::{CollectionRow, DocumentRow, Rows},
    line::{CollectionLine, Line},
    log::Span,
    staged::Staged,
    table,
};

/// A log of fewer bytes is not rewritten.
const LEAST_BYTES: u64 = 64 << 10;

/// Whether the log of a collection is to be rewritten: it ends at `end`, and so many bytes of it are documents that
/// exist (DO-10).
pub(crate) const fn is_rewrite_due(end: u64, live: u64) -> bool {
    end > LEAST_BYTES && live < end / 2
}

/// Works a line about documents into the index.
pub(crate) fn line(staged: &mut Staged<'_>, owner: &Owner, line: (&Line, Span)) -> Result<()> {
    let (line, span) = line;
    match line {
        Line::Collection(line) => collection(staged, owner, line),
        Line::Document(document) => put(staged, owner, (&document.to_ref(), document.state()), span),
        Line::DamagedDocument(line) => put(staged, owner, (&line.document, line.state), span),
        Line::DocumentGone(document) => gone(staged, owner, document),
        _ => Ok(()),
    }
}

fn collection(staged: &mut Staged<'_>, owner: &Owner, line: &CollectionLine) -> Result<()> {
    let CollectionLine { collection, rewrites } = line;
    let former = staged.collection_row(&owner.tenant, collection)?;
    if former.is_none_or(|former| former.rewrites <= *rewrites) {
        let row = CollectionRow { log: owner.log, rewrites: *rewrites };
        staged.put(table::collection(&owner.tenant, collection), row.encode());
    }
    Ok(())
}

fn put(staged: &mut Staged<'_>, owner: &Owner, what: (&DocumentRef, DocumentState), span: Span) -> Result<()> {
    let (document, state) = what;
    let key = table::document(&owner.tenant, document, owner.log);
    let former = staged.document_row(&key)?;
    if former.is_some_and(|former| former.state.revision > state.revision) {
        return Ok(());
    }
    let row = DocumentRow { log: owner.log, span, state };
    count(staged, document.scope.thread().is_some(), (former, Some(&row)))?;
    staged.put(key, row.encode());
    Ok(())
}

fn gone(staged: &mut Staged<'_>, owner: &Owner, document: &DocumentRef) -> Result<()> {
    let key = table::document(&owner.tenant, document, owner.log);
    let former = staged.document_row(&key)?;
    count(staged, document.scope.thread().is_some(), (former, None))?;
    staged.delete(key);
    Ok(())
}

/// Counts the bytes of documents that exist, in the logs of collections.
fn count(staged: &mut Staged<'_>, is_of_thread: bool, rows: (Option<DocumentRow>, Option<&DocumentRow>)) -> Result<()> {
    if is_of_thread {
        return Ok(());
    }
    let (former, new) = rows;
    if let Some(row) = former {
        let bytes = staged.document_bytes(row.log)?.saturating_sub(u64::from(row.span.len));
        staged.put(table::document_bytes(row.log), bytes.to_be_bytes());
    }
    if let Some(row) = new {
        let bytes = staged.document_bytes(row.log)? + u64::from(row.span.len);
        staged.put(table::document_bytes(row.log), bytes.to_be_bytes());
    }
    Ok(())
}
