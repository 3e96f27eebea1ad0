//! The option that gives a message: on the command line itself, in a file, or on standard input.

use agentstore::{Json, Message};
use clap::Args;
use providers::{Target, normalize};

use crate::{document_arg::DocumentArg, failure::Result};

const MESSAGE_FLAG: &str = "--message";

/// The option that gives a message.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// The message: text of the user, or a JSON document with `role` and `blocks`; from standard input if not given
    ///
    /// `@FILE` reads the message from a file, and `-` from standard input. Write `@@` for text that begins with `@`.
    #[arg(long, short, value_name = "TEXT|JSON|@FILE|-")]
    message: Option<DocumentArg>,
    #[arg(skip)]
    parsed_message: Option<Message>,
}

impl MessageArgs {
    /// Reads the message. A command calls this before it opens the store.
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_message = Some(read_message(self.argument())?);
        Ok(())
    }

    /// Reads a request or a reply of a provider in place of the message. A command calls this before it opens the
    /// store.
    pub(crate) fn read_body(&self, source: &Target) -> Result<Vec<Message>> {
        self.argument().read(MESSAGE_FLAG, |text| {
            let body = Json::parse(text).map_err(|error| error.to_string())?;
            let normalized = normalize(source, &body);
            normalized.map(|normalized| normalized.messages).map_err(|error| {
                api_error(text)
                    .map_or_else(|| error.to_string(), |error| format!("the API answered with an error: {error}"))
            })
        })
    }

    fn argument(&self) -> &DocumentArg {
        self.message.as_ref().unwrap_or(&DocumentArg::Stdin)
    }

    /// Returns the message, and reads it if `read_document_args` was not called.
    pub(crate) fn into_message(self) -> Result<Message> {
        let argument = self.message.unwrap_or(DocumentArg::Stdin);
        self.parsed_message.map_or_else(|| read_message(&argument), Ok)
    }
}

/// Returns the text of the error that an API answered with in place of a reply.
fn api_error(text: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(body.pointer("/error/message")?.as_str()?.to_owned())
}

/// Reads a message.
pub(crate) fn read_message(argument: &DocumentArg) -> Result<Message> {
    argument.read(MESSAGE_FLAG, parse)
}

/// Parses text that begins with a brace as a message document. Any other text is a message of the user.
fn parse(text: &str) -> Result<Message, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| {
            format!("it is not a message ({error}); example: {{\"role\":\"user\",\"blocks\":[{{\"text\":\"hi\"}}]}}")
        });
    }
    user_message(text).ok_or_else(|| "it is empty".to_owned())
}

/// Returns a user message without the line end that a shell adds, or `None` if the text is blank.
fn user_message(text: &str) -> Option<Message> {
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
        for (text, expected_text) in
            [("  ", "it is empty"), ("{", "it is not a message"), (r#"{"role":"king"}"#, "role")]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected_text), "{text}: {error}");
        }
    }
}
