//! Mailboxes, written as they were in another store.

use store_core::{Result, ThreadId, codec::Codec, mailbox::StoredDispatch, records::StoredRecord};

use super::{
    restore::{Arguments, Step, millis, saturating},
    statements::Restored,
};
use crate::write::rows::{EndedRow, QueuedRow};

impl Step<'_, '_> {
    pub(super) async fn mailbox(&mut self, records: &[StoredRecord]) -> Result<()> {
        let threads: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Mailbox { thread, record } => Some((thread, &**record)),
                _ => None,
            })
            .collect();
        if !threads.is_empty() {
            let rows = || threads.iter().map(|row| row.1);
            let running = || rows().map(|record| record.running.as_ref());
            let arguments = self
                .arguments()?
                .column(threads.iter().map(|row| row.0.to_string()))?
                .column(rows().map(|record| saturating(record.revision)))?
                .column(rows().map(|record| saturating(record.epoch)))?
                .column(rows().map(|record| millis(record.free_since)))?
                .column(running().map(|running| running.map(|running| running.dispatch.to_string())))?
                .column(running().map(|running| running.map(|running| millis(running.lease_until))))?
                .column(rows().map(Codec::encode))?;
            self.run(Restored::Mailboxes, arguments).await?;
            return self.turn(threads.iter().map(|row| row.0)).await;
        }
        let interrupts: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Interrupt { thread, interrupt } => Some((thread, &**interrupt)),
                _ => None,
            })
            .collect();
        if !interrupts.is_empty() {
            let rows = || interrupts.iter();
            let arguments = self
                .arguments()?
                .column(rows().map(|row| row.0.to_string()))?
                .column(rows().map(|row| saturating(row.1.epoch)))?
                .column(rows().map(|row| millis(row.1.at)))?
                .column(rows().map(|row| saturating(row.1.holds)))?
                .column(rows().map(|row| row.1.encode()))?;
            return self.run(Restored::Interrupts, arguments).await.map(drop);
        }
        let dispatches: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Dispatch(stored) => Some(&**stored),
                _ => None,
            })
            .collect();
        self.dispatches(&dispatches).await
    }

    async fn dispatches(&mut self, dispatches: &[&StoredDispatch]) -> Result<()> {
        let rows = || dispatches.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.body.id.to_string()))?
            .column(rows().map(|row| row.body.thread.to_string()))?
            .column(rows().map(|row| millis(row.body.created_at)))?
            .column(rows().map(|row| saturating(row.body.number)))?
            .column(rows().map(|row| row.body.dedupe_key.as_ref().map(ToString::to_string)))?
            .column(rows().map(|row| row.state.status.name()))?
            .column(rows().map(|row| saturating(row.state.epoch)))?
            .column(rows().map(|row| row.body.encode()))?
            .column(rows().map(|row| row.state.encode()))?;
        self.run(Restored::Dispatches, arguments).await?;
        let ended: Vec<_> = rows().filter_map(|row| EndedRow::of(row)).collect();
        if !ended.is_empty() {
            let arguments = self
                .arguments()?
                .column(ended.iter().map(|row| row.status))?
                .column(ended.iter().map(|row| millis(row.created_at)))?
                .column(ended.iter().map(|row| row.id.clone()))?
                .column(ended.iter().map(|row| millis(row.finished_at)))?;
            self.run(Restored::Ended, arguments).await?;
        }
        let queued: Vec<_> = rows().filter_map(|row| QueuedRow::of(row)).collect();
        if queued.is_empty() {
            return Ok(());
        }
        let rows = || queued.iter();
        let place = |arguments: Arguments| {
            arguments
                .column(rows().map(|row| row.thread.clone()))?
                .column(rows().map(|row| saturating(row.at.epoch)))?
                .column(rows().map(|row| i16::from(row.at.priority)))?
                .column(rows().map(|row| saturating(row.at.number)))
        };
        self.run(Restored::RemovedQueued, place(self.arguments()?)?).await?;
        let arguments = place(self.arguments()?)?
            .column(rows().map(|row| millis(row.at.due)))?
            .column(rows().map(|row| millis(row.created_at)))?
            .column(rows().map(|row| row.id.clone()))?;
        self.run(Restored::Queued, arguments).await?;
        let mut threads: Vec<&ThreadId> = dispatches.iter().map(|row| &row.body.thread).collect();
        threads.sort();
        threads.dedup();
        self.turn(threads.into_iter()).await
    }

    /// Makes available what of threads is due, and puts the threads where they stand then.
    async fn turn<'t>(&mut self, threads: impl Iterator<Item = &'t ThreadId>) -> Result<()> {
        let arguments = self.arguments()?.column(threads.map(ToString::to_string))?;
        self.run(Restored::Turned, arguments).await.map(drop)
    }
}
