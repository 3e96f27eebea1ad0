//! Tests of the command as people and scripts use it: the real binary, its exit codes, documents and errors.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot continue panics at that line"
)]

mod advice;
mod audit;
mod bench;
mod blobs;
mod branches;
mod buffer;
mod compositions;
mod config;
mod conformance;
mod copies;
mod damage;
mod definitions_page;
mod demo;
mod doctor;
mod documents;
mod effects;
mod evaluations;
mod events;
mod exports;
mod helpers;
mod imports;
mod long_threads;
mod mailbox;
mod maintain;
mod matrix;
mod nats;
mod outbox;
mod pending;
mod postgres;
mod profiles;
mod providers;
mod registry;
mod removal;
mod threads;
mod traces;
mod usage;
mod work;
