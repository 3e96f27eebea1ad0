//! A server that sends the answers of runs to browsers as server-sent events. Whatever breaks, the client or the
//! server, a client that reconnects gets each event once, byte for byte.
//!
//! Each event is a record of the replay log before it is sent. A client that reconnects names the last event that it
//! has received in full (`Last-Event-ID`), and gets what comes after it. A server that was killed continues the run
//! after the last record.
//!
//! # Layout
//! - `wire`: the protocol: what an event looks like on the wire
//! - `agent`: starts runs, and answers them
//! - `http`: the two requests of the server

#![expect(clippy::print_stdout, reason = "a command line program")]

mod agent;
mod http;
mod wire;

use std::{sync::Arc, time::Duration};

use agentstore::{OpenOptions, TenantId, Worker, WorkerOptions};
use anyhow::Result;
use clap::Parser;
use tokio::net::TcpListener;

use crate::agent::Agent;

/// Serve runs over server-sent events.
#[derive(Debug, Parser)]
struct Args {
    /// The URL of the store
    #[arg(long, env = "AGENTSTORE_URL", hide_env_values = true, default_value = "file:./agentstore-data")]
    store: String,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: String,
    /// How long the agent takes for each word, in milliseconds
    #[arg(long, default_value_t = 200)]
    word_millis: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let (stores, tenant) = (OpenOptions::new().open(&args.store).await?, TenantId::default_tenant());
    let agent = Arc::new(Agent::new(&stores, &tenant, Duration::from_millis(args.word_millis))?);
    // After a crash, the run of a dispatch goes on when the lease has expired.
    let options = WorkerOptions::default().with_lease(Duration::from_secs(1));
    let handler = {
        let agent = Arc::clone(&agent);
        move |work| {
            let agent = Arc::clone(&agent);
            async move { agent.answer(work).await }
        }
    };
    let worker = Worker::with_options(&stores, &tenant, handler, options)?.start()?;
    let listener = TcpListener::bind(&args.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    tokio::select! {
        served = axum::serve(listener, http::router(agent)) => served?,
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    worker.stop().await?;
    Ok(stores.close().await?)
}
