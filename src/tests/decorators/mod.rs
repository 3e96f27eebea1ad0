//! Tests of decorators: the whole suite over memory through each of them, and what each does around a call (CP-5).

mod fixture;
mod limited;
mod planted;
mod retried;
mod suite;
#[cfg(feature = "worker")]
mod traced;
