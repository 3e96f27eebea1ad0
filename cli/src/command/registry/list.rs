//! `registry list`: lists definitions, their kinds, or publications.

use agentstore::{Definition, DefinitionKind, Publication};
use serde_json::json;

use super::{Ending, short_hash, target::publication_text};
use crate::{
    failure::Result,
    output::{JsonList, Output, print_names},
    pages,
    session::Session,
    text,
};

/// List the definitions by kind and id, their kinds, or the publications, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry list --kind agent\n  agentstore registry list --kinds\n  \
    agentstore registry list --publications --json | jq .publications[0].snapshot")]
pub(super) struct Args {
    /// Only definitions of this kind
    #[arg(long)]
    kind: Option<DefinitionKind>,
    /// List the kinds that have definitions
    #[arg(long, conflicts_with = "kind")]
    kinds: bool,
    /// List the publications
    #[arg(long, conflicts_with_all = ["kind", "kinds"])]
    publications: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let registry = session.registry()?;
    if args.publications {
        let publications = pages::load_all(async |page| registry.list_publications(page).await).await?;
        print_publications(&publications, out)?;
    } else if args.kinds {
        let list = async |after: Option<DefinitionKind>, limit| registry.list_kinds(after.as_ref(), limit).await;
        let kinds = pages::load_all_after(list).await?;
        print_names(out, ("kinds", "the registry has no definitions"), &kinds)?;
    } else {
        let kind = args.kind.as_ref();
        let definitions = pages::load_all(async |page| registry.list_definitions(kind, page).await).await?;
        print_definitions(&definitions, out)?;
    }
    Ok(Ending::Success)
}

fn print_definitions(definitions: &[Definition], out: &mut Output) -> Result<()> {
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "definitions")?;
        definitions.iter().try_for_each(|definition| list.item(definition))?;
        return list.end();
    }
    if definitions.is_empty() {
        return out.print_line("the registry has no such definitions");
    }
    let row = |definition: &Definition| {
        vec![
            definition.name.to_string(),
            definition.current.to_string(),
            if definition.archived { "archived".to_owned() } else { String::new() },
            text::format_minute(definition.updated_at),
            short_hash(&definition.hash).to_owned(),
        ]
    };
    let rows: Vec<_> = definitions.iter().map(row).collect();
    out.print_list(&["definition", "version", "status", "changed", "hash"], &rows)
}

fn print_publications(publications: &[Publication], out: &mut Output) -> Result<()> {
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "publications")?;
        publications.iter().try_for_each(|publication| list.item(publication))?;
        return list.end();
    }
    if publications.is_empty() {
        return out.print_line("the registry has no publications");
    }
    let row = |publication: &Publication| {
        let content = &publication.content;
        vec![
            publication.snapshot.to_string(),
            content.entries.len().to_string(),
            text::format_minute(publication.published_at),
            content.by.clone().unwrap_or_default(),
            content.rollback_of.map(|snapshot| snapshot.to_string()).unwrap_or_default(),
            publication_text(&content.id),
        ]
    };
    let rows: Vec<_> = publications.iter().map(row).collect();
    out.print_list_of_names(&["snapshot", "definitions", "published", "by", "contents of", "publication"], &rows)
}
