//! Real servers, disks and processes for tests, benchmarks and development. This crate finds or downloads servers, and
//! starts, kills and stops them.

#![expect(clippy::print_stdout, reason = "downloads of servers are announced")]

mod disk;
mod find;
mod nats;
mod needs;
mod network;
mod pgbouncer;
mod postgres;
mod process;

use std::path::{Path, PathBuf};

pub use self::{
    disk::Disk,
    find::faketime_library,
    nats::{NATS_CLUSTER_URL_VARIABLE, NATS_URL_VARIABLE, Nats},
    needs::{can_fail_syncs, report_not_run},
    network::Network,
    pgbouncer::{POOLER_URL_VARIABLE, PgBouncer},
    postgres::{POSTGRES_URL_VARIABLE, Postgres},
    process::{Process, ProcessWithReader, send_line, wait_for_parent},
};

/// Returns the root folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
