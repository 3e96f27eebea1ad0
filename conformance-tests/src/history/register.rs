//! The register: what every checker is tried with.

use serde::{Deserialize, Serialize};

use super::check::Spec;

/// Registers that hold a number each, 0 at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers;

/// What is done with a register, and with which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegisterOp {
    /// Its number.
    pub register: u8,
    /// What is done.
    pub act: RegisterAct,
}

/// What is done with a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegisterAct {
    /// Read it.
    Read,
    /// Put a number into it.
    Write(u8),
    /// Put the second number into it if it holds the first.
    CompareAndSet(u8, u8),
}

/// What a register returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegisterAnswer {
    /// What it holds.
    Value(u8),
    /// Written.
    Written,
    /// Whether it held what was expected, and was written.
    Set(bool),
}

impl Registers {
    /// What a register that holds `state` does: its answer, and what it holds then.
    #[must_use]
    pub const fn apply(state: u8, act: RegisterAct) -> (RegisterAnswer, u8) {
        match act {
            RegisterAct::Read => (RegisterAnswer::Value(state), state),
            RegisterAct::Write(value) => (RegisterAnswer::Written, value),
            RegisterAct::CompareAndSet(old, new) if old == state => (RegisterAnswer::Set(true), new),
            RegisterAct::CompareAndSet(..) => (RegisterAnswer::Set(false), state),
        }
    }
}

impl Spec for Registers {
    type Key = u8;
    type State = u8;
    type Op = RegisterOp;
    type Answer = RegisterAnswer;

    fn key(&self, op: &RegisterOp) -> u8 {
        op.register
    }

    fn initial(&self) -> u8 {
        0
    }

    fn step(&self, state: &u8, op: &RegisterOp, answer: Option<&RegisterAnswer>) -> Option<u8> {
        let (given, after) = Self::apply(*state, op.act);
        answer.is_none_or(|answer| *answer == given).then_some(after)
    }

    fn is_read(&self, _op: &RegisterOp, answer: &RegisterAnswer) -> bool {
        // A write of what is there already is none: behind another write it has an effect.
        matches!(answer, RegisterAnswer::Value(_) | RegisterAnswer::Set(false))
    }
}
