//! Histories of many calls at once, and what checks them.
//!
//! - [`Recorder`], [`Operation`]: what was called when, and what it answered
//! - [`Spec`], [`check()`]: what an object does when calls come one after the other, and whether a history of it is
//!   linearizable; [`Registers`] and [`GuardedLogs`] are such objects

mod check;
mod log;
mod record;
mod register;

pub use self::{
    check::{Checked, Spec, Violation, check},
    log::{GuardedLogs, LogAct, LogAnswer, LogOp},
    record::{Invocation, Operation, Recorder, from_lines, to_lines},
    register::{RegisterAct, RegisterAnswer, RegisterOp, Registers},
};
