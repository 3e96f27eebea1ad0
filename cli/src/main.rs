//! The `agentstore` command: reads and writes stores, imports and exports sessions, verifies and repairs.

mod args;
mod change_args;
mod child;
mod command;
mod context_diff;
mod document_arg;
mod entry_ref;
mod failure;
mod guard_args;
mod json_merge;
mod json_text;
mod list;
mod message;
mod model_args;
mod open_calls_arg;
mod output;
mod pages;
mod progress;
mod prompt;
mod read_stream;
mod replaced_files;
mod session;
mod sibling_dir;
mod signals;
mod text;
mod tree;
mod warnings;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Cli, command::Command, failure::Failure, output::Output};

// The import of a large file allocates and frees tables of many sizes. The allocator of glibc does not return the holes
// between them to the system. `.cargo/config.toml` has the settings of this one.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::report_parser_result(&error),
    };
    let (json, only_prints) = (cli.global.json, cli.command.only_prints());
    match run_cli(cli, only_prints) {
        Ok(code) => code,
        Err(failure) => failure.report(json, only_prints),
    }
}

fn run_cli(cli: Cli, only_prints: bool) -> Result<ExitCode, Failure> {
    cli.global.check_urls().map_err(Failure::Usage)?;
    // `supervise` shares its standard error with the command that it runs. A warning would appear among the errors of
    // that command, which the worker records.
    if !matches!(cli.command, Command::Supervise(_)) {
        warnings::install(&cli.global);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("the runtime cannot be started", error))?;
    let mut out = Output::new(cli.global.json);
    if !only_prints {
        out.continue_without_reader();
    }
    let outcome = runtime.block_on(command::run(cli, &mut out));
    // An error of the command is more important than an error of writing its output.
    let finish_result = out.finish();
    outcome.and_then(|code| finish_result.map(|()| code))
}
