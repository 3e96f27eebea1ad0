//! `cargo xtask servers`: real servers for development and benchmarks.

use std::io::Read;

use anyhow::Result;
use test_servers::{NATS_URL, Nats, POOLER_URL, PgBouncer, Postgres, URL};

/// Puts a pooler in front of a server, starts a NATS beside it, says where they are, and stops them when standard input
/// ends or Ctrl-C is pressed.
pub(crate) fn run(postgres: Postgres) -> Result<()> {
    let pooler = PgBouncer::start(&postgres)?;
    let nats = Nats::start("")?;
    println!("{URL}={}\n{POOLER_URL}={}\n{NATS_URL}={}", postgres.url(), pooler.url(), nats.url());
    println!("\nThey stop with Ctrl-C, or when standard input ends.");
    wait();
    drop(pooler);
    nats.stop().and(postgres.stop())
}

/// Ctrl-C reaches all processes of the terminal: the servers end by it, too.
fn wait() {
    let _ended = std::io::stdin().read_to_end(&mut Vec::new());
}
