//! `effects resolve`: ends the doubt about an effect.

use agentstore::{DocumentExpect, Json, Resolution, ResolveEffect};

use super::{EffectNameArgs, Ending, name_text, show};
use crate::{
    change_args::AuditArgs,
    document_arg::{self, DocumentArg},
    failure::Result,
    output::Output,
    prompt,
    session::Session,
};

/// Say what became of an effect in doubt: it happened, it did not, or it is to be tried again
///
/// An outcome is final. After `--retry`, the next attempt of the run performs the effect again, with the same
/// idempotency key: use it if the effect did not happen, or if its receiver recognises the key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore effects resolve t-42 run-7 charge --done '{\"receipt\":\"r-1\"}'\n  \
    agentstore effects resolve t-42 run-7 charge --failed '\"the card was declined\"' --yes\n  \
    agentstore effects resolve t-42 run-7 charge --retry --expect 12 --yes\n\n\
    The command shows the effect and asks before it changes it. If the effect changes meanwhile, the command is \
    refused. A dispatch that became a dead letter because of the doubt goes on after `agentstore mailbox requeue`.")]
pub(super) struct Args {
    #[command(flatten)]
    name: EffectNameArgs,
    #[command(flatten)]
    how: HowArgs,
    /// Refuse the change unless the effect has this revision
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    audit: AuditArgs,
}

/// The options that say what became of the effect.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct HowArgs {
    /// It happened, with this outcome, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    done: Option<DocumentArg>,
    /// It did not happen and will not be tried again; the outcome, a JSON value, says why
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    failed: Option<DocumentArg>,
    /// It is to be tried again, with the same idempotency key
    #[arg(long)]
    retry: bool,
    #[arg(skip)]
    outcome: Option<Json>,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        let (flag, document) = match &self.how.done {
            Some(done) => ("--done", Some(done)),
            None => ("--failed", self.how.failed.as_ref()),
        };
        self.how.outcome = document_arg::read_json(document, flag)?;
        Ok(())
    }
}

impl HowArgs {
    fn into_resolution(self) -> Resolution {
        match (self.outcome, self.done) {
            (None, _) => Resolution::Retry,
            (Some(outcome), Some(_)) => Resolution::Done(outcome),
            (Some(outcome), None) => Resolution::Failed(outcome),
        }
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let effects = session.effects()?;
    let effect = args.name.load(&*effects).await?;
    let resolution = args.how.into_resolution();
    if !args.yes {
        if !out.is_json() {
            show::print(&effect, out)?;
            out.flush()?;
        }
        let question = match &resolution {
            Resolution::Done(_) => "Record that it happened?",
            Resolution::Failed(_) => "Record that it did not happen?",
            Resolution::Retry => "Let the next attempt perform it again?",
        };
        prompt::confirm(false, question)?;
    }
    // What is resolved is what was shown.
    let expect = DocumentExpect::Revision(args.expect.unwrap_or(effect.revision));
    let request = ResolveEffect::new(effect.name, resolution).expecting(expect).audited(args.audit.into_audit()?);
    let resolved = effects.resolve_effect(request).await?;
    if out.is_json() {
        out.print_document(&resolved)?;
    } else {
        let (name, status, revision) = (name_text(&resolved.name), resolved.status, resolved.revision);
        out.print_line(format!("{name} is {status} now, revision {revision}"))?;
    }
    Ok(Ending::Success)
}
