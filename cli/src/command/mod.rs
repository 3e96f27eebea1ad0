//! The commands, one file each, and how each of them uses the store.

mod append;
mod audit;
mod bench;
mod blobs;
mod buffer;
mod check;
mod checkpoint;
mod compact;
mod compare;
mod config;
mod conformance;
mod context;
mod continue_in;
mod convert;
mod copy;
mod dataset;
mod delete;
mod demo;
mod doctor;
mod effects;
mod erase;
mod eval;
mod events;
mod export;
mod fork;
mod import;
mod label;
mod mailbox;
mod maintain;
mod migrate;
mod outbox;
mod pending;
mod profile;
mod registry;
mod repair;
mod rewind;
mod runs;
mod show;
mod step;
mod supervise;
mod tenants;
mod threads;
mod traces;
mod tree;
mod verify;

use std::process::ExitCode;

use agentstore::{Error, Receipt};
use clap::Subcommand;

use crate::{
    args::{Cli, GlobalArgs},
    failure::{FAILURE_EXIT_CODE, Failure, Result},
    output::Output,
    session::{Access, Session},
    text,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    #[command(flatten)]
    Session(Box<SessionCommand>),
    Migrate(migrate::Args),
    Copy(copy::Args),
    Buffer(buffer::Args),
    Conformance(conformance::Args),
    Bench(bench::Args),
    #[command(hide = true)]
    Supervise(supervise::Args),
}

/// The commands that work on one [`Session`], which is opened before the command runs.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    Import(import::Args),
    Export(export::Args),
    ContinueIn(continue_in::Args),
    Threads(threads::Args),
    Show(show::Args),
    Tree(tree::Args),
    Context(context::Args),
    Check(check::Args),
    Convert(convert::Args),
    Compact(compact::Args),
    Step(step::Args),
    Compare(compare::Args),
    Runs(runs::Args),
    Events(events::Args),
    Append(append::Args),
    Pending(pending::Args),
    Outbox(outbox::Args),
    Mailbox(mailbox::Args),
    Config(config::Args),
    Profile(profile::Args),
    Registry(registry::Args),
    Audit(audit::Args),
    Effects(effects::Args),
    Blobs(blobs::Args),
    Traces(traces::Args),
    Dataset(dataset::Args),
    Eval(eval::Args),
    Erase(erase::Args),
    Maintain(maintain::Args),
    Fork(fork::Args),
    Checkpoint(checkpoint::Args),
    Rewind(rewind::Args),
    Label(label::Args),
    Delete(delete::Args),
    Tenants(tenants::Args),
    Verify(verify::Args),
    Doctor(doctor::Args),
    Repair(repair::Args),
    #[command(hide = true)]
    DemoWriter(demo::writer::Args),
}

/// The advice about a tenant that is the target of a copy that has not ended.
const FINISH_COPY: &str = "repeat `agentstore copy` with the same stores: it continues; or delete the tenant here with \
    `agentstore tenants delete`, and begin again";

/// How a command ended, unless it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did everything and found nothing wrong.
    Success,
    /// It found something wrong, or left something undone, and reported it.
    Problem,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Success => Self::SUCCESS,
            Ending::Problem => Self::from(FAILURE_EXIT_CODE),
        }
    }
}

impl Command {
    /// Returns an error if a global option is given that this command does not support.
    fn check_global_options(&self, global: &GlobalArgs) -> Result<(), String> {
        match self {
            Self::Session(_) | Self::Demo(_) | Self::Supervise(_) => Ok(()),
            Self::Buffer(_) => global.check_no_other_parts("buffer"),
            Self::Migrate(_) => global.check_one_store("migrate"),
            Self::Copy(_) => global.check_one_store("copy"),
            Self::Conformance(_) => global.check_one_store("conformance"),
            Self::Bench(_) => global.check_one_store("bench"),
        }
    }

    /// Returns whether the output is the only purpose of the command. Such a command ends early if its reader closes
    /// the output.
    pub(crate) const fn only_prints(&self) -> bool {
        match self {
            Self::Session(command) => {
                matches!(command.access(), Access::Read | Access::ReadOrEmpty)
                    && !matches!(**command, SessionCommand::Verify(_) | SessionCommand::Doctor(_))
            }
            Self::Demo(_)
            | Self::Migrate(_)
            | Self::Copy(_)
            | Self::Buffer(_)
            | Self::Conformance(_)
            | Self::Bench(_)
            | Self::Supervise(_) => false,
        }
    }
}

