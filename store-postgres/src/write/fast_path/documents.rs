//! The part of a commit that writes documents and events in topics.

use store_core::Result;

use super::{NumberedBatches, Statement};
use crate::write::arguments::json_of_rows;

/// Adds the part. The SQL function `write_documents` is called if the thread was written. If a document is not as
/// expected, the whole statement fails. A statement for several batches has no such part.
pub(super) fn add_part(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    let [(_, batch)] = &*batches.items else { return Ok(()) };
    if batch.documents.is_empty() {
        return Ok(());
    }
    let key = batch.documents.key.as_ref();
    let arguments = [
        to.add_argument(json_of_rows(batch.documents.documents.iter())?)?,
        to.add_argument(json_of_rows(batch.documents.topic_events.iter())?)?,
        to.add_argument(key.map(|row| row.key.as_str()))?,
        to.add_argument(key.map(|row| row.record.as_str()))?,
    ];
    let call = format!("$schema$.write_documents($1, updated.log, {})", arguments.join(", "));
    to.part("documents", &format!("SELECT {call} AS revision FROM updated"));
    to.add_answer(
        "SELECT 'documents', 0, clock.now, documents.revision, NULL, NULL, NULL FROM clock, documents".to_owned(),
    );
    Ok(())
}
