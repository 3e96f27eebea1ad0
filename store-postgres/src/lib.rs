//! Durable state for AI agents in PostgreSQL. Implements every contract, for any number of processes.
//!
//! # Layout
//! - `config`, `url`: the options with which a store is opened
//! - `store`: opening and closing a store, and its tenants
//! - `threads`, `log`, `runs`, `pending`, `events`, `outbox`, `documents`, `mailbox`, `commit`: the contracts of a
//!   tenant
//! - `cache`: the records that the process keeps of a thread, in the form in which the rules of core read them
//! - `decide`: the loop that runs a rule, loads the records that are missing and writes the result
//! - `write`: writing the result of a decision in one statement
//! - `notifications`, `live`: notifying waiting callers, including those in other processes
//! - `tenant`: the state of a tenant, and running calls in tasks of their own
//! - `inspect`: checks, and repairs of derived data
//! - `health`: versions, settings of the server, its clock, poolers
//! - `db`, `clock`, `sql`, `schema`: connections, the time of the server, statements, migrations
//! - `columns`, `error`: reading the columns of answers, and translating errors of the driver and the server
//! - `testing`: schemas for tests

mod buffer;
mod cache;
mod clock;
mod columns;
mod commit;
mod config;
mod db;
mod decide;
mod documents;
mod error;
mod events;
mod health;
mod inspect;
mod live;
mod log;
mod mailbox;
mod notifications;
mod objects;
mod outbox;
mod pending;
mod records;
mod runs;
mod schema;
mod sql;
mod store;
mod tenant;
mod testing;
mod threads;
mod url;
mod write;

pub use self::{
    config::{Migrate, Pooler, PostgresConfig},
    schema::Migrated,
    store::PostgresStore,
    testing::{BaselineInserts, TestSchema},
};
