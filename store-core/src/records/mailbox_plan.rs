//! The plan that writes a record of a mailbox as it was in another store (VF-6).

use super::StoredRecord;
use crate::{
    error::Result,
    mailbox::{MailboxDecision, MailboxPlan, MailboxView},
};

/// Decides about a record of a mailbox that is restored: it is written unchanged, unless the mailbox has it already. A
/// record of another kind changes nothing.
///
/// # Errors
/// Any error of the view.
pub fn restore_to_mailbox(view: &(impl MailboxView + ?Sized), record: &StoredRecord) -> Result<MailboxDecision<()>> {
    let is_known = match record {
        StoredRecord::Mailbox { thread, record } => view.mailbox(thread)?.as_ref() == Some(&**record),
        StoredRecord::Interrupt { thread, interrupt } => {
            view.interrupt(thread, interrupt.epoch)?.as_ref() == Some(&**interrupt)
        }
        StoredRecord::Dispatch(stored) => view.dispatch(stored.id())?.as_ref() == Some(&**stored),
        _ => true,
    };
    let plan = if is_known { None } else { mailbox_plan(view, record)? };
    Ok(MailboxDecision { plan: plan.map(Box::new), answer: Ok(()) })
}

/// Returns the plan that writes a record of a mailbox unchanged; none for a record of another kind.
///
/// The record of the thread comes before its interrupts and dispatches, which do not change it.
///
/// # Errors
/// Any error of the view.
pub fn mailbox_plan(view: &(impl MailboxView + ?Sized), record: &StoredRecord) -> Result<Option<MailboxPlan>> {
    let Some(thread) = record.mailbox_thread() else { return Ok(None) };
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
