//! What becomes of rows of the outbox: claims, settlements, requeueing, purging, and rows that outlive their thread.

use std::collections::BTreeSet;

use store_core::{
    ClaimOutbox, ClaimedOutbox, ExtendOutbox, Json, OutboxId, OutboxStatus, PurgeOutbox, RequeueOutbox, Requeued,
    Result, SettleOutbox, Timestamp, outbox,
};

use super::{
    Answer, Round,
    give_back::{GiveBack, OnTheWay},
};
use crate::{
    codec::Rows,
    line::{self, CommitLine, Line, OutboxLine},
    log::Span,
    outbox_rows::{OutboxTable, Payloads},
    records,
    shared::Shared,
    tails::Tails,
};

/// What the outbox of a tenant is asked for.
#[derive(Debug)]
pub(crate) enum OutboxAsk {
    Claim(ClaimOutbox, GiveBack),
    Extend(ExtendOutbox),
    Settle(Vec<SettleOutbox>),
    Requeue(RequeueOutbox),
    Purge(PurgeOutbox),
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum OutboxAnswer {
    Claimed(OnTheWay<ClaimedOutbox>),
    Extended(Timestamp),
    Settled(Vec<Result<OutboxStatus>>),
    Requeued(Vec<Requeued>),
    Purged(u64),
}

impl OutboxAnswer {
    /// Drops an answer that no caller gets. Its claim is not released.
    pub(super) fn discard(self) {
        if let Self::Claimed(claimed) = self {
            drop(claimed.received());
        }
    }
}

impl Round<'_> {
    /// Changes rows, and writes what became of them.
    pub(super) fn outbox(&mut self, ask: &OutboxAsk, now: Timestamp) -> Result<Answer> {
        let setting = self.setting(now);
        let payloads = RoundPayloads { shared: self.shared, tails: &self.tails };
        let mut table = OutboxTable::of(&mut self.staged, &self.key.0, &payloads);
        let answer = match ask {
            OutboxAsk::Claim(request, back) => outbox::claim(&mut table, request, setting)
                .map(|claimed| OutboxAnswer::Claimed(OnTheWay::new(claimed, back.clone()))),
            OutboxAsk::Extend(request) => outbox::extend(&mut table, request, setting).map(OutboxAnswer::Extended),
            OutboxAsk::Settle(requests) => {
                outbox::settle(&mut table, requests.clone(), setting).map(OutboxAnswer::Settled)
            }
            OutboxAsk::Requeue(request) => {
                outbox::requeue(&mut table, request.clone(), setting).map(OutboxAnswer::Requeued)
            }
            OutboxAsk::Purge(request) => outbox::purge(&mut table, request).map(OutboxAnswer::Purged),
        };
        let changed = table.into_changed();
        if changed.is_empty() {
            return Ok(Answer::Outbox(Box::new(answer?)));
        }
        // A change that does not come into the log must not show.
        let put = answer.and_then(|answer| self.put_changed(changed, now).map(|()| answer));
        self.broken |= put.is_err();
        Ok(Answer::Outbox(Box::new(put?)))
    }

    /// Writes what became of rows.
    fn put_changed(&mut self, changed: BTreeSet<OutboxId>, now: Timestamp) -> Result<()> {
        let (mut lines, mut gone) = (Vec::new(), Vec::new());
        for id in changed {
            match self.staged.outbox_row(&self.key.0, &id)? {
                Some(row) => lines.push(Line::OutboxState(Box::new(row))),
                None => gone.push(id),
            }
        }
        if !gone.is_empty() {
            lines.push(Line::OutboxGone(gone));
        }
        self.put_rows(lines, now)
    }

    fn put_rows(&mut self, lines: Vec<Line>, now: Timestamp) -> Result<()> {
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        self.group(0, lines, &texts, CommitLine { time: now, updated_at: now, ..CommitLine::default() })
    }

    /// Writes rows whose payloads are in a log that is purged, `from`, to the log of the outbox. The caller has entered
    /// the log of the outbox.
    pub(crate) fn move_rows(&mut self, from: u64, ids: &[OutboxId]) -> Result<()> {
        let lines = self.moved(from, ids)?;
        if lines.is_empty() { Ok(()) } else { self.put_rows(lines, self.shared.time.now()) }
    }

    /// The lines of rows whose payloads are in a log that is purged.
    fn moved(&self, log: u64, ids: &[OutboxId]) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for id in ids {
            let place = self.staged.outbox_payload(&self.key.0, id)?.filter(|(own, _)| *own == log);
            let (Some((log, span)), Some(stored)) = (place, self.staged.outbox_row(&self.key.0, id)?) else { continue };
            let payload = records::read(self.shared, log, span, line::decode_payload)?;
            lines.push(Line::Outbox(Box::new(OutboxLine { stored, payload })));
        }
        Ok(lines)
    }
}

/// The payloads of rows in the logs, and of those that are not written yet.
struct RoundPayloads<'a> {
    shared: &'a Shared,
    tails: &'a Tails,
}

impl Payloads for RoundPayloads<'_> {
    fn incarnation(&self) -> u64 {
        self.shared.meta.incarnation()
    }

    fn payload(&self, at: (u64, Span)) -> Result<Json> {
        records::read_beside(self.shared, self.tails, at, line::decode_payload)
    }
}
