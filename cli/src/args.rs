//! The command line: the options of every command, and the parsers of ages and lengths of time.

use std::{convert::Infallible, str::FromStr, time::Duration};

use agentstore::{Clock, StoreUrl, SystemClock, TenantId, Timestamp};
use clap::{Args, Parser};

use crate::command::Command;

/// The store that a command uses if no URL is given.
const DEFAULT_STORE_URL: &str = "file:./agentstore-data";

/// The heading under which the help lists the options of every command.
const GLOBAL_HEADING: &str = "Options of every command";

#[derive(Debug, Parser)]
#[command(
    name = "agentstore",
    version,
    about = "Durable state for AI agents: inspect stores, import sessions, branch, rewind, verify",
    after_help = "Start with `agentstore demo`: it commits, crashes, resumes, branches, and prints what each step \
                  proved.\n\n\
                  Exit codes: 0 success, 1 the command failed or found a problem, 2 invalid command line.",
    max_term_width = 110,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// The URL of the store: `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` or `nats://…`
    /// [default: file:./agentstore-data]
    #[arg(long, global = true, env = "AGENTSTORE_URL", hide_env_values = true, value_name = "URL", help_heading = GLOBAL_HEADING)]
    store: Option<StoreArg>,
    /// The URL of the mailbox's store, if the mailbox is in another store than the threads
    #[arg(
        long, global = true, env = "AGENTSTORE_MAILBOX", hide_env_values = true, value_name = "URL", help_heading = GLOBAL_HEADING
    )]
    mailbox: Option<StoreArg>,
    /// The URL of the store of config, profiles and audit log, if they are in another store than the threads
    #[arg(
        long, global = true, env = "AGENTSTORE_SETTINGS", hide_env_values = true, value_name = "URL", help_heading = GLOBAL_HEADING
    )]
    settings: Option<StoreArg>,
    /// The URL of the store of the bytes of blobs, if they are in another store than the threads
    #[arg(
        long, global = true, env = "AGENTSTORE_BLOBS", hide_env_values = true, value_name = "URL", help_heading = GLOBAL_HEADING
    )]
    blobs: Option<StoreArg>,
    /// The URL of the NATS servers with the write buffer in front of the store, if there is one: `nats://…`
    #[arg(
        long, global = true, env = "AGENTSTORE_BUFFER", hide_env_values = true, value_name = "URL", help_heading = GLOBAL_HEADING
    )]
    buffer: Option<StoreArg>,
    /// The tenant that the command works on
    #[arg(
        long, global = true, env = "AGENTSTORE_TENANT", hide_env_values = true, value_name = "NAME",
        default_value_t = TenantId::default_tenant(), help_heading = GLOBAL_HEADING
    )]
    pub(crate) tenant: TenantId,
    /// Print JSON: one document, or one document per line where the help of the command says so
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub(crate) json: bool,
    /// Print messages of workers, relays and stores down to the level `debug`, not only warnings and errors
    ///
    /// All messages go to standard error. Without `--verbose` and `--quiet`, the variable RUST_LOG selects the messages
    /// to print, for example `agentstore=debug,async_nats=info`. If RUST_LOG is not set, only warnings and errors are
    /// printed.
    #[arg(long, global = true, conflicts_with = "quiet", help_heading = GLOBAL_HEADING)]
    pub(crate) verbose: bool,
    /// Print only errors of workers, relays and stores, and no warnings
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub(crate) quiet: bool,
}

impl GlobalArgs {
    /// Returns an error if a value is not a valid URL.
    pub(crate) fn check_urls(&self) -> Result<(), String> {
        let others = self.other_parts().into_iter().chain([self.buffer_option()]);
        for (name, variable, url) in [("--store", "AGENTSTORE_URL", &self.store)].into_iter().chain(others) {
            if let Some(StoreArg(Err(reason))) = url {
                let is_set = std::env::var_os(variable).is_some();
                let from = if is_set { format!(" (the variable {variable} is set)") } else { String::new() };
                return Err(format!("invalid value for `{name}`{from}: {reason}"));
            }
        }
        self.behind_buffer(self.unbuffered_url())
            .map(drop)
            .map_err(|reason| format!("invalid value for `--buffer`: {reason}"))
    }

    /// Returns the options of the parts that may be in another store than the threads, with their variables.
    const fn other_parts(&self) -> [(&'static str, &'static str, &Option<StoreArg>); 3] {
        [
            ("--mailbox", "AGENTSTORE_MAILBOX", &self.mailbox),
            ("--settings", "AGENTSTORE_SETTINGS", &self.settings),
            ("--blobs", "AGENTSTORE_BLOBS", &self.blobs),
        ]
    }

    /// Returns the option of the write buffer, with its variable.
    const fn buffer_option(&self) -> (&'static str, &'static str, &Option<StoreArg>) {
        ("--buffer", "AGENTSTORE_BUFFER", &self.buffer)
    }

    /// Returns the URLs of all parts.
    pub(crate) fn part_urls(&self) -> PartUrls {
        let url = |arg: &Option<StoreArg>| arg.as_ref()?.0.as_ref().ok().cloned();
        PartUrls {
            store: self.store_url(),
            mailbox: url(&self.mailbox),
            settings: url(&self.settings),
            blobs: url(&self.blobs),
        }
    }

    /// Returns an error if a part is to be in another store, or behind a write buffer, by an option or a variable.
    /// Commands that work on only one store call this.
    pub(crate) fn check_one_store(&self, command: &str) -> Result<(), String> {
        self.check_no_other_parts(command)?;
        refuse(command, self.buffer_option())
    }

