//! The state of one thread id: what is remembered of the id, and the thread, if there is one.

mod contents;
mod derived;
mod queue;

use store_core::thread::IdRecord;

pub(crate) use self::{
    contents::{Contents, Logged},
    derived::Derived,
    queue::Queue,
};

/// What is behind one thread id. It outlives its thread as long as the id is remembered (TH-25, CM-32).
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) id: IdRecord,
    pub(crate) contents: Option<Box<Contents>>,
}

impl Slot {
    /// Whether nothing is lost if it is dropped.
    pub(crate) fn is_blank(&self) -> bool {
        self.contents.is_none() && self.id == IdRecord::default()
    }

    /// The generation of the thread, for what is bound to it; 0 without one.
    pub(crate) fn generation(&self) -> u64 {
        self.contents.as_ref().map_or(0, |contents| contents.thread.thread.generation())
    }
}
