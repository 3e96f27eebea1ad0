//! `profile list`: lists the owners, or the values of one.

use agentstore::{ProfileOwner, ProfileValue};
use serde_json::json;

use super::{Ending, ValueDocument};
use crate::{
    failure::Result,
    output::{JsonList, Output, print_names},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List the owners that have values, or the values of an owner by key
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile list\n  agentstore profile list user:u1\n  \
    agentstore profile list system --json | jq -r .values[].id")]
pub(super) struct Args {
    /// The owner whose values are listed, such as `user:u1`; without it, the owners that have values are listed
    owner: Option<ProfileOwner>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let profiles = session.profiles()?;
    let Some(owner) = args.owner else {
        let list = async |after: Option<ProfileOwner>, limit| profiles.list_owners(after.as_ref(), limit).await;
        let owners = pages::load_all_after(list).await?;
        print_names(out, ("owners", "no owner has values"), &owners)?;
        return Ok(Ending::Success);
    };
    let values = pages::load_all(async |page| profiles.list_profile(&owner, page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "values")?;
        values.iter().try_for_each(|value| list.item(&ValueDocument::of(&owner, value)))?;
        list.end()?;
    } else if values.is_empty() {
        out.print_line(format!("{} has no values", terminal_safe(&owner.to_string())))?;
    } else {
        print(&values, out)?;
    }
    Ok(Ending::Success)
}

fn print(values: &[ProfileValue], out: &mut Output) -> Result<()> {
    let row = |value: &ProfileValue| {
        vec![
            value.key.to_string(),
            value.revision.to_string(),
            text::format_minute(value.updated_at),
            value.value.to_string(),
        ]
    };
    let rows: Vec<_> = values.iter().map(row).collect();
    out.print_list(&["key", "revision", "changed", "value"], &rows)
}
