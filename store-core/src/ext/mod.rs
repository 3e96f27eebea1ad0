//! Convenience methods for users: extension traits for every store, which call only methods of the contracts.

mod commit;
mod compare;
mod document;
mod interval;
mod log;
mod pending;
mod stream;

pub use self::{
    commit::{CommitCoordinatorExt, Fork, Guard, NewCheckpoint},
    compare::LeafComparison,
    document::DocumentStoreExt,
    log::LogReaderExt,
    pending::{DeliverOrQueue, DeliveredOrQueued, PendingStoreExt},
    stream::EntryStream,
};

#[cfg(test)]
mod tests;
