//! The parts that write documents and events in topics. A statement for several batches has no such parts.

use store_core::Result;

use super::{NumberedBatches, Statement};
use crate::{
    sql::DOCUMENT_ARGUMENTS,
    write::{Batch, arguments::add_documents},
};

/// Adds what takes the place of a written thread if the batch writes to no thread: the part `updated` has one row if
/// the batch may be written. If the documents belong to a thread, the row has its log, and the thread is locked so that
/// it is not deleted meanwhile.
pub(super) fn add_permission(batch: &Batch, to: &mut Statement) -> Result<()> {
    let log = match &batch.documents.thread {
        None => "NULL::bigint",
        Some(thread) => {
            let thread = to.add_argument(thread.as_str())?;
            let lock = format!("SELECT x.log FROM $schema$.thread x WHERE x.tenant = $1 AND x.id = {thread} FOR SHARE");
            to.part("locked", &lock);
            "(SELECT locked.log FROM locked)"
        }
    };
    let permission = format!("SELECT 0 AS n, 0::bigint AS stamp, {log} AS log WHERE $schema$.can_write($1, $sent$)");
    to.part("updated", &permission);
    Ok(())
}

/// Adds the part that calls the SQL function `write_documents` if the thread was written. If a document is not as
/// expected, the whole statement fails.
pub(super) fn add_part(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    let [(_, batch)] = &*batches.items else { return Ok(()) };
    if batch.documents.is_empty() {
        return Ok(());
    }
    let arguments = to.add_arguments(DOCUMENT_ARGUMENTS, |to| add_documents(to, &batch.documents))?;
    let call = format!("$schema$.write_documents($1, updated.log, {arguments})");
    to.part("documents", &format!("SELECT {call} AS revision FROM updated"));
    to.add_answer(
        "SELECT 'documents', 0, clock.now, documents.revision, NULL, NULL, NULL FROM clock, documents".to_owned(),
    );
    Ok(())
}
