//! The end of a round: its groups are committed as one batch of the journal, and shown.

use store_core::{Error, Result};

use super::{Failed, How, Round};
use crate::{error, journal::Batch, staged::Staged, table};

impl Round<'_> {
    /// Commits the batch, and shows it.
    pub(super) fn write(mut self) -> std::result::Result<(), Failed> {
        if self.broken {
            return Err(Failed::new(&Error::unavailable("the index cannot be read")));
        }
        self.leave();
        let written = if self.is_clean() { self.show_alone() } else { self.commit_batch() };
        written.map_err(|error| Failed::new(&error))
    }

    /// What became due is in the index alone. It becomes so again where there is no space to say it.
    fn show_alone(mut self) -> Result<()> {
        let staged = std::mem::replace(&mut self.staged, Staged::new(&self.shared.index));
        let fits = !staged.is_empty() && (self.how == How::Frees || self.shared.check_space(0).is_ok());
        self.remembered.recent = if fits { self.shared.show(staged)? } else { staged.into_recent() };
        Ok(())
    }

    fn commit_batch(mut self) -> Result<()> {
        let bytes = store_core::length(self.tails.len());
        let written = self.written();
        let Self { shared, remembered, mut staged, tails, dropped, how, is_durable, .. } = self;
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
        dropped.iter().for_each(|log| batch.drop_log(log));
        let number = shared.journal()?.commit(batch).map_err(|failure| shared.journal_failed(failure))?;
        written.values().for_each(|loaded| shared.mark_checked(loaded.name.number));
        staged.put(table::fact("batch"), number.to_be_bytes());
        // The groups are in the logs: whatever happens now, the next opening shows them.
        let shown = shared.show(staged).map_err(|error| Error::commit_unknown(None).with_source(error))?;
        remembered.recent = shown;
        remembered.take(written);
        Ok(())
    }
}
