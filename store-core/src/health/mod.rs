//! The state of an opened store: versions, settings, clock, free space and lag, with advice (CP-6).
//!
//! A backend reports facts and judges its own settings ([`StoreHealth`]). The rules that hold for every store are in
//! [`check_health`] and [`check_lag`].

mod record;
mod rules;

pub use self::{
    record::{ClockReading, Fact, Finding, Lag, Severity, StoreHealth},
    rules::{HealthLimits, check_health, check_lag},
};
