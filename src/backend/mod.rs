//! The backends: from the options to each one's own, one file each.

pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod nats;
pub(crate) mod postgres;
pub(crate) mod sqlite_mailbox;
