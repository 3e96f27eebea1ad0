//! `audit restore`: writes an earlier value again.

use agentstore::{
    DocumentExpect, Error, EventId,
    layers::{
        audit::{AuditResource, restored_value},
        config::{ConfigContent, ConfigName, RestoreConfig},
    },
};
use serde_json::json;

use super::Ending;
use crate::{
    change_args::{AuditArgs, ExpectArgs},
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
#[command(after_help = "Examples:\n  agentstore audit restore 0199…\n  \
    agentstore audit restore 0199… --actor user:ada --yes\n\n\
    Config records can be restored. For definitions there is `agentstore registry rollback`. A value whose secrets the \
    audit log hides cannot be restored.")]
pub(super) struct Args {
    /// The id of the audit record
    #[arg(value_name = "RECORD")]
    record: EventId,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    audit: AuditArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let record = session.audit()?.load_audit(&args.record).await?;
    let record = record.ok_or_else(|| Error::not_found("audit record", &args.record))?;
    let resource = terminal_safe(record.resource.as_str());
    let name = config_name(&record.resource).ok_or_else(|| not_restorable(&resource))?;
    let wanted = restored_value(&record, &record.resource)?;
    let config = session.config()?;
    let current = config.load_config(&name).await?;
    let current_content = current.as_ref().map(|current| agentstore::Json::of(&current.content)).transpose()?;
    let is_changed = current.as_ref().map(|current| &current.content) != Some(&wanted.to::<ConfigContent>()?);
    if is_changed && !out.is_json() {
        out.print_line(out.style(format!("changed  {resource}")).bold())?;
        json_text::print_difference(current_content.as_ref(), Some(&wanted), out)?;
        out.flush()?;
    }
    let found = current.as_ref().map(|current| current.revision);
    let mut revision = found;
    if is_changed {
        prompt::confirm(args.yes, &format!("Restore this value of {resource}?"))?;
        // The user confirmed the difference from the value that was read.
        let unchanged = found.map_or(DocumentExpect::Absent, DocumentExpect::Revision);
        let request = RestoreConfig::new(name, args.record, args.audit.into_audit()?);
        let written = config.restore_config(request.expecting(args.expect.given().unwrap_or(unchanged))).await?;
        revision = written.records.into_iter().flatten().next().map(|restored| restored.revision);
    }
    if out.is_json() {
        out.print_document(&json!({ "resource": record.resource, "revision": revision, "changed": is_changed }))?;
        return Ok(Ending::Success);
    }
    let what = if is_changed { "restored" } else { "nothing to restore: the value is already that of the record," };
    let revision = revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    out.print_line(format!("{what} {resource}{revision}"))?;
    Ok(Ending::Success)
}

/// Returns the config record that a resource names, if it names one.
fn config_name(resource: &AuditResource) -> Option<ConfigName> {
    let unescape = |part: &str| part.replace("%2F", "/").replace("%25", "%");
    let parts: Vec<_> = resource.as_str().split('/').map(unescape).collect();
    let [layer, namespace, id] = parts.as_slice() else { return None };
    let name = ConfigName::new(namespace, id).ok()?;
    (layer == "config" && name.resource().is_ok_and(|it| it == *resource)).then_some(name)
}

fn not_restorable(resource: &str) -> Failure {
    Failure::from(Error::invalid("audit record", format!("{resource} is no config record")))
        .with_advice("`agentstore registry rollback` publishes earlier contents of definitions again")
}

#[cfg(test)]
mod tests {
    use agentstore::layers::{audit::AuditResource, config::ConfigName};

    use super::config_name;

    #[test]
    fn a_config_record_is_read_from_its_resource() {
        for (namespace, id) in [("limits", "tokens"), ("a/b", "c%2Fd"), ("config", "%")] {
            let name = ConfigName::new(namespace, id).unwrap();
            assert_eq!(config_name(&name.resource().unwrap()), Some(name));
        }
        for path in ["config", "config/a", "config/a/b/c", "registry/agent/coder", "config/a/%41%"] {
            assert_eq!(config_name(&AuditResource::new(path).unwrap()), None, "{path}");
        }
    }
}
