//! `audit restore`: writes an earlier value again.

use agentstore::{Error, EventId, Restoration, layers::audit::restored_value};
use serde_json::json;

use super::{Ending, record_ref::load_record, target::Target};
use crate::{
    change_args::AuditArgs,
    failure::{Failure, Result},
    json_text,
    output::Output,
    prompt,
    session::Session,
    text::terminal_safe,
};

/// Write the value after a recorded change again; for a deletion, the value before it
///
/// The restoration is a new change with an audit record of its own. The difference is shown first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore audit restore 98b06e2a74c0\n  \
    agentstore audit restore 01a22b6c-3463-7150-8582-98b06e2a74c0 --actor user:ada --yes\n\n\
    Config records and values of profiles are restored as they were. The content of a definition becomes its next \
    version; `agentstore registry rollback` publishes a whole publication again. A value whose secrets the audit log \
    hides cannot be restored.")]
pub(super) struct Args {
    /// The id of the audit record, or its end or beginning if no other record has it
    #[arg(value_name = "RECORD")]
    record: EventId,
    #[command(flatten)]
    audit: AuditArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let record = load_record(&args.record, &*session.audit()?).await?;
    let resource = terminal_safe(record.resource.as_str());
    let target = Target::of(&record.resource).ok_or_else(|| not_restorable(&resource))?;
    let wanted = restored_value(&record, &record.resource)?;
    let current = target.load(session).await?;
    if let Some(current) = &current.value
        && target.is_same(current, &wanted)?
    {
        if out.is_json() {
            out.print_document(&json!({ "resource": record.resource, "changed": false }))?;
        } else {
            out.print_line(format!("{resource} already has the value of the record: nothing was changed"))?;
        }
        return Ok(Ending::Success);
    }
    if !out.is_json() {
        out.print_line(out.style(&resource).bold())?;
        json_text::print_difference(current.value.as_ref(), Some(&wanted), out)?;
        out.flush()?;
    }
    prompt::confirm(args.yes, &format!("Restore this value of {resource}?"))?;
    // The user confirmed the difference from the value that was read.
    let request = Restoration::new(record.id, args.audit.into_audit()?).expecting(current.unchanged);
    let (field, number) = target.restore(request, session).await?;
    if out.is_json() {
        out.print_document(&json!({ "resource": record.resource, "changed": true, field: number }))?;
    } else {
        let number = number.map(|number| format!(", {field} {number}")).unwrap_or_default();
        out.print_line(format!("restored {resource}{number}"))?;
    }
    Ok(Ending::Success)
}

fn not_restorable(resource: &str) -> Failure {
    let reason = format!("{resource} is no config record, no value of a profile and no definition");
    Failure::from(Error::invalid("audit record", reason))
        .with_advice("`agentstore registry rollback` publishes the contents of a publication again")
}
