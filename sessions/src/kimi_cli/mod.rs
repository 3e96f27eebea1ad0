//! The format of kimi-cli: a folder with the current context, earlier contexts, the wire file (a record of events), and
//! subagents.
//!
//! ```text
//! context_1 … context_N, context   lines of the conversation; `history` joins these files into one tree
//! wire                             times and failures (see `wire_matches`), and a side entry for each record
//! state.json, other files          a side entry for each file
//! subagents/ID/                    a session of its own, which becomes a child thread
//! ```

mod context_line;
mod contexts;
mod continuation;
mod drafts;
mod encode;
mod folder;
mod history;
mod ids;
mod line;
mod message;
mod parts;
mod session;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod wire;
mod wire_matches;

pub(crate) use self::{folder::is_session_folder, survey::survey};