impl SessionCommand {
    /// Returns how the command uses the store.
    const fn access(&self) -> Access {
        match self {
            Self::Threads(_)
            | Self::Show(_)
            | Self::Tree(_)
            | Self::Context(_)
            | Self::Check(_)
            | Self::Compare(_)
            | Self::Runs(_)
            | Self::Events(_)
            | Self::Export(_)
            | Self::ContinueIn(_)
            | Self::Verify(_)
            | Self::Doctor(_) => Access::Read,
            Self::Import(_) | Self::Append(_) => Access::Create,
            Self::Tenants(args) => args.access(),
            Self::Compact(args) => args.access(),
            Self::Step(args) => args.access(),
            Self::Repair(args) => args.access(),
            Self::Pending(args) => args.access(),
            Self::Outbox(args) => args.access(),
            Self::Mailbox(args) => args.access(),
            Self::Config(args) => args.access(),
            Self::Profile(args) => args.access(),
            Self::Registry(args) => args.access(),
            Self::Audit(args) => args.access(),
            Self::Effects(args) => args.access(),
            Self::Blobs(args) => args.access(),
            Self::Traces(args) => args.access(),
            Self::Dataset(args) => args.access(),
            Self::Eval(args) => args.access(),
            Self::Erase(args) => args.access(),
            Self::Fork(_)
            | Self::Convert(_)
            | Self::Checkpoint(_)
            | Self::Rewind(_)
            | Self::Label(_)
            | Self::Delete(_)
            | Self::Maintain(_)
            | Self::DemoWriter(_) => Access::Write,
        }
    }

    /// If the tenant is the target of a copy that has not ended: refuses to write to it, and warns of reading it
    /// (VF-2).
    async fn check_unfinished_copy(&self, session: &Session) -> Result<()> {
        // These say so themselves, or are about all tenants.
        if matches!(self, Self::Tenants(_) | Self::Verify(_) | Self::Doctor(_) | Self::Repair(_) | Self::DemoWriter(_))
        {
            return Ok(());
        }
        // If the mark cannot be read, the command says what is wrong with the store.
        let Ok(Some(mark)) = session.stores().unfinished_copy(session.tenant()).await else { return Ok(()) };
        let text = format!("tenant {} is not complete: {mark}", session.tenant());
        match self.access() {
            Access::Read | Access::ReadOrEmpty => {
                tracing::warn!("{text}");
                Ok(())
            }
            Access::Write | Access::WriteWithoutJournal | Access::Create => {
                Err(Failure::from(Error::unavailable(text)).with_advice(FINISH_COPY))
            }
        }
    }

    /// Reads the documents that arguments of the command give: on the command line, in a file or on standard input.
    /// This happens before a store is opened, so that no store is locked while a user types.
    fn read_document_args(&mut self) -> Result<()> {
        match self {
            Self::Append(args) => args.read_document_args(),
            Self::Context(args) => args.read_document_args(),
            Self::Check(args) => args.read_document_args(),
            Self::Convert(args) => args.read_document_args(),
            Self::Fork(args) => args.read_document_args(),
            Self::Pending(args) => args.read_document_args(),
            Self::Mailbox(args) => args.read_document_args(),
            Self::Config(args) => args.read_document_args(),
            Self::Profile(args) => args.read_document_args(),
            Self::Registry(args) => args.read_document_args(),
            Self::Effects(args) => args.read_document_args(),
            Self::Traces(args) => args.read_document_args(),
            Self::Dataset(args) => args.read_document_args(),
            _ => Ok(()),
        }
    }

