//! The state of one thread id: the record that the store keeps of the id, and the thread, if it exists.

mod contents;
mod derived;
mod queue;

use store_core::thread::ThreadIdRecord;

pub(crate) use self::{
    contents::{LogEntry, ThreadContents},
    derived::DerivedLogData,
    queue::InputQueue,
};

/// The state of one thread id. After a deletion of the thread it exists until the id is forgotten (TH-25, CM-32).
#[derive(Debug, Default)]
pub(crate) struct ThreadSlot {
    /// What the store remembers about the id.
    pub(crate) id_record: ThreadIdRecord,
    /// The thread; absent if it does not exist.
    pub(crate) contents: Option<Box<ThreadContents>>,
}

impl ThreadSlot {
    /// Returns whether the slot can be dropped without losing data.
    pub(crate) fn is_blank(&self) -> bool {
        self.contents.is_none() && self.id_record == ThreadIdRecord::default()
    }

    /// Returns the generation of the thread, to which cursors are bound, or 0 if there is no thread.
    pub(crate) fn generation(&self) -> u64 {
        self.contents.as_ref().map_or(0, |contents| contents.thread.thread.generation())
    }
}
