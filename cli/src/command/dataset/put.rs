//! `dataset put`: adds a case, or gives it another content.

use agentstore::{CaseChange, CaseContent, CaseId, Json};

use super::{ChangeArgs, Ending};
use crate::{
    document_arg::{self, DocumentArg, parse_json},
    failure::Result,
    output::Output,
    session::Session,
};

/// Add a case, or give a case another content
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentstore dataset put small --input '\"What is 2 + 2?\"' --expectation '\"4\"' --dataset sums\n  \
    agentstore dataset put large --input @question.json --dataset sums --expect 1")]
pub(super) struct Args {
    /// The id of the case
    case: CaseId,
    /// What an agent is given, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    input: DocumentArg,
    /// What is expected of an agent, a JSON value
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    expectation: Option<DocumentArg>,
    #[arg(skip)]
    parsed_input: Option<Json>,
    #[arg(skip)]
    parsed_expectation: Option<Json>,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_input = Some(self.input.read("--input", parse_json)?);
        self.parsed_expectation = document_arg::read_json(self.expectation.as_ref(), "--expectation")?;
        Ok(())
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let input = args.parsed_input.map_or_else(|| args.input.read("--input", parse_json), Ok)?;
    let mut content = CaseContent::new(input);
    content.expectation = args.parsed_expectation;
    args.change.make(vec![CaseChange::Put(args.case, content)], session, out).await
}
