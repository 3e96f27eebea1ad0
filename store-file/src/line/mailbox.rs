//! The lines of the mailbox.

use store_core::{
    DispatchId, Json, ThreadId,
    codec::{DecodeError, Fields},
    mailbox::{DispatchBody, DispatchState, MailboxPlan, StoredInterrupt, StoredMailboxThread},
};

use super::{Line, tagged};

/// How a dispatch stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DispatchLine {
    pub(crate) id: DispatchId,
    /// Its number in its thread: an id may be used again after a purge.
    pub(crate) number: u64,
    pub(crate) state: DispatchState,
}

/// What a mailbox knows of one interrupt of a thread; none if it is not needed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterruptLine {
    pub(crate) thread: ThreadId,
    pub(crate) epoch: u64,
    pub(crate) interrupt: Option<StoredInterrupt>,
}

/// The record of a thread's mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MailboxLine {
    pub(crate) thread: ThreadId,
    pub(crate) mailbox: StoredMailboxThread,
}

/// The lines of a plan. The record of the thread comes last: it finds the thread its places among the others.
pub(crate) fn mailbox_lines(plan: MailboxPlan) -> Vec<Line> {
    let MailboxPlan { thread, mailbox, dispatches, purged, interrupts, .. } = plan;
    let dispatches = dispatches.into_iter().map(|stored| match stored.is_new() {
        true => Line::Dispatch(Box::new((*stored.body).clone())),
        false => Line::DispatchState(Box::new(DispatchLine {
            id: stored.id().clone(),
            number: stored.body.number,
            state: stored.state,
        })),
    });
    let of = thread.clone();
    let interrupts = interrupts.into_iter().map(move |(epoch, interrupt)| {
        Line::Interrupt(Box::new(InterruptLine { thread: of.clone(), epoch, interrupt }))
    });
    let record = Line::Mailbox(Box::new(MailboxLine { thread, mailbox }));
    dispatches.chain(purged.map(Line::DispatchGone)).chain(interrupts).chain([record]).collect()
}

pub(super) fn dispatch_state(line: &DispatchLine) -> String {
    tagged("dispatch_state", |object| {
        object.field("id", &line.id).field("number", &line.number).field("state", &line.state);
    })
}

pub(super) fn interrupt(line: &InterruptLine) -> String {
    tagged("interrupt", |object| {
        object.field("thread", &line.thread).field("epoch", &line.epoch);
        object.maybe("interrupt", line.interrupt.as_ref());
    })
}

pub(super) fn mailbox(line: &MailboxLine) -> String {
    tagged("mailbox", |object| {
        object.field("thread", &line.thread).field("mailbox", &line.mailbox);
    })
}

/// Reads a line of the mailbox of this kind; none if it is of another one.
pub(super) fn decode(kind: &str, fields: &mut Fields<'_>) -> Result<Option<Line>, DecodeError> {
    Ok(Some(match kind {
        "mailbox_made" => Line::MailboxMade(fields.take("claims")?),
        "dispatch" => Line::Dispatch(Box::new(fields.take("dispatch")?)),
        "dispatch_state" => Line::DispatchState(Box::new(DispatchLine {
            id: fields.take("id")?,
            number: fields.take("number")?,
            state: fields.take("state")?,
        })),
        "dispatch_gone" => Line::DispatchGone(fields.take("id")?),
        "interrupt" => Line::Interrupt(Box::new(InterruptLine {
            thread: fields.take("thread")?,
            epoch: fields.take("epoch")?,
            interrupt: fields.maybe("interrupt")?,
        })),
        "mailbox" => {
            Line::Mailbox(Box::new(MailboxLine { thread: fields.take("thread")?, mailbox: fields.take("mailbox")? }))
        }
        _ => return Ok(None),
    }))
}

/// The payload of a dispatch.
pub(crate) fn decode_dispatch_payload(raw: &str) -> Result<Option<Json>, DecodeError> {
    let body: DispatchBody = Fields::parse(raw)?.take("dispatch")?;
    Ok(body.payload)
}
