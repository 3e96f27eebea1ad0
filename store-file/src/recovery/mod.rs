//! The logs and the index of a root as a crash left them, brought to where the journal is.

mod index;
mod logs;

pub(crate) use self::{
    index::{catch_up, check_journal, last_batch, persist, position, read_logs, remember},
    logs::{Found, journal_of, keep_bytes, lost, note_damage},
};
