//! `payment-worker`: takes orders, charges their cards with a worker, and serves as the payment server.
//!
//! # Layout
//! - `server`: the payment server
//! - the library: orders, the handler, and requests to a payment server

#![expect(clippy::print_stdout, reason = "a command line program")]

mod server;

use std::time::Duration;

use agentstore::{Backoff, Effect, OpenOptions, Stores, TenantId, Work, Worker, WorkerOptions};
use anyhow::Result;
use clap::{Parser, Subcommand};
use payment_worker_example::{Order, Payments, pay, pay_without_effects, place_order, reconcile};
use tokio::net::TcpListener;

use crate::server::Behaviour;

/// Charge cards once, whatever is killed.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve payments, and count them
    Serve {
        /// The address to listen on
        #[arg(long, default_value = "127.0.0.1:3001")]
        listen: String,
        #[command(flatten)]
        behaviour: Behaviour,
    },
    /// Print how often each order was charged
    Charges {
        /// The address of the payment server
        #[arg(long, default_value = "127.0.0.1:3001")]
        server: String,
    },
    /// Place an order
    Order {
        #[command(flatten)]
        store: StoreArgs,
        /// The id of the order
        id: String,
        /// The price
        cents: u64,
        /// The card
        #[arg(long, default_value = "card 1")]
        card: String,
    },
    /// Pay the orders
    Work {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        options: WorkArgs,
    },
}

#[derive(Debug, clap::Args)]
struct StoreArgs {
    /// The URL of the store
    #[arg(long, env = "AGENTSTORE_URL", hide_env_values = true, default_value = "file:./agentstore-data")]
    store: String,
}

#[derive(Debug, clap::Args)]
struct WorkArgs {
    /// The address of the payment server
    #[arg(long, default_value = "127.0.0.1:3001")]
    server: String,
    /// Charge without effects, which charges cards twice
    #[arg(long)]
    without_effects: bool,
    /// End when there is nothing to do
    #[arg(long)]
    until_idle: bool,
    /// The lease of a claim, in milliseconds: after a kill, the order of a dispatch is continued when it has expired
    #[arg(long, default_value_t = 1_000)]
    lease_millis: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Args::parse().command {
        Command::Serve { listen, behaviour } => {
            let listener = TcpListener::bind(&listen).await?;
            println!("listening on {}", listener.local_addr()?);
            tokio::select! {
                served = server::serve(listener, behaviour) => served?,
                stopped = tokio::signal::ctrl_c() => stopped?,
            }
            Ok(())
        }
        Command::Charges { server } => {
            for (order, count) in Payments::new(server).list().await? {
                println!("{order}: {count}");
            }
            Ok(())
        }
        Command::Order { store, id, cents, card } => {
            let stores = OpenOptions::new().open(&store.store).await?;
            place_order(&stores, &Order { id, card, cents }).await?;
            Ok(stores.close().await?)
        }
        Command::Work { store, options } => {
            let stores = OpenOptions::new().open(&store.store).await?;
            work(&stores, options).await?;
            Ok(stores.close().await?)
        }
    }
}

async fn work(stores: &Stores, args: WorkArgs) -> Result<()> {
    let (payments, without_effects) = (Payments::new(args.server), args.without_effects);
    let handler = {
        let payments = payments.clone();
        move |work: Work| {
            let payments = payments.clone();
            async move {
                let dispatch = work.dispatch().id.clone();
                println!("{dispatch}: attempt {}", work.attempt());
                let done =
                    if without_effects { pay_without_effects(work, payments).await } else { pay(work, payments).await };
                match &done {
                    Ok(_) => println!("{dispatch}: finished"),
                    Err(failure) => println!("{dispatch}: {}", failure.error()),
                }
                done
            }
        }
    };
    let options = WorkerOptions::default()
        .with_lease(Duration::from_millis(args.lease_millis))
        .with_backoff(Backoff::new(Duration::from_millis(20), Duration::from_secs(1)));
    let worker = Worker::with_options(stores, &TenantId::default_tenant(), handler, options)?
        .with_reconciler("payment".parse()?, move |effect: Effect| reconcile(effect, payments.clone()));
    println!("ready");
    if args.until_idle {
        worker.run_until_idle().await?;
        return Ok(());
    }
    let worker = worker.start()?;
    tokio::signal::ctrl_c().await?;
    worker.stop().await?;
    Ok(())
}
