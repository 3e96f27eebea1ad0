//! A write buffer in front of a store: what its parts have in common that need no stream and no server.
//!
//! A write that a buffer acknowledged is a [`Delta`]: the records that it changes. Until the store behind the buffer
//! has applied it, an [`Overlay`] lays its records over those of that store, and rules decide over an [`OverlayView`].
//! The store behind, the inner store, implements [`BufferTarget`].

mod codec;
mod delta;
mod join;
mod keys;
mod overlay;
mod target;
#[cfg(test)]
mod tests;
mod thread_overlay;
mod unread_store;
mod view;

pub use self::{
    delta::{Delta, ThreadDeletion},
    join::{ApplyStep, JoinedPlan, join_deltas},
    keys::{
        DeltaKeys, key_of_thread, keys_of_append, keys_of_commit, keys_of_deletion, keys_of_documents, keys_of_thread,
        tenant_key,
    },
    overlay::Overlay,
    target::{
        AppliedPosition, BufferTarget, DecideOverView, DeltaBatch, QuarantinedDelta, ReadDelta, is_refusal_for_good,
    },
    unread_store::{StoreConstants, UnreadStore},
    view::OverlayView,
};
