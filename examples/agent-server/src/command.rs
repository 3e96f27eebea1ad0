//! Commands of the user.

use agentstore::{Json, PublicationId, RunId, SegmentId};
use anyhow::{Result, bail};

pub(crate) const HELP: &str = "\
set KEY JSON              changes a setting, for all servers
publish ID INSTRUCTIONS   publishes the instructions of the agent
rollback SNAPSHOT ID      publishes the instructions of an earlier snapshot again
start RUN QUESTION        starts a run, which pins what was published last
show RUN                  shows what a run uses
finish RUN                answers, and ends the run";

#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Set(SegmentId, Json),
    Publish(PublicationId, String),
    Rollback(u64, PublicationId),
    Start(RunId, String),
    Show(RunId),
    Finish(RunId),
}

impl Command {
    /// Parses a line: a command, its first argument, and the rest of the line.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let mut words = line.trim().splitn(3, ' ');
        let (name, first, rest) = (words.next(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Ok(match name.unwrap_or_default() {
            "help" => Self::Help,
            "set" => Self::Set(first.parse()?, Json::parse(rest)?),
            "publish" => Self::Publish(first.parse()?, rest.to_owned()),
            "rollback" => Self::Rollback(first.parse()?, rest.parse()?),
            "start" => Self::Start(first.parse()?, rest.to_owned()),
            "show" => Self::Show(first.parse()?),
            "finish" => Self::Finish(first.parse()?),
            _ => bail!("there is no such command; `help` lists them"),
        })
    }
}
