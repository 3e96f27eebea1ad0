//! `tenants`: lists the tenants of a store, or deletes one.

use agentstore::{Error, TenantId};
use clap::Subcommand;
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages, prompt,
    session::{Access, Session},
    text,
};

/// List the tenants that have data in the store, or delete one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore tenants\n  agentstore tenants delete acme")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Delete all data of a tenant; you must type its name twice to confirm
    #[command(after_help = "Example:\n  agentstore tenants delete acme")]
    Delete {
        /// The tenant to delete
        name: TenantId,
        /// Do not ask for the name
        #[arg(long, short)]
        yes: bool,
    },
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            None => Access::Read,
            Some(Action::Delete { .. }) => Access::Write,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        None => list(session, out).await,
        Some(Action::Delete { name, yes }) => delete(&name, yes, session, out).await,
    }
}

async fn list(session: &Session, out: &mut Output) -> Result<Ending> {
    let store = session.stores().store();
    let tenants = pages::load_all(async |page| store.list_tenants(page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "tenants")?;
        tenants.iter().try_for_each(|tenant| list.item(tenant))?;
        list.end()?;
    } else if tenants.is_empty() {
        out.print_line("no tenant has data")?;
    } else {
        tenants.iter().try_for_each(|tenant| out.print_line(text::terminal_safe(tenant.as_str())))?;
    }
    Ok(Ending::Success)
}

async fn delete(name: &TenantId, yes: bool, session: &Session, out: &mut Output) -> Result<Ending> {
    let store = session.stores().store();
    let known = pages::load_all(async |page| store.list_tenants(page).await).await?;
    if !known.contains(name) {
        return Err(Error::not_found("tenant", name).into());
    }
    prompt::confirm_name(yes, name.as_str(), &format!("all data of tenant `{}`", text::terminal_safe(name.as_str())))?;
    store.delete_tenant(name).await?;
    if out.is_json() {
        out.print_document(&json!({ "deleted": name }))?;
    } else {
        out.print_line(format!("deleted all data of tenant {}", text::terminal_safe(name.as_str())))?;
    }
    Ok(Ending::Success)
}
