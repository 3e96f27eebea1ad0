//! Faults of servers, of their disks, and of the connections to them. `AGENTSTORE_TEST_LENGTH=long` makes these tests
//! longer.

mod disks;
mod given;
mod kill;
mod late;
mod limits;
mod lines;
mod network;
mod reads;
mod syncs;
