//! Translates the options of the facade into those of the backends. Each file is for one backend.

pub(crate) mod buffer;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod sqlite_mailbox;
