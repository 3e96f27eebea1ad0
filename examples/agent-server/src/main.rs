//! A server of agents. Any number of these processes may use one store.
//!
//! The settings are config: if one process changes them, all of them use the new ones at once. The instructions of the
//! agent are definitions in the registry. A run pins what was published when it started, and uses that until it ends,
//! whatever is published meanwhile.
//!
//! # Layout
//! - `settings`: the settings, which follow every change
//! - `agent`: publications, and runs that pin them
//! - `command`: what the user types

#![expect(clippy::print_stdout, reason = "a command line program")]

mod agent;
mod command;
mod settings;

use agentstore::{OpenOptions, TenantId};
use anyhow::Result;
use clap::Parser;
use tokio::runtime::Runtime;

use crate::{
    agent::Agent,
    command::{Command, HELP},
    settings::Settings,
};

/// Serve an agent. Commands are read from standard input; `help` lists them.
#[derive(Debug, Parser)]
struct Args {
    /// The URL of the store
    #[arg(long, env = "AGENTSTORE_URL", hide_env_values = true, default_value = "file:./agentstore-data")]
    store: String,
    /// Only read the store. Of the processes that use one `file:` store, one may write
    #[arg(long)]
    read_only: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    // The settings are followed by OS threads of the runtime, while this OS thread waits for commands.
    let runtime = Runtime::new()?;
    let options = if args.read_only { OpenOptions::new().read_only() } else { OpenOptions::new() };
    let (stores, tenant) = (runtime.block_on(options.open(&args.store))?, TenantId::default_tenant());
    let settings = runtime.block_on(Settings::follow(stores.config(&tenant)?))?;
    let agent = Agent::new(&stores, &tenant)?;
    for line in std::io::stdin().lines() {
        match runtime.block_on(execute(&line?, &agent, &settings)) {
            Ok(answer) => println!("{answer}"),
            // An error ends the command, not the server.
            Err(error) => println!("error: {error:#}"),
        }
    }
    Ok(runtime.block_on(stores.close())?)
}

async fn execute(line: &str, agent: &Agent, settings: &Settings) -> Result<String> {
    match Command::parse(line)? {
        Command::Help => Ok(HELP.to_owned()),
        Command::Set(key, value) => settings.set(key, value).await,
        Command::Publish(id, instructions) => agent.publish(id, instructions).await,
        Command::Rollback(snapshot, id) => agent.roll_back(snapshot, id).await,
        Command::Start(run, question) => agent.start(run, question).await,
        Command::Show(run) => agent.show(run, settings).await,
        Command::Finish(run) => agent.finish(run, settings).await,
    }
}