    /// Returns an error if a part is to be in another store, by an option or a variable.
    pub(crate) fn check_no_other_parts(&self, command: &str) -> Result<(), String> {
        self.other_parts().into_iter().try_for_each(|part| refuse(command, part))
    }

    /// Returns the URL of the store, if one is given.
    pub(crate) fn given_store_url(&self) -> Option<&StoreUrl> {
        self.store.as_ref()?.0.as_ref().ok()
    }

    /// Returns the URL of the store to use, behind the write buffer if there is one.
    pub(crate) fn store_url(&self) -> StoreUrl {
        let url = self.unbuffered_url();
        self.behind_buffer(url.clone()).unwrap_or(url)
    }

    /// Returns a URL behind the write buffer, if one is given.
    pub(crate) fn behind_buffer(&self, url: StoreUrl) -> Result<StoreUrl, String> {
        match self.buffer.as_ref().map(StoreArg::url) {
            Some(Ok(servers)) => url.behind_buffer(servers).map_err(|error| error.to_string()),
            _ => Ok(url),
        }
    }

    fn unbuffered_url(&self) -> StoreUrl {
        let default = || DEFAULT_STORE_URL.strip_prefix("file:").unwrap_or(DEFAULT_STORE_URL).into();
        self.given_store_url().cloned().unwrap_or_else(|| StoreUrl::File(default()))
    }
}

/// Where the parts of a store are.
#[derive(Debug, Clone)]
pub(crate) struct PartUrls {
    /// The store of the threads, and of each part that has no URL of its own.
    pub(crate) store: StoreUrl,
    pub(crate) mailbox: Option<StoreUrl>,
    /// Config, profiles and audit log.
    pub(crate) settings: Option<StoreUrl>,
    /// The bytes of blobs.
    pub(crate) blobs: Option<StoreUrl>,
}

/// Refuses an option that `command` cannot use, if it or its variable has a value.
fn refuse(command: &str, (option, variable, url): (&str, &str, &Option<StoreArg>)) -> Result<(), String> {
    match url {
        Some(_) => Err(format!("`{command}` works on one store: omit `{option}`, and unset {variable}")),
        None => Ok(()),
    }
}

/// A URL, or the reason why the text is not a valid URL. Parsing never fails here: the command-line parser would quote
/// the text in its error, and a URL may contain a password.
#[derive(Debug, Clone)]
pub(crate) struct StoreArg(Result<StoreUrl, String>);

impl StoreArg {
    /// Returns the URL, or the reason why the text is not a valid URL.
    pub(crate) fn url(&self) -> Result<&StoreUrl, &str> {
        self.0.as_ref().map_err(String::as_str)
    }
}

impl FromStr for StoreArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse().map_err(|error: agentstore::Error| error.to_string())))
    }
}

/// Parses an age such as `90m`, `24h` or `7d`.
pub(crate) fn parse_age(text: &str) -> Result<Duration, String> {
    parse_span(text, "expected an age such as `90m`, `24h` or `7d`")
}

/// A time: an age, or a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Age(Duration),
    Time(Timestamp),
}

impl Since {
    /// Returns the point in time.
    pub(crate) fn time(self) -> Timestamp {
        match self {
            Self::Age(age) => SystemClock.now().saturating_sub(age),
            Self::Time(time) => time,
        }
    }
}

/// Parses an age such as `7d`, a date, or a time such as `2026-11-30T09:00:00Z`.
pub(crate) fn parse_since(text: &str) -> Result<Since, String> {
    if let Ok(age) = parse_age(text) {
        return Ok(Since::Age(age));
    }
    let in_utc = || text.parse::<jiff::civil::DateTime>()?.to_zoned(jiff::tz::TimeZone::UTC).map(|it| it.timestamp());
    let time = text.parse::<jiff::Timestamp>().or_else(|_| in_utc());
    let millis = time.ok().and_then(|time| u64::try_from(time.as_millisecond()).ok());
    let time = millis.and_then(|millis| Timestamp::from_millis(millis).ok());
    time.map(Since::Time)
        .ok_or_else(|| "expected an age such as `7d`, a date, or a time such as `2026-11-30T09:00:00Z`".to_owned())
}

/// How long records are kept, or `None` if they are never removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionAge(pub(crate) Option<Duration>);

/// Parses an age, or `never`.
pub(crate) fn parse_retention_age(text: &str) -> Result<RetentionAge, String> {
    if text == "never" {
        return Ok(RetentionAge(None));
    }
    parse_span(text, "expected an age such as `90m`, `24h` or `7d`, or `never`").map(|age| RetentionAge(Some(age)))
}

/// Parses a length of time such as `500ms`, `30s` or `5m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_span(text, "expected a length of time such as `500ms`, `30s` or `5m`")
}

/// Parses a length of time. If the text is not a length of time, the error is `error_text`.
fn parse_span(text: &str, error_text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text.parse().map_err(|_| error_text.to_owned())?;
    let signed_duration =
        span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|error| error.to_string())?;
    Duration::try_from(signed_duration).map_err(|_| "it must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agentstore::Timestamp;

    use super::{Since, parse_since};

    #[test]
    fn a_time_is_an_age_a_date_or_a_point_in_time() {
        let time = |millis| Ok(Since::Time(Timestamp::from_millis(millis).unwrap()));
        assert_eq!(parse_since("7d"), Ok(Since::Age(Duration::from_hours(7 * 24))));
        assert_eq!(parse_since("1970-01-02"), time(86_400_000));
        assert_eq!(parse_since("1970-01-02T00:01"), time(86_460_000));
        assert_eq!(parse_since("1970-01-02T01:00:00.5+01:00"), time(86_400_500));
        for text in ["", "soon", "1960-01-01", "2026-13-01"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
