//! A message from the command line or from standard input.

use std::io::{self, IsTerminal, Read, Write};

use agentstore::Message;
use clap::Args;

use crate::failure::{Failure, Result};

/// How a message is given.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// The message: text of the user, or a JSON document with `role` and `blocks`; without it, standard input
    #[arg(long, short, value_name = "TEXT|JSON", value_parser = parse)]
    message: Option<Message>,
}

impl MessageArgs {
    /// Takes the message from standard input unless one was given: before the store is opened, so that nobody waits for
    /// whoever types.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        if self.message.is_none() {
            self.message = Some(read_stdin()?);
        }
        Ok(())
    }

    /// The message.
    pub(crate) fn read(self) -> Result<Message> {
        self.message.map_or_else(read_stdin, Ok)
    }
}

/// Text that opens with a brace is a message document, anything else is what the user says.
pub(crate) fn parse(text: &str) -> Result<Message, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| {
            format!("it is no message ({error}); as in {{\"role\":\"user\",\"blocks\":[{{\"text\":\"hi\"}}]}}")
        });
    }
    spoken(text).ok_or_else(|| "it is empty".to_owned())
}

fn read_stdin() -> Result<Message> {
    if io::stdin().is_terminal() {
        // A hint on how to end; nobody else needs it.
        let _ = writeln!(io::stderr(), "the message, then Ctrl-D:");
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| Failure::io("standard input cannot be read", error))?;
    spoken(&text)
        .ok_or_else(|| Failure::Usage("standard input holds no message; or say it with `--message`".to_owned()))
}

/// A user message, without the line end that a shell adds.
fn spoken(text: &str) -> Option<Message> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    (!text.trim().is_empty()).then(|| Message::user(text))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use agentstore::{Message, Role};

    #[test]
    fn a_message_is_text_or_a_document() {
        assert_eq!(parse("hi there\n"), Ok(Message::user("hi there")));
        assert_eq!(parse(r#""quoted""#), Ok(Message::user(r#""quoted""#)));
        let message = parse(r#"{"role":"assistant","blocks":[{"text":"hi"}]}"#).unwrap();
        assert_eq!((message.role, message.blocks.len()), (Role::Assistant, 1));
        for (text, says) in [("  ", "it is empty"), ("{", "it is no message"), (r#"{"role":"king"}"#, "role")] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
