//! The changes of a batch, made in the logs after the batch is in the journal.

use std::{collections::BTreeSet, io};

use super::{
    Inner,
    batch::{Batch, Change},
    writer::{Writer, above},
};
use crate::{
    error,
    vfs::{FilePath, Open},
};

impl Inner {
    /// Refuses a batch for a log that cannot be opened, as long as it can be refused. A log that the batch makes is not
    /// tried, as that would leave an empty file if the batch is refused later.
    pub(super) fn open_logs(&self, batch: &Batch) -> io::Result<()> {
        let mut made = BTreeSet::new();
        for (change, path) in batch.changes() {
            match change {
                Change::Make { log } => drop(made.insert(log)),
                Change::Append { log, .. } | Change::Overwrite { log, .. } if !made.contains(&log) => {
                    drop(self.files.open(path)?)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells readers in other processes that a batch is in all of its logs. They see it from here on; readers of this
    /// process see it later, when the index has it.
    pub(super) fn publish(&self, writer: &mut Writer, number: u64) -> io::Result<()> {
        match self.published.say(number) {
            Err(source) if error::is_full(&source) => {
                writer.reserve.give_up(&*self.vfs)?;
                self.published.say(number)
            }
            said => said,
        }
    }

    /// Makes the changes of a committed batch in the logs.
    pub(super) fn apply(&self, writer: &mut Writer, batch: &Batch) -> io::Result<()> {
        for (change, path) in batch.changes() {
            match self.change(&change, path) {
                // The space was kept for this.
                Err(source) if error::is_full(&source) => {
                    writer.reserve.give_up(&*self.vfs)?;
                    self.change(&change, path)?;
                }
                changed => changed?,
            }
        }
        Ok(())
    }

    fn change(&self, change: &Change<'_>, path: &FilePath) -> io::Result<()> {
        match change {
            Change::Name { .. } => Ok(()),
            Change::Make { .. } => {
                for folder in above(path).iter().rev().skip(1) {
                    match self.vfs.create_dir(folder) {
                        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => return Err(source),
                        _ => {}
                    }
                }
                self.files.forget(path);
                let file = self.vfs.open(path, Open::Create)?;
                if file.len()? > 0 { file.truncate(0) } else { Ok(()) }
            }
            Change::Append { offset, bytes, .. } | Change::Overwrite { offset, bytes, .. } => {
                self.files.open(path)?.write_at(bytes, *offset)
            }
            Change::Drop { .. } => {
                self.files.forget(path);
                match self.vfs.unlink(path) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => Err(source),
                    _ => Ok(()),
                }
            }
        }
    }
}
