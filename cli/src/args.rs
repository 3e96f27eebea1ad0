//! What can be said on the command line.

use std::{convert::Infallible, str::FromStr, time::Duration};

use agentstore::{StoreUrl, TenantId};
use clap::{Args, Parser};

use crate::command::Command;

/// The store of someone who names none.
const DEFAULT_STORE: &str = "file:./agentstore-data";

/// Where the help lists what every command takes.
const EVERY: &str = "Options of every command";

#[derive(Debug, Parser)]
#[command(
    name = "agentstore",
    version,
    about = "Durable state for AI agents: look into stores, import sessions, branch, rewind, verify",
    after_help = "Begin with `agentstore demo`: it commits, crashes, resumes, branches and says what each step proved.\n\n\
                  Exit codes: 0 done, 1 failed or found something wrong, 2 not understood.",
    max_term_width = 110,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The store: `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…`, `nats://…`  [default: file:./agentstore-data]
    #[arg(long, global = true, env = "AGENTSTORE_URL", hide_env_values = true, value_name = "URL", help_heading = EVERY)]
    store: Option<StoreArg>,
    /// Where the mailbox is, if it is in another store than everything else
    #[arg(
        long, global = true, env = "AGENTSTORE_MAILBOX", hide_env_values = true, value_name = "URL", help_heading = EVERY
    )]
    mailbox: Option<StoreArg>,
    /// The tenant: whose threads
    #[arg(
        long, global = true, env = "AGENTSTORE_TENANT", hide_env_values = true, value_name = "NAME",
        default_value_t = TenantId::default_tenant(), help_heading = EVERY
    )]
    pub(crate) tenant: TenantId,
    /// Print JSON: one document, or one a line where a command says so
    #[arg(long, global = true, help_heading = EVERY)]
    pub(crate) json: bool,
    /// Print what workers, relays and stores do to standard error, too; RUST_LOG says more exactly what
    #[arg(long, global = true, conflicts_with = "quiet", help_heading = EVERY)]
    pub(crate) verbose: bool,
    /// Print no warnings of workers, relays and stores, only errors
    #[arg(long, global = true, help_heading = EVERY)]
    pub(crate) quiet: bool,
}

impl Global {
    /// Refuses a URL that is none.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, url) in [("--store", &self.store), ("--mailbox", &self.mailbox)] {
            if let Some(StoreArg(Err(reason))) = url {
                return Err(format!("invalid value for `{name}`: {reason}"));
            }
        }
        Ok(())
    }

    /// The store of the mailbox, if another one was named.
    pub(crate) fn mailbox(&self) -> Option<&StoreUrl> {
        self.mailbox.as_ref()?.0.as_ref().ok()
    }

    /// Refuses a store for the mailbox, for commands that work on one store.
    pub(crate) fn check_one_store(&self, command: &str) -> Result<(), String> {
        match &self.mailbox {
            Some(_) => {
                Err(format!("`{command}` works on one store: leave `--mailbox` out, and AGENTSTORE_MAILBOX unset"))
            }
            None => Ok(()),
        }
    }

    /// The store that was named, if one was.
    pub(crate) fn named_store(&self) -> Option<&StoreUrl> {
        self.store.as_ref()?.0.as_ref().ok()
    }

    /// The store to use.
    pub(crate) fn store(&self) -> StoreUrl {
        let default = || DEFAULT_STORE.strip_prefix("file:").unwrap_or(DEFAULT_STORE).into();
        self.named_store().cloned().unwrap_or_else(|| StoreUrl::File(default()))
    }
}

/// A URL, or why it is none: whoever reads the command line shows what it does not understand, and a URL may hold a
/// password.
#[derive(Debug, Clone)]
struct StoreArg(Result<StoreUrl, String>);

impl FromStr for StoreArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse().map_err(|error: agentstore::Error| error.to_string())))
    }
}

/// An age such as `90m`, `24h` or `7d`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    length(text, "it is an age such as `90m`, `24h` or `7d`")
}

/// How long something is kept: an age, or for good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept(pub(crate) Option<Duration>);

/// An age, or `never` for what is not removed.
pub(crate) fn kept(text: &str) -> Result<Kept, String> {
    if text == "never" {
        return Ok(Kept(None));
    }
    length(text, "it is an age such as `90m`, `24h` or `7d`, or `never`").map(|age| Kept(Some(age)))
}

/// A length of time such as `500ms`, `30s` or `5m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    length(text, "it is a length of time such as `500ms`, `30s` or `5m`")
}

fn length(text: &str, meant: &str) -> Result<Duration, String> {
    let span: jiff::Span = text.parse().map_err(|_| meant.to_owned())?;
    let whole = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|error| error.to_string())?;
    Duration::try_from(whole).map_err(|_| "it is not negative".to_owned())
}
