//! The state of one thread id: what is remembered of the id, and the thread, if it exists.

mod contents;
mod derived;
mod queue;

use store_core::thread::IdRecord;

pub(crate) use self::{
    contents::{Contents, Logged},
    derived::Derived,
    queue::Queue,
};

/// The state of one thread id. It outlives its thread as long as the id is remembered (TH-25, CM-32).
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) id: IdRecord,
    pub(crate) contents: Option<Box<Contents>>,
}

impl Slot {
    /// Whether the slot can be dropped without losing data.
    pub(crate) fn is_blank(&self) -> bool {
        self.contents.is_none() && self.id == IdRecord::default()
    }

    /// The generation of the thread, for data bound to it. 0 without a thread.
    pub(crate) fn generation(&self) -> u64 {
        self.contents.as_ref().map_or(0, |contents| contents.thread.thread.generation())
    }
}
