//! Faults on the way to a server, and in the server. `AGENTSTORE_TEST_LENGTH=long` makes these tests longer.

mod cancel;
mod clock;
mod disks;
pub(crate) mod given;
mod kill;
mod migrations;
pub(crate) mod proxy;
mod secrets;
mod settings;
mod silence;
mod tail;
mod tls;
pub(crate) mod unknown;
mod versions;
