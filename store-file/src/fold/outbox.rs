//! What lines about the outbox change in the index. A row stands in the log of its commit's thread, and what becomes of
//! it in another one: of two records of a row the one with the greater revision counts.

use store_core::{OutboxId, Result, outbox};

use super::Owner;
use crate::{
    codec::{Rows, payload_place},
    line::{Line, OutboxLine},
    log::Span,
    outbox_rows::OutboxTable,
    staged::Staged,
    table,
};

pub(super) fn line(staged: &mut Staged<'_>, owner: &Owner, line: (&Line, Span)) -> Result<()> {
    let (line, span) = line;
    let tenant = &owner.tenant;
    match line {
        Line::Outbox(line) => row(staged, owner, (line, span)),
        // A row that is not there was lost with its commit, or is in a log that cannot be read.
        Line::OutboxState(stored) if staged.outbox_row(tenant, &stored.id)?.is_some() => {
            outbox::put_row(&mut OutboxTable::new(staged, tenant), (**stored).clone())
        }
        Line::OutboxGone(ids) => ids.iter().try_for_each(|id| gone(staged, owner, id)),
        _ => super::mailbox::line(staged, owner, (line, span)),
    }
}

/// A row with its payload. One that a purge moves is in two logs if that was cut short: the last one that is read
/// counts.
fn row(staged: &mut Staged<'_>, owner: &Owner, what: (&OutboxLine, Span)) -> Result<()> {
    let (OutboxLine { stored, .. }, span) = what;
    let Owner { tenant, log, .. } = owner;
    if let Some((former, _)) = staged.outbox_payload(tenant, &stored.id)? {
        staged.delete(table::log_outbox(former).text(stored.id.as_str()));
    }
    staged.put(table::log_outbox(*log).text(stored.id.as_str()), []);
    staged.put(table::outbox_payload(tenant, &stored.id), payload_place(*log, span));
    outbox::put_row(&mut OutboxTable::new(staged, tenant), stored.clone())
}

pub(crate) fn gone(staged: &mut Staged<'_>, owner: &Owner, id: &OutboxId) -> Result<()> {
    if let Some((log, _)) = staged.outbox_payload(&owner.tenant, id)? {
        staged.delete(table::log_outbox(log).text(id.as_str()));
        staged.delete(table::outbox_payload(&owner.tenant, id));
    }
    outbox::remove_row(&mut OutboxTable::new(staged, &owner.tenant), id)
}
