//! `registry manifest`: prints the versions of a publication.

use agentstore::PublicationEntry;

use super::{
    Ending, publication_line, short_hash,
    target::{PublicationArg, load_manifest},
};
use crate::{failure::Result, output::Output, session::Session};

/// Print the versions of a publication, which a run pins; with `--json` also their contents
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry manifest\n  agentstore registry manifest 3\n  \
    agentstore registry manifest release-7 --json | jq .versions[].content.value\n\n\
    A version that is missing or has another content than was published is an error: no other version is taken instead.")]
pub(super) struct Args {
    /// The publication: its snapshot number, its id, or `latest`
    #[arg(value_name = "PUBLICATION", default_value = "latest")]
    publication: PublicationArg,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let PublicationArg(choice) = args.publication;
    let manifest = load_manifest(&choice, &*session.registry()?).await?;
    if out.is_json() {
        out.print_document(&manifest)?;
        return Ok(Ending::Success);
    }
    out.print_line(out.style(publication_line(&manifest.publication)).dim())?;
    let row = |entry: &PublicationEntry| {
        vec![entry.definition.to_string(), entry.version.to_string(), short_hash(&entry.hash).to_owned()]
    };
    let rows: Vec<_> = manifest.publication.content.entries.iter().map(row).collect();
    out.print_list(&["definition", "version", "hash"], &rows)?;
    Ok(Ending::Success)
}
