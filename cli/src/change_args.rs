//! The options of commands that change a value: the value, what is expected of the old one, and who makes the change.

use agentstore::{DocumentExpect, Json, NewAudit, WriterId};
use clap::Args;

use crate::{
    document_arg::{DocumentArg, parse_json},
    failure::Result,
};

const VALUE_FLAG: &str = "--value";

/// The options that give a value.
#[derive(Debug, Args)]
pub(crate) struct ValueArgs {
    /// The value, as JSON; from standard input if neither `--value` nor `--text` is given
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    value: Option<DocumentArg>,
    /// The value as plain text, which is stored as a JSON text
    ///
    /// `@FILE` reads the text from a file, and `-` from standard input. Write `@@` for text that begins with `@`.
    #[arg(long, value_name = "TEXT|@FILE|-", conflicts_with = "value")]
    text: Option<DocumentArg>,
    #[arg(skip)]
    parsed_value: Option<Json>,
}

impl ValueArgs {
    /// Reads the value. A command calls this before it opens the store.
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_value = Some(self.read()?);
        Ok(())
    }

    /// Returns the value, and reads it if `read_document_args` was not called.
    pub(crate) fn into_json(mut self) -> Result<Json> {
        self.parsed_value.take().map_or_else(|| self.read(), Ok)
    }

    fn read(&self) -> Result<Json> {
        let as_text = |text: &str| Json::of(text).map_err(|error| error.to_string());
        match (&self.text, &self.value) {
            (Some(text), _) => text.read("--text", as_text),
            (None, Some(value)) => value.read(VALUE_FLAG, parse_json),
            (None, None) => DocumentArg::Stdin.read(VALUE_FLAG, parse_json),
        }
    }
}

/// The option that says what the old value must be like.
#[derive(Debug, Args)]
pub(crate) struct ExpectArgs {
    /// Refuse the change unless the value has this revision, or unless there is no value (`absent`)
    #[arg(long, value_name = "absent|REVISION", value_parser = parse_expectation)]
    expect: Option<DocumentExpect>,
}

impl ExpectArgs {
    /// Returns the expectation of a change.
    pub(crate) fn expectation(&self) -> DocumentExpect {
        self.expect.unwrap_or_default()
    }
}

fn parse_expectation(text: &str) -> Result<DocumentExpect, String> {
    match text {
        "absent" => Ok(DocumentExpect::Absent),
        _ => text.parse().map(DocumentExpect::Revision).map_err(|_| "it is neither a number nor `absent`".to_owned()),
    }
}

/// The options for the audit record of a change.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The user, agent or program that makes the change [default: `user:` and the name of the user of this process]
    #[arg(long, env = "AGENTSTORE_ACTOR", hide_env_values = true, value_name = "NAME")]
    actor: Option<WriterId>,
    /// A key whose values the audit log must not contain; can be given more than once
    ///
    /// The key is that of a member of an object, at any depth, or the id of the changed value.
    #[arg(long = "secret", value_name = "KEY")]
    secret_keys: Vec<String>,
}

impl AuditArgs {
    /// Returns the audit record of the change.
    pub(crate) fn into_audit(self) -> Result<NewAudit> {
        let audit = NewAudit::new(self.actor.map_or_else(user_of_process, Ok)?);
        Ok(self.secret_keys.into_iter().fold(audit, NewAudit::with_secret))
    }
}

fn user_of_process() -> Result<WriterId> {
    let name = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    Ok(WriterId::new(format!("user:{name}"))?)
}
