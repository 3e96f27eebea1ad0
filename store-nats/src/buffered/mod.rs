//! A write buffer in front of a store with threads. A write is acknowledged when it is durable in a stream, and is
//! applied to that store a little later (docs/decisions/0032-write-buffer.md).
//!
//! # Layout
//! - `config`: the settings
//! - `store`: opening, tenants, closing
//! - `message`, `stream`: the stream of deltas: its messages, following it, writing to it
//! - `state`, `quarantine`: what a node knows from the stream, and of what could not be applied
//! - `quarantined_writes`: looking at the quarantine, and retrying or discarding by hand
//! - `decide`: decides a write and writes the decision
//! - `shared`: what all tenants share; applies deltas to the inner store
//! - `tenant`: runs calls in tasks of their own, and what reads wait for
//! - `health`: the lag of the buffer, and the state of its servers
//! - `threads`, `admin`, `commits`, `pending`, `events`, `outbox`, `documents`: the contracts of a tenant

mod admin;
mod commits;
mod config;
mod decide;
mod documents;
mod events;
mod health;
mod message;
mod outbox;
mod pending;
mod quarantine;
mod quarantined_writes;
mod shared;
mod state;
mod store;
mod stream;
mod tenant;
mod threads;

pub use self::{
    config::{BufferConfig, BufferReads, DEFAULT_BUFFER_PREFIX},
    quarantined_writes::QuarantinedWrite,
    store::{BufferStatus, Buffered},
};
