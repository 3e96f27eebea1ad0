//! The end of a round: its groups are appended to the log, made durable, and shown.

use store_core::{Error, Result};

use super::{Failed, How, Round};
use crate::{
    config::Durability,
    fold::{self, Owner, Told},
    line::ThreadHeader,
    log::{AppendError, Batch, LogWriter},
    shared::{Loaded, Shared, guard},
    staged::Staged,
};

impl Round<'_> {
    pub(super) fn make_log(&self, owner: &Owner) -> Result<LogWriter> {
        let Owner { tenant, thread, generation, .. } = owner.clone();
        self.shared.ensure_folder(&tenant)?;
        let path = Shared::log_path(&tenant, &thread, generation)?;
        let header = ThreadHeader { tenant, thread, generation, at: self.shared.time.now() };
        LogWriter::create(&*self.shared.vfs, &path, &header.encode()).map_err(|e| self.shared.append_failed(e, &path))
    }

    /// Writes the batch, makes it durable as the store was asked to, and shows it.
    pub(super) fn write(mut self, slot: &mut Option<Loaded>) -> std::result::Result<(), Failed> {
        let batch = self.batch.take().filter(|batch| !batch.is_empty() && !self.broken);
        let fresh = self.fresh.take();
        let result = match (batch, self.log) {
            (Some(batch), Some(log)) => {
                let Loaded { told: before, log: former } = slot.take().unwrap_or_default();
                let is_new = fresh.is_some();
                let writer = fresh.or(former.map(|(_, writer)| writer)).ok_or_else(Error::closed);
                writer.and_then(|writer| self.append(&batch, log, (writer, is_new), &before))
            }
            _ if self.broken => self.abandon(fresh.as_ref()).and(Err(Error::unavailable("the index cannot be read"))),
            _ => {
                // What became due is in the index alone. It becomes so again where there is no space to say it.
                let staged = std::mem::replace(&mut self.staged, Staged::new(&self.shared.index));
                if !staged.is_empty() && self.shared.check_space(0).is_ok() {
                    self.shared.show(staged).map_err(|error| Failed::new(&error))?;
                }
                if let (Some(loaded), true) = (slot.as_mut(), self.loaded) {
                    loaded.told.id.clone_from(&self.told.id);
                }
                return self.abandon(fresh.as_ref()).map_err(|error| Failed::new(&error));
            }
        };
        *slot = None;
        let loaded = result.map_err(|error| Failed::new(&error))?;
        *slot = Some(loaded);
        Ok(())
    }

    /// Removes a log that was made for a group that was refused.
    fn abandon(&self, fresh: Option<&LogWriter>) -> Result<()> {
        let Some(path) = fresh.map(LogWriter::path) else { return Ok(()) };
        self.shared.vfs.unlink(path).map_err(|source| self.shared.write_failed(path, source))
    }

    /// Whether its groups are durable before they show.
    pub(super) fn syncs(&self) -> bool {
        matches!(self.how, How::Durable | How::Moves) || self.shared.config.durability == Durability::Sync
    }

    fn append(self, batch: &Batch, log: u64, to: (LogWriter, bool), before: &Told) -> Result<Loaded> {
        let (syncs, (mut writer, is_new)) = (self.syncs(), to);
        let Self { shared, key, mut staged, told, how, .. } = self;
        let bytes = store_core::length(batch.len());
        let room = match how {
            How::Settles | How::Moves => shared.make_room(bytes),
            How::AsAsked | How::Durable => shared.check_space(bytes),
        };
        let appended = match room {
            Ok(()) => writer.append(batch),
            Err(source) => Err(AppendError::Refused(source)),
        };
        if let Err(failed) = appended {
            let error = shared.append_failed(failed, writer.path());
            if is_new && !shared.is_poisoned() {
                // A log without a group is no log: it is made anew when there is space.
                shared.vfs.unlink(writer.path()).map_err(|source| shared.write_failed(writer.path(), source))?;
            }
            return Err(error);
        }
        if syncs {
            writer.sync(&*shared.vfs).map_err(|source| shared.write_failed(writer.path(), source))?;
        } else {
            guard(&shared.dirty).insert(key.clone());
        }
        shared.mark_checked(log);
        let (tenant, thread, part) = key.clone();
        let owner = Owner { tenant, thread, generation: part.generation(&told), log };
        fold::finish(&mut staged, &owner, (before, &told), (writer.position(), writer.synced()));
        // The groups are in the log: whatever happens now, the next opening shows them.
        shared.show(staged).map_err(|error| Error::commit_unknown(None).with_source(error))?;
        Ok(Loaded { told, log: Some((log, writer)) })
    }
}
