//! The commands and questions that the user types.

use agentstore::Json;
use anyhow::{Context, Result, bail};

use crate::model::Model;

/// The list of the commands.
pub(crate) const HELP: &str = "\
/retry                          ask again: after an error, after a crash, or for another answer after /rewind
/provider API MODEL [SETTINGS]  continue with another model
/branch TEXT                    ask TEXT in place of the last question, on a new branch
/rewind N                       go back to entry N, on any branch; 0 is before the first
/tree                           show all entries; those of the current branch have a `*`
/quit                           leave; so does Ctrl-D";

/// A line of input.
pub(crate) enum Command {
    /// An empty line.
    Empty,
    /// A question to the model.
    Ask(String),
    Retry,
    SetModel(Model),
    Branch(String),
    /// A rewind to the entry with this sequence number.
    Rewind(u64),
    Tree,
    Help,
    Quit,
}

impl Command {
    /// Reads a line. A line that begins with `/` is a command, any other line is a question.
    ///
    /// # Errors
    /// An unknown command, or one with wrong arguments.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        Ok(match (name, rest) {
            ("", _) => Self::Empty,
            ("/retry", "") => Self::Retry,
            ("/tree", "") => Self::Tree,
            ("/help", "") => Self::Help,
            ("/quit", "") => Self::Quit,
            ("/branch", text) if !text.is_empty() => Self::Branch(text.to_owned()),
            ("/rewind", number) => Self::Rewind(number.parse().context("/rewind takes the number of an entry")?),
            ("/provider", rest) => Self::SetModel(parse_model(rest)?),
            (name, _) if name.starts_with('/') => {
                bail!("`{line}` is not a command, or is not used like this; /help lists the commands")
            }
            _ => Self::Ask(line.to_owned()),
        })
    }
}

fn parse_model(text: &str) -> Result<Model> {
    let mut words = text.splitn(3, char::is_whitespace);
    let (Some(provider), Some(name)) = (words.next(), words.next()) else {
        bail!("/provider takes an API and a model, for example `/provider openai-chat gpt-5-nano`");
    };
    let settings = words.next().map(Json::parse).transpose()?;
    Model::new(provider.parse()?, name.to_owned(), settings)
}
