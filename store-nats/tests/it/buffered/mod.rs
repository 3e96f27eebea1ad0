//! The write buffer: the suite through it, and what it promises in addition.

mod conformance;
mod faults;
mod fixture;
mod lost_answers;
mod nodes;
