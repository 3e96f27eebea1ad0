//! `registry rollback`: publishes earlier contents again.

use agentstore::{IdSource, ManifestChoice, Publication, PublicationId, PublishAll, RollbackPublication, UuidSource};
use serde::Serialize;
use serde_json::json;

use super::{
    Ending,
    difference::{Contents, Differences, contents_of},
    publication_line, refused,
    target::{self, PublicationArg, TargetArg, VersionArg, load_manifest},
};
use crate::{
    change_args::AuditArgs,
    failure::{Failure, Result},
    json_merge::merge_objects,
    output::Output,
    prompt,
    session::Session,
    text::terminal_safe,
};

/// What is added to the JSON document of the differences.
#[derive(Serialize)]
struct Published {
    /// The publication; absent if nothing was published.
    publication: Option<Publication>,
}

/// Publish the contents of an earlier publication again, or make an earlier version the current one
///
/// Nothing is removed: the earlier contents become new versions. A publication has them all, and `registry manifest`
/// shows it. A version alone is in no publication until the next `registry publish`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry rollback 3\n  \
    agentstore registry rollback release-6 --id release-8 --actor user:ada --yes\n  \
    agentstore registry rollback agent/coder@1\n\n\
    If another process publishes after the difference was shown, the rollback of a publication is refused (exit code 1).")]
pub(super) struct Args {
    /// The publication: its snapshot number or its id; or a version, `KIND/ID@VERSION`
    #[arg(value_name = "PUBLICATION|KIND/ID@VERSION")]
    target: TargetArg,
    /// The id of the new publication; generated if not given
    #[arg(long, value_parser = target::parse_new_id)]
    id: Option<PublicationId>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    audit: AuditArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.target.clone() {
        TargetArg::Publication(target) => roll_back_publication(&target, args, session, out).await,
        TargetArg::Version(target) if target.version.is_some() => {
            if args.id.is_some() {
                return Err(Failure::Usage("`--id` is for publications: a version alone has no id".to_owned()));
            }
            roll_back_version(&target, args, session, out).await
        }
        TargetArg::Version(_) | TargetArg::SameDefinition(_) => {
            Err(Failure::Usage("give a publication, or a version as `KIND/ID@VERSION`".to_owned()))
        }
    }
}

async fn roll_back_publication(
    target: &PublicationArg,
    args: Args,
    session: &Session,
    out: &mut Output,
) -> Result<Ending> {
    let registry = session.registry()?;
    let wanted = load_manifest(&target.0, &*registry).await?;
    let latest = load_manifest(&ManifestChoice::Latest, &*registry).await?;
    let (before, after) = (contents_of(Some(&latest)), contents_of(Some(&wanted)));
    let differences = Differences::of(&before, &after);
    let mut publication = None;
    if show(&differences, args.yes, &format!("the contents of snapshot {}", wanted.publication.snapshot), out)? {
        let id = args.id.map_or_else(|| PublicationId::new(UuidSource.next_id()), Ok)?;
        // The user confirmed the difference from the publication that was read.
        let mut request = PublishAll::new(id).expecting_snapshot(latest.publication.snapshot);
        let audit = args.audit.into_audit()?;
        request.by = Some(audit.actor.to_string());
        let request = RollbackPublication::new(wanted.publication.snapshot, request.audited(audit));
        publication = Some(registry.rollback_publication(request).await.map_err(refused)?);
    }
    if out.is_json() {
        out.print_document(&merge_objects(&differences, &Published { publication })?)?;
    } else if let Some(publication) = &publication {
        out.print_line(format!("published {}", publication_line(publication)))?;
    }
    Ok(Ending::Success)
}

async fn roll_back_version(target: &VersionArg, args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let registry = session.registry()?;
    let wanted = target.load(&*registry).await?;
    let current = VersionArg { definition: target.definition.clone(), version: None }.load(&*registry).await?;
    let [before, after] = [&current, &wanted].map(|it| Contents::from([(it.name.definition.clone(), it.into())]));
    let differences = Differences::of(&before, &after);
    let mut version = None;
    if show(&differences, args.yes, &format!("the content of {}", terminal_safe(&wanted.name.to_string())), out)? {
        version = Some(registry.rollback(&wanted.name, Some(args.audit.into_audit()?)).await?);
    }
    if out.is_json() {
        out.print_document(&merge_objects(&differences, &json!({ "version": version }))?)?;
    } else if let Some(version) = &version {
        let name = terminal_safe(&version.name.to_string());
        out.print_line(format!("made version {name}, which is in no publication yet"))?;
    }
    Ok(Ending::Success)
}

/// Shows the difference, and asks whether to publish. Returns whether there is something to publish.
fn show(differences: &Differences<'_>, yes: bool, what: &str, out: &mut Output) -> Result<bool> {
    if !out.is_json() {
        differences.print(out)?;
    }
    if differences.is_empty() {
        if !out.is_json() {
            out.print_line("the contents are the same: nothing was published")?;
        }
        return Ok(false);
    }
    out.flush()?;
    prompt::confirm(yes, &format!("Publish {what} again?"))?;
    Ok(true)
}
