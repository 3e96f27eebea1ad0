//! Durable state for AI agents in PostgreSQL: every contract, for any number of processes.
//!
//! # Layout
//! - `config`, `url`: what a store is opened with
//! - `store`: opening, tenants, closing
//! - `threads`, `log`, `runs`, `pending`, `events`, `outbox`, `mailbox`, `commit`: the contracts of a tenant
//! - `facts`: what is known of a thread, and what the rules of core ask for; `decide`: rules, loading and writing in
//!   turn
//! - `write`: what was decided, in one statement
//! - `news`, `live`: telling who waits, also in other processes
//! - `tenant`: calls in tasks of their own, and what is known between them
//! - `inspect`: checks, and repairs of what can be derived
//! - `db`, `clock`, `sql`, `schema`: connections, the time of the server, statements, migrations
//! - `pages`, `error`: columns of answers, and the errors of the contracts for what the driver and the server say
//! - `testing`: schemas for tests

mod clock;
mod commit;
mod config;
mod db;
mod decide;
mod error;
mod events;
mod facts;
mod inspect;
mod live;
mod log;
mod mailbox;
mod news;
mod outbox;
mod pages;
mod pending;
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
    testing::{BareInserts, TestSchema},
};
