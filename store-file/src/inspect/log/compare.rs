//! Compares what a log gives with what the index says, and writes it again.

use store_core::{Result, RunId, inspect::FindingKind};

use super::{super::events, Check, replay::Replayed};
use crate::{
    codec::Rows,
    decoded::remove_run,
    fold::{self, Owner},
    index::{Direction, Key, Pair},
    staged::Staged,
    table,
};

impl Check<'_> {
    /// Compares what the log gives with what the index says; `true` if there is a difference.
    pub(super) fn compare(&mut self, replayed: &Replayed) -> Result<bool> {
        let rebuilt = &replayed.index;
        let snapshot = self.shared.index.snapshot();
        let mut different = None;
        for pair in rebuilt.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            if is_shared(&key) {
                continue;
            }
            let stored = snapshot.get(&key)?;
            if table::read_log(&key).is_none() && stored.as_deref() != Some(value.as_slice()) {
                different = Some(key);
                break;
            }
        }
        for (key, _) in self.stored()? {
            if rebuilt.get(&key)?.is_none() {
                different = different.or(Some(key));
            }
        }
        different = different.or(events::missing(rebuilt, &snapshot, &self.owner.tenant)?);
        different = different.or(replayed.outbox.differs(self.shared, &self.owner)?);
        let mark = table::log_mailbox(self.owner.log).into_bytes();
        if rebuilt.get(&mark)?.is_some() && snapshot.get(&mark)?.is_none() {
            different = different.or(Some(mark));
        }
        let Some(key) = different else { return Ok(false) };
        if self.part.findings.is_empty() {
            let detail = format!("it does not agree with the log about {}", table::describe(&key));
            self.find(FindingKind::StaleIndex, "index", detail);
        }
        Ok(true)
    }

    /// Everything that stands in the index under the log's number.
    fn stored(&self) -> Result<Vec<Pair>> {
        let snapshot = self.shared.index.snapshot();
        let mut pairs = Vec::new();
        for sort in table::OF_LOG {
            let prefix = table::of_log(sort, self.owner.log);
            for pair in snapshot.prefix(prefix.as_bytes(), Direction::Forward) {
                pairs.push(pair?);
            }
        }
        Ok(pairs)
    }

    /// Writes what the log gives into the index.
    pub(super) fn write(&self, replayed: &Replayed) -> Result<()> {
        let Owner { tenant, thread, log, .. } = &self.owner;
        let index = &self.shared.index;
        let mut staged = Staged::new(index);
        for (key, _) in self.stored()? {
            if let Some(run) = table::read_log_run(&key) {
                remove_run(&mut staged, (*log, tenant), &RunId::new(run)?)?;
            }
            staged.delete(Key::from_bytes(&key));
        }
        if let Some(row) = index.thread_row(tenant, thread)?.filter(|_| self.owner.generation > 0) {
            fold::remove_thread(&mut staged, tenant, &row.stored);
        }
        for pair in replayed.index.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            if !is_shared(&key) {
                staged.put(Key::from_bytes(&key), value);
            }
        }
        events::restore(&replayed.index, &mut staged, tenant)?;
        replayed.outbox.restore(self.shared, &mut staged, &self.owner)?;
        if replayed.index.get(table::log_mailbox(*log).as_bytes())?.is_some() {
            staged.put(table::log_mailbox(*log), []);
        }
        fold::put_log(&mut staged, &self.owner, replayed.end);
        staged.touch(*log);
        self.shared.show(staged).map(drop)
    }
}

/// Whether several logs may say something of what a key stands for.
fn is_shared(key: &[u8]) -> bool {
    table::is_of_events(key) || table::is_of_outbox(key) || table::is_of_mailbox(key) || table::is_of_documents(key)
}
