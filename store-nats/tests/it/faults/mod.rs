//! Faults of servers, of their disks, and of the connections to them. `AGENTSTORE_TEST_LENGTH=long` makes these tests
//! longer.

mod broken_connections;
mod disks;
mod helpers;
mod kill;
mod late;
mod limits;
pub(crate) mod network;
mod reads;
mod syncs;
