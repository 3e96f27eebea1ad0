//! What goes wrong below a mailbox, and beside it. `AGENTSTORE_TEST_LENGTH=long` makes all of it longer.

mod checkpoints;
mod children;
mod damage;
mod disks;
mod dropped;
mod files;
mod given;
mod kill;
mod log;
mod processes;
mod syncs;
mod together;
mod wake;
