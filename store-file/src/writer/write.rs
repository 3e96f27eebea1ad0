//! The end of a round: its groups are committed as one batch of the journal, and shown.

use std::sync::Arc;

use store_core::{Error, Result};

use super::{Failed, How, Round, round::PoisonOnPanic};
use crate::{
    error,
    journal::Batch,
    planned::{Outcome, Planned},
    shared::Shared,
    staged::Staged,
    table,
};

/// What a round came to.
pub(super) enum End {
    /// It has to be committed.
    Planned(Arc<Planned>),
    /// It wrote to no log. Rows of the index that need no log show already.
    NothingToCommit,
    /// It has to be planned again: what it was planned over was not committed, or its batch gets another number.
    Outdated,
}

impl Round<'_> {
    /// Ends the plan. The caller has the right to commit, so the round before has ended.
    pub(super) fn end(mut self) -> std::result::Result<End, Failed> {
        if !self.remembered.settle() {
            return Ok(End::Outdated);
        }
        if self.broken {
            // No caller gets this text: a single request has its own error, and several requests are planned again.
            return Err(Failed::new(&Error::unavailable("the index cannot be read")));
        }
        self.put_numbers().map_err(|error| Failed::new(&error))?;
        self.leave();
        let end = if self.is_clean() { self.show_alone() } else { self.plan_batch() };
        end.map_err(|error| Failed::new(&error))
    }

    /// A round that writes to no log may have made dispatches available: rows that need no log. Where there is no space
    /// for them, they are dropped, and the next call makes them again.
    fn show_alone(mut self) -> Result<End> {
        let staged = std::mem::replace(&mut self.staged, Staged::new(&self.shared.index));
        let fits = !staged.is_empty() && (self.how == How::Frees || self.shared.check_space(0).is_ok());
        self.remembered.recent = if fits { self.shared.show(staged)? } else { staged.into_recent() };
        Ok(End::NothingToCommit)
    }

    fn plan_batch(mut self) -> Result<End> {
        // If the journal has to change halves, it does so here and not in the commit. So the commit gives the batch
        // this number.
        let next = self.shared.next_batch()?;
        if self.number.is_some_and(|number| number != next) {
            // The journal changed halves, and used this number for a control batch.
            self.remembered.recent = self.staged.into_recent();
            return Ok(End::Outdated);
        }
        let bytes = store_core::length(self.tails.len());
        // `end` has called `leave`, so this has all logs of the round. It needs the tails, which become a part of the
        // batch below.
        let written = self.written();
        let Self { shared, remembered, mut staged, tails, dropped, overwritten, how, is_durable, .. } = self;
        let mut batch = Batch::default();
        let room = match how {
            How::AsAsked => shared.check_space(bytes),
            How::Settles | How::Frees => {
                batch.use_reserve();
                shared.make_room(bytes)
            }
        };
        room.map_err(|source| error::io("the journal", source))?;
        if is_durable {
            batch.make_durable();
        }
        tails.into_batch(&mut batch);
        overwritten.into_iter().for_each(|(log, offset, bytes)| batch.overwrite(&log, offset, bytes));
        dropped.iter().for_each(|log| batch.drop_log(log));
        staged.put(table::fact("batch"), next.to_be_bytes());
        shared.number(&mut staged);
        let (changes, scopes, recent) = staged.into_parts();
        // Readers must not compare these logs with the index: while the round is committed, the files are longer.
        written.values().for_each(|loaded| shared.mark_checked(loaded.name.number));
        let planned = Arc::new(Planned::new((changes, scopes), (batch, next)));
        remembered.take(&planned, recent, written);
        Ok(End::Planned(planned))
    }
}

/// Commits a planned round, and shows it. The caller has the right to commit.
pub(super) fn commit(shared: &Shared, planned: &Planned) -> std::result::Result<(), Failed> {
    let _poison = PoisonOnPanic(shared);
    let committed = write(shared, planned);
    planned.end(if committed.is_ok() { Outcome::Committed } else { Outcome::Failed });
    committed.map_err(|error| Failed::new(&error))
}

fn write(shared: &Shared, planned: &Planned) -> Result<()> {
    shared.journal()?.commit(&planned.batch).map_err(|failure| shared.journal_failed(failure))?;
    // The groups are in the logs, and readers in other processes may see them: the commit has published the batch. If
    // the index fails now, the next opening shows them.
    let shown = shared.show_changes(&planned.changes, &planned.scopes);
    shown.map_err(|error| Error::commit_unknown(None).with_source(error))
}
