//! The plan that writes a record of a mailbox as it was in another store (VF-6).

use super::StoredRecord;
use crate::{
    error::Result,
    mailbox::{MailboxPlan, MailboxView},
};

/// Returns the plan that writes a record of a mailbox unchanged; none for a record of another kind.
///
/// The record of the thread comes before its interrupts and dispatches, which do not change it.
///
/// # Errors
/// Any error of the view.
pub fn mailbox_plan(view: &(impl MailboxView + ?Sized), record: &StoredRecord) -> Result<Option<MailboxPlan>> {
    let thread = match record {
        StoredRecord::Mailbox { thread, .. } | StoredRecord::Interrupt { thread, .. } => thread,
        StoredRecord::Dispatch(stored) => &stored.body.thread,
        _ => return Ok(None),
    };
    let mailbox = match record {
        StoredRecord::Mailbox { record, .. } => (**record).clone(),
        _ => view.mailbox(thread)?.unwrap_or_default(),
    };
    let mut plan = MailboxPlan::new(thread.clone(), mailbox);
    match record {
        StoredRecord::Interrupt { interrupt, .. } => {
            plan.interrupts.insert(interrupt.epoch, Some((**interrupt).clone()));
        }
        StoredRecord::Dispatch(stored) => plan.dispatches.push((**stored).clone()),
        _ => {}
    }
    Ok(Some(plan))
}
