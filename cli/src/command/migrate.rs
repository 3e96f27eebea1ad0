//! `migrate`: brings the schema of a store up to date.

use agentstore::{Detail, Error, StoreUrl, postgres};
use serde_json::json;

use super::Ending;
use crate::{args::GlobalArgs, failure::Result, output::Output, text::terminal_safe};

/// Create the schema of a PostgreSQL store, or bring it up to date
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  agentstore migrate --store 'postgres://admin@db.example/app?schema=agentstore'\n\n\
    Opening a store for writing does the same. Both require a user with the right to create a schema; when the schema \
    is up to date, other users do not need that right. The command is safe to run at any time, and several times at \
    once."
)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let store = global.store_url();
    let StoreUrl::Postgres(url) = &store else {
        let operation = "migrating a store without a schema (use `--store postgres://…`)";
        return Err(Error::new(Detail::Unsupported { operation }).into());
    };
    let config = postgres::PostgresConfig::new(url.with_password())?;
    let migration = postgres::PostgresStore::migrate(&config).await?;
    let (from, to) = (migration.from, migration.to);
    if out.is_json() {
        out.print_document(&json!({ "store": store.to_string(), "schema": config.schema(), "from": from, "to": to }))?;
        return Ok(Ending::Success);
    }
    let schema = terminal_safe(config.schema());
    out.print_line(match from {
        0 => format!("created schema {schema}, version {to}"),
        from if from == to => format!("schema {schema} already has version {to}"),
        from => format!("migrated schema {schema} from version {from} to {to}"),
    })?;
    Ok(Ending::Success)
}
