//! Faults of disks, files and processes. `AGENTSTORE_TEST_LENGTH=long` makes these tests longer.

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
