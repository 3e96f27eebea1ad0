//! `cargo xtask servers`: real servers for development and benchmarks.

use std::io::Read;

use anyhow::Result;
use test_servers::{
    NATS_CLUSTER_URL_VARIABLE, NATS_URL_VARIABLE, Nats, POOLER_URL_VARIABLE, POSTGRES_URL_VARIABLE, PgBouncer, Postgres,
};

/// Starts a pooler in front of this server, a NATS server and a NATS cluster of three, and prints their URLs. Stops
/// all of them when standard input ends or Ctrl-C is pressed.
pub(crate) fn run(postgres: Postgres) -> Result<()> {
    let pooler = PgBouncer::start(&postgres)?;
    let (nats, cluster) = (Nats::start("")?, Nats::start_cluster("")?);
    println!("{POSTGRES_URL_VARIABLE}={}\n{POOLER_URL_VARIABLE}={}", postgres.url(), pooler.url());
    println!("{NATS_URL_VARIABLE}={}\n{NATS_CLUSTER_URL_VARIABLE}={}", nats.url(), Nats::url_of(&cluster));
    println!("\nThe servers stop on Ctrl-C, or when standard input ends.");
    wait_for_end_of_input();
    drop(pooler);
    cluster.into_iter().chain([nats]).try_for_each(Nats::stop).and(postgres.stop())
}

/// Waits until standard input ends. On Ctrl-C, the terminal also ends the servers, because it signals all processes.
fn wait_for_end_of_input() {
    let _ended = std::io::stdin().read_to_end(&mut Vec::new());
}
