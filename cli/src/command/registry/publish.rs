//! `registry publish`: publishes the definitions of a folder together.

use std::{borrow::Cow, path::PathBuf};

use agentstore::{
    DefinitionRef, Error, IdSource, Json, ManifestChoice, NewVersion, Publication, PublicationId, PublishAll,
    RegistryStore, UuidSource, content_hash, length,
};
use serde::Serialize;

use super::{
    Ending,
    difference::{Content, Contents, Differences, contents_of},
    folder::Folder,
    publication_line, refused,
    target::{self, snapshot_of},
};
use crate::{
    change_args::AuditArgs,
    document_arg::{self, DocumentArg},
    failure::{Failure, Result},
    json_merge::merge_objects,
    output::Output,
    prompt,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Publish the definitions of a folder as one publication; the difference from the latest publication is shown first
///
/// The folder contains a file `KIND/ID.json` for each definition, such as `agent/coder.json`. In the names of files and
/// folders, `%25` and `%2F` stand for `%` and `/`. A definition whose content has not changed keeps its version. The
/// publication has the definitions of the folder and no others. If nothing differs, nothing is published.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry publish ./definitions --dry-run\n  \
    agentstore registry publish ./definitions --id release-7 --actor user:ada --yes\n\n\
    If another process publishes after the difference was shown, the command is refused (exit code 1).")]
pub(super) struct Args {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[arg(skip)]
    parsed_folder: Option<Folder>,
    /// The id of the publication; generated if not given
    #[arg(long, value_parser = target::parse_new_id)]
    id: Option<PublicationId>,
    /// The version of the schema of the values
    #[arg(long, value_name = "N", default_value_t = 1)]
    schema_version: u32,
    /// What to note with the publication, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<DocumentArg>,
    #[arg(skip)]
    parsed_metadata: Option<Json>,
    /// Only show the difference, and create nothing, not even a store that does not exist yet
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    audit: AuditArgs,
}

impl Args {
    pub(super) const fn access(&self) -> Access {
        if self.dry_run { Access::ReadOrEmpty } else { Access::Create }
    }

    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_folder = Some(Folder::read(&self.folder)?);
        self.parsed_metadata = document_arg::read_json(self.metadata.as_ref(), "--metadata")?;
        Ok(())
    }
}

/// What the command did, as a JSON document; the differences come first.
#[derive(Serialize)]
struct Report<'a> {
    ignored: Vec<Cow<'a, str>>,
    /// The publication; absent if nothing was published.
    publication: Option<Publication>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let folder = args.parsed_folder.map_or_else(|| Folder::read(&args.folder), Ok)?;
    let registry = session.registry()?;
    let latest = registry.load_manifest(&ManifestChoice::Latest).await?;
    let before = contents_of(latest.as_ref());
    let after = planned_contents(&folder, args.schema_version, &*registry).await?;
    let differences = Differences::of(&before, &after);
    if !out.is_json() {
        for path in &folder.ignored {
            out.print_line(terminal_safe(&format!("ignored  {}", path.display())))?;
        }
        differences.print(out)?;
        if session.is_of_missing_store() {
            out.print_line("the store does not exist yet: the first publication creates it")?;
        }
        out.flush()?;
    }
    let mut publication = None;
    if !differences.is_empty() && !args.dry_run {
        let snapshot = snapshot_of(latest.as_ref().map(|latest| &latest.publication));
        let definitions = with_noun(length(after.len()), "definition");
        prompt::confirm(args.yes, &format!("Publish {definitions} as snapshot {}?", snapshot + 1))?;
        let id = args.id.map_or_else(|| PublicationId::new(UuidSource.next_id()), Ok)?;
        // The user confirmed the difference from the publication that was read.
        let mut request = PublishAll::new(id).expecting_snapshot(snapshot);
        request.versions = folder.definitions.into_iter().map(|(name, value)| NewVersion::new(name, value)).collect();
        request.versions.iter_mut().for_each(|version| version.schema_version = args.schema_version);
        let audit = args.audit.into_audit()?;
        (request.by, request.metadata) = (Some(audit.actor.to_string()), args.parsed_metadata);
        publication = Some(registry.publish_all(request.audited(audit)).await.map_err(refused)?);
    }
    if out.is_json() {
        let ignored = folder.ignored.iter().map(|path| path.to_string_lossy()).collect();
        out.print_document(&merge_objects(&differences, &Report { ignored, publication })?)?;
    } else if let Some(publication) = &publication {
        out.print_line(format!("published {}", publication_line(publication)))?;
    } else if differences.is_empty() {
        out.print_line("the latest publication has these contents: nothing was published")?;
    }
    Ok(Ending::Success)
}

/// Returns the contents of the folder with the versions that a publication gives them.
async fn planned_contents(folder: &Folder, schema_version: u32, registry: &dyn RegistryStore) -> Result<Contents> {
    let mut contents = Contents::new();
    for (name, value) in &folder.definitions {
        let hash = content_hash(schema_version, value).map_err(|error| error.in_part(name.to_string()))?;
        let version = match registry.load_definition(name).await? {
            Some(found) if found.archived => return Err(archived(name)),
            Some(found) if found.hash == hash => found.current,
            Some(found) => found.current + 1,
            None => 1,
        };
        contents.insert(name.clone(), Content { version, hash, value: value.clone() });
    }
    Ok(contents)
}

/// Returns the refusal of an archived definition, as the registry itself returns it.
fn archived(name: &DefinitionRef) -> Failure {
    let error = Error::invalid_transition("definition", name.to_string(), "archived", "published");
    let advice = "take it out of the archive with `agentstore registry archive KIND/ID --undo`, or remove its file";
    Failure::from(error).with_advice(advice)
}
