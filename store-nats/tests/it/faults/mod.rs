//! What goes wrong with servers, their disks, and the lines to them. `AGENTSTORE_TEST_LENGTH=long`
//! makes all of it longer.

mod disks;
mod given;
mod kill;
mod late;
mod limits;
mod lines;
mod network;
mod reads;
mod syncs;
