//! Translates the options into those of each backend; one file for each backend.

pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod sqlite_mailbox;
