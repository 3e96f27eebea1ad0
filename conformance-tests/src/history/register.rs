//! Describes registers: simple objects for tests of the checker.

use serde::{Deserialize, Serialize};

use super::check::Spec;

/// Describes registers that contain one number each, initially 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers;

/// An operation on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegisterOp {
    /// The number of the register.
    pub register: u8,
    /// What the operation does.
    pub act: RegisterAct,
}

/// What an operation does with its register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegisterAct {
    /// Reads the register.
    Read,
    /// Writes a number into the register.
    Write(u8),
    /// Writes the second number into the register if it contains the first.
    CompareAndSet(u8, u8),
}

/// What an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegisterAnswer {
    /// The number that the register contains.
    Value(u8),
    /// The number was written.
    Written,
    /// Whether the register contained the expected number. Only then was the new one written.
    Set(bool),
}

impl Registers {
    /// Returns the answer of an operation on a register that contains `state`, and the number that the register
    /// contains afterwards.
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

    fn state_after(&self, state: &u8, op: &RegisterOp, answer: Option<&RegisterAnswer>) -> Option<u8> {
        let (expected_answer, after) = Self::apply(*state, op.act);
        answer.is_none_or(|answer| *answer == expected_answer).then_some(after)
    }

    fn has_no_effect(&self, _op: &RegisterOp, answer: &RegisterAnswer) -> bool {
        // This leaves out a write of the number that the register already contains, because that write has an effect at
        // other positions in the order.
        matches!(answer, RegisterAnswer::Value(_) | RegisterAnswer::Set(false))
    }
}
