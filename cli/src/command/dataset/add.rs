//! `dataset add`: makes a case from a recorded run.

use agentstore::{CaseChange, CaseContent, CaseId, Json, RecordedRun, RunId, case_of_run};

use super::{ChangeArgs, Ending};
use crate::{
    document_arg::{self, DocumentArg},
    failure::Result,
    json_text,
    output::Output,
    session::{Access, Session},
};

/// Make a case from a recorded run: a copy of its context, its tool results and its outcome
///
/// The case stays as it is when the run is deleted. What is expected of an agent is up to you: by default nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore dataset add run-7 --dataset refunds --dry-run\n  \
    agentstore dataset add run-7 --dataset refunds --expect-answer\n  \
    agentstore dataset add run-7 --dataset refunds --expectation '{\"refund\":500}' --expect 3\n\n\
    `agentstore runs` lists the runs. Only a run that is done can become a case.")]
pub(super) struct Args {
    /// The id of the run
    run: RunId,
    /// The id of the case; that of the run if not given
    #[arg(long, value_name = "ID")]
    case: Option<CaseId>,
    /// What is expected of an agent, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    expectation: Option<DocumentArg>,
    /// Expect the last message of the model in the run
    #[arg(long, conflicts_with = "expectation")]
    expect_answer: bool,
    #[arg(skip)]
    parsed_expectation: Option<Json>,
    /// Only print the case, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Args {
    pub(super) const fn access(&self) -> Access {
        if self.dry_run { Access::Read } else { Access::Write }
    }

    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_expectation = document_arg::read_json(self.expectation.as_ref(), "--expectation")?;
        Ok(())
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let recorded = RecordedRun::load(&*session.threads()?, &args.run).await?;
    let mut case: CaseContent = case_of_run(&recorded)?;
    case.expectation = args.parsed_expectation;
    if args.expect_answer {
        let answer = case.outcome.as_ref().and_then(|outcome| outcome.answer.as_ref());
        case.expectation = answer.map(Json::of).transpose()?;
    }
    if args.dry_run {
        if out.is_json() {
            out.print_document(&case)?;
        } else {
            json_text::print(&Json::of(&case)?, out)?;
        }
        return Ok(Ending::Success);
    }
    let id = args.case.map_or_else(|| CaseId::new(args.run), Ok)?;
    args.change.make(vec![CaseChange::Put(id, case)], session, out).await
}