    #[expect(clippy::cognitive_complexity, reason = "one line for each command")]
    async fn run(self, session: &Session, out: &mut Output) -> Result<Ending> {
        match self {
            Self::Import(args) => import::run(args, session, out).await,
            Self::Export(args) => export::run(args, session, out).await,
            Self::ContinueIn(args) => continue_in::run(args, session, out).await,
            Self::Threads(args) => threads::run(args, session, out).await,
            Self::Show(args) => show::run(args, session, out).await,
            Self::Tree(args) => tree::run(args, session, out).await,
            Self::Context(args) => context::run(args, session, out).await,
            Self::Check(args) => check::run(args, session, out).await,
            Self::Convert(args) => convert::run(args, session, out).await,
            Self::Compact(args) => compact::run(args, session, out).await,
            Self::Step(args) => step::run(args, session, out).await,
            Self::Compare(args) => compare::run(args, session, out).await,
            Self::Runs(args) => runs::run(args, session, out).await,
            Self::Events(args) => events::run(args, session, out).await,
            Self::Append(args) => append::run(args, session, out).await,
            Self::Pending(args) => pending::run(args, session, out).await,
            Self::Outbox(args) => outbox::run(args, session, out).await,
            Self::Mailbox(args) => mailbox::run(args, session, out).await,
            Self::Config(args) => config::run(args, session, out).await,
            Self::Profile(args) => profile::run(args, session, out).await,
            Self::Registry(args) => registry::run(args, session, out).await,
            Self::Audit(args) => audit::run(args, session, out).await,
            Self::Effects(args) => effects::run(args, session, out).await,
            Self::Blobs(args) => blobs::run(args, session, out).await,
            Self::Traces(args) => traces::run(args, session, out).await,
            Self::Dataset(args) => dataset::run(args, session, out).await,
            Self::Eval(args) => eval::run(args, session, out).await,
            Self::Erase(args) => erase::run(args, session, out).await,
            Self::Maintain(args) => maintain::run(args, session, out).await,
            Self::Fork(args) => fork::run(args, session, out).await,
            Self::Checkpoint(args) => checkpoint::run(args, session, out).await,
            Self::Rewind(args) => rewind::run(args, session, out).await,
            Self::Label(args) => label::run(args, session, out).await,
            Self::Delete(args) => delete::run(args, session, out).await,
            Self::Tenants(args) => tenants::run(args, session, out).await,
            Self::Verify(args) => verify::run(args, session, out).await,
            Self::Doctor(args) => doctor::run(args, session, out).await,
            Self::Repair(args) => repair::run(args, session, out).await,
            Self::DemoWriter(args) => demo::writer::run(args, session, out).await,
        }
    }
}

/// Opens the store, runs the command, and closes the store, even if the command fails.
pub(crate) async fn run(cli: Cli, out: &mut Output) -> Result<ExitCode> {
    let Cli { global, command } = cli;
    command.check_global_options(&global).map_err(Failure::Usage)?;
    let ending = match command {
        Command::Demo(args) => demo::run(args, &global, out).await?,
        Command::Migrate(args) => migrate::run(args, &global, out).await?,
        Command::Copy(args) => copy::run(args, &global, out).await?,
        Command::Buffer(args) => Box::pin(buffer::run(args, &global, out)).await?,
        Command::Conformance(args) => conformance::run(args, &global, out).await?,
        Command::Bench(args) => bench::run(args, &global, out).await?,
        Command::Supervise(args) => return supervise::run(args).await,
        Command::Session(mut command) => {
            if let SessionCommand::Repair(args) = &*command {
                args.check(&global)?;
            }
            command.read_document_args()?;
            let session = Session::open(&global, command.access()).await?;
            let ending = match command.check_unfinished_copy(&session).await {
                Ok(()) => command.run(&session, out).await,
                Err(refusal) => Err(refusal),
            };
            let close_result = session.close().await;
            let ending = ending?;
            close_result?;
            ending
        }
    };
    Ok(ending.into())
}

/// Prints the receipt of a commit. `what` says what the commit did.
fn print_receipt(receipt: &Receipt, what: &str, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(receipt)?;
        return Ok(Ending::Success);
    }
    let again = if receipt.deduplicated { " (the key was used before: this is the first receipt)" } else { "" };
    out.print_line(format!("{what}, {}{again}", receipt.version))?;
    for (seq, id) in (receipt.first_seq.unwrap_or_default()..).zip(&receipt.entry_ids) {
        out.print_line(format!("  entry @{seq} {}", text::terminal_safe(id.as_str())))?;
    }
    match &receipt.head {
        Some(head) => out.print_line(format!("  head  {}", text::terminal_safe(head.as_str())))?,
        None => out.print_line("  head  none: the next entry begins a new path")?,
    }
    Ok(Ending::Success)
}
