//! A chat with a model in the terminal. The conversation is a thread in a store. It can be continued after a crash,
//! with another model, and from an earlier point.
//!
//! # Layout
//! - `chat`: the conversation: its commits, and how it continues after a crash
//! - `received`: what was received of an answer, and how it goes on after it broke off
//! - `api`, `event`, `model`: requests to the HTTP APIs, their streamed replies, and which model answers
//! - `tool`: the tool that models can call
//! - `command`, `terminal`, `tree`: what the user types and sees

mod api;
mod chat;
mod command;
mod event;
mod model;
mod received;
mod terminal;
mod tool;
mod tree;

use std::time::Duration;

use agentstore::{Json, ThreadId};
use anyhow::Result;
use clap::Parser;
use providers::Provider;

use crate::{
    chat::Chat,
    command::{Command, HELP},
    model::Model,
    terminal::{print_line, read_line},
};

/// Chat with a model. The conversation is kept in a store.
///
/// Keys are taken from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY. Other servers are set with
/// ANTHROPIC_BASE_URL, OPENAI_BASE_URL and GEMINI_BASE_URL.
#[derive(Debug, Parser)]
struct Args {
    /// The URL of the store
    #[arg(long, env = "AGENTSTORE_URL", hide_env_values = true, default_value = "file:./agentstore-data")]
    store: String,
    /// The id of the thread
    #[arg(long, default_value = "chat")]
    thread: ThreadId,
    /// The API of the model: anthropic, openai-chat, openai-responses or google. By default the last one of the thread
    #[arg(long, value_name = "API", requires = "model")]
    provider: Option<Provider>,
    /// The name of the model, as the API expects it
    #[arg(long, value_name = "NAME", requires = "provider")]
    model: Option<String>,
    /// Further fields of each request, for example limits or thinking: a JSON object
    #[arg(long, value_name = "JSON", requires = "provider", value_parser = Json::parse)]
    settings: Option<Json>,
    /// The least time between two checkpoints of an answer that is received, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    checkpoint_millis: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let stores = agentstore::open(&args.store).await?;
    let checkpoint_interval = Duration::from_millis(args.checkpoint_millis);
    let mut chat = Chat::open(stores.clone(), args.thread, checkpoint_interval).await?;
    if let (Some(provider), Some(name)) = (args.provider, args.model) {
        chat.set_model(Model::new(provider, name, args.settings)?).await?;
    }
    chat.print_status().await?;
    report(chat.go_on().await)?;
    while let Some(line) = read_line().await? {
        let command = Command::parse(&line);
        if matches!(command, Ok(Command::Quit)) {
            break;
        }
        let result = match command {
            Ok(command) => execute(command, &mut chat).await,
            Err(error) => Err(error),
        };
        report(result)?;
    }
    Ok(stores.close().await?)
}

/// Prints an error. It ends the command, not the chat.
fn report(result: Result<()>) -> Result<()> {
    if let Err(error) = result {
        print_line(&format!("error: {error:#}"))?;
    }
    Ok(())
}

async fn execute(command: Command, chat: &mut Chat) -> Result<()> {
    match command {
        Command::Empty | Command::Quit => Ok(()),
        Command::Help => Ok(print_line(HELP)?),
        Command::Ask(text) => chat.ask(text).await,
        Command::Retry => chat.retry().await,
        Command::Branch(text) => chat.ask_instead(text).await,
        Command::Rewind(seq) => chat.rewind(seq).await,
        Command::Tree => tree::print(chat.threads(), chat.thread()).await,
        Command::SetModel(model) => {
            chat.set_model(model).await?;
            chat.print_status().await
        }
    }
}
