//! `profile list`: lists the values of an owner.

use agentstore::ProfileValue;
use serde_json::json;

use super::{Ending, owner::OwnerArg};
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List the values of an owner by key
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile list user:u1\n  \
    agentstore profile list system --json | jq -r .values[].key")]
pub(super) struct Args {
    /// The owner, such as `user:u1`, `agent:coder` or `system`
    owner: OwnerArg,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let profiles = session.profiles()?;
    let values = pages::load_all(async |page| profiles.list_profile(&args.owner.0, page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({ "owner": args.owner }), "values")?;
        values.iter().try_for_each(|value| list.item(value))?;
        list.end()?;
    } else if values.is_empty() {
        out.print_line(format!("{} has no values", terminal_safe(&args.owner.to_string())))?;
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
