//! Faults on the way to a server, and in the server. `AGENTSTORE_TEST_LENGTH=long` makes these tests longer.

mod blobs;
mod clock;
mod disks;
mod dropped_calls;
mod effects;
pub(crate) mod helpers;
mod kill;
mod migrations;
pub(crate) mod proxy;
mod secrets;
mod silence;
mod slow_writers;
mod tls;
pub(crate) mod unknown_outcome;
mod unsafe_settings;
mod version_conflicts;
