//! Faults of disks, files and processes. `AGENTSTORE_TEST_LENGTH=long` makes these tests longer.

mod checkpoints;
mod child_process;
mod concurrent_calls;
mod damage;
mod disks;
mod dropped_calls;
mod files;
mod helpers;
mod kill;
mod processes;
mod syncs;
mod wake;
mod wal;
