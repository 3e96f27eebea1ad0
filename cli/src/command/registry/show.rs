//! `registry show`: prints a version of a definition, or lists its versions.

use agentstore::{DefinitionVersion, Error};
use serde_json::json;

use super::{Ending, short_hash, target::VersionArg};
use crate::{
    failure::Result,
    json_text,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// Print a version of a definition, or list its versions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore registry show agent/coder\n  agentstore registry show agent/coder@1\n  \
    agentstore registry show agent/coder --versions"
)]
pub(super) struct Args {
    /// The definition, `KIND/ID`, or one of its versions, `KIND/ID@VERSION`; the current version if none is given
    #[arg(value_name = "KIND/ID[@VERSION]")]
    version: VersionArg,
    /// List the versions, the newest first
    #[arg(long)]
    versions: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    if args.versions {
        print_versions(&args.version, session, out).await?;
        return Ok(Ending::Success);
    }
    let version = args.version.load(&*session.registry()?).await?;
    if out.is_json() {
        out.print_document(&version)?;
        return Ok(Ending::Success);
    }
    let (name, hash) = (terminal_safe(&version.name.to_string()), short_hash(&version.content.hash));
    let created = text::format_time(version.created_at);
    out.print_line(out.style(format!("{name}, {hash}, made {created}{}", origin_text(&version))).dim())?;
    json_text::print(&version.content.value, out)?;
    Ok(Ending::Success)
}

fn origin_text(version: &DefinitionVersion) -> String {
    version.content.copied_from.map(|number| format!(", a copy of version {number}")).unwrap_or_default()
}

async fn print_versions(target: &VersionArg, session: &Session, out: &mut Output) -> Result<()> {
    let (registry, name) = (session.registry()?, &target.definition);
    let definition = registry.load_definition(name).await?;
    let definition = definition.ok_or_else(|| Error::not_found("definition", name.to_string()))?;
    let versions = pages::load_all(async |page| registry.list_versions(name, page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({ "definition": definition }), "versions")?;
        versions.iter().try_for_each(|version| list.item(version))?;
        return list.end();
    }
    let archived = if definition.archived { ", archived" } else { "" };
    out.print_line(out.style(format!("{}{archived}", terminal_safe(&name.to_string()))).dim())?;
    let row = |version: &DefinitionVersion| {
        vec![
            version.name.version.to_string(),
            text::format_minute(version.created_at),
            short_hash(&version.content.hash).to_owned(),
            version.content.copied_from.map(|number| number.to_string()).unwrap_or_default(),
            version.content.value.to_string(),
        ]
    };
    let rows: Vec<_> = versions.iter().map(row).collect();
    out.print_list(&["version", "made", "hash", "copy of", "value"], &rows)
}
