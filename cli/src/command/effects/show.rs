//! `effects show`: prints an effect.

use agentstore::Effect;

use super::{EffectNameArgs, Ending, name_text};
use crate::{
    failure::Result,
    json_text,
    output::Output,
    session::Session,
    text::{self, terminal_safe},
};

/// Print what is known about an effect: what was intended, under which key, and how it ended
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore effects show t-42 run-7 charge\n  \
    agentstore effects show t-42 run-7 charge --json | jq -r .idempotency_key")]
pub(super) struct Args {
    #[command(flatten)]
    name: EffectNameArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let effect = args.name.load(&*session.effects()?).await?;
    if out.is_json() {
        out.print_document(&effect)?;
    } else {
        print(&effect, out)?;
    }
    Ok(Ending::Success)
}

/// Prints an effect for people.
pub(super) fn print(effect: &Effect, out: &mut Output) -> Result<()> {
    let Effect { name, kind, status, attempt, revision, .. } = effect;
    let title = format!("{}, {}, revision {revision}", name_text(name), terminal_safe(kind.as_str()));
    out.print_line(out.style(title).bold())?;
    let doubt = if status.is_in_doubt() { ": it may have happened" } else { "" };
    out.print_line(format!("  status           {status}{doubt}"))?;
    if let Some(reason) = &effect.reason {
        out.print_line(format!("  reason           {}", terminal_safe(reason)))?;
    }
    let claim = effect.claim.map(|claim| format!(" under {claim}")).unwrap_or_default();
    let step = effect.step.map(|step| format!(", step {step}")).unwrap_or_default();
    out.print_line(format!("  attempt          {attempt}{claim}{step}"))?;
    out.print_line(format!("  idempotency key  {}", terminal_safe(effect.idempotency_key.as_str())))?;
    out.print_line(format!("  begun            {}", text::format_time(effect.created_at)))?;
    out.print_line(format!("  changed          {}", text::format_time(effect.updated_at)))?;
    out.print_line("intent")?;
    json_text::print(&effect.intent, out)?;
    if let Some(outcome) = &effect.outcome {
        out.print_line("outcome")?;
        json_text::print(outcome, out)?;
    }
    Ok(())
}
