//! `registry diff`: compares two versions of a definition, or two publications.

use agentstore::ManifestChoice;

use super::{
    Ending,
    difference::{Contents, Differences, contents_of},
    target::{PublicationArg, TargetArg, VersionArg, load_manifest},
};
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

/// Compare two versions of a definition, or two publications
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry diff agent/coder@1 @2\n  \
    agentstore registry diff agent/coder@1\n  agentstore registry diff 3\n  \
    agentstore registry diff release-6 release-7 --json | jq .differences[].change\n\n\
    `agentstore registry publish DIR --dry-run` compares a folder with the latest publication. In the text, `-` marks \
    lines that only A has, and `+` those that only B has.")]
pub(super) struct Args {
    /// The first version, `KIND/ID@VERSION`, or publication: its snapshot number, its id, or `latest`
    a: TargetArg,
    /// The second one; the current version or the latest publication if not given, and `@N` is a version of A
    b: Option<TargetArg>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (before, after) = match (args.a, args.b) {
        (TargetArg::Publication(a), b) => {
            let b = match b {
                None => PublicationArg(ManifestChoice::Latest),
                Some(TargetArg::Publication(b)) => b,
                Some(_) => return Err(different_kinds()),
            };
            (load_publication(&a, session).await?, load_publication(&b, session).await?)
        }
        (TargetArg::Version(a), b) => {
            let definition = a.definition.clone();
            let b = match b {
                None => VersionArg { definition, version: None },
                Some(TargetArg::SameDefinition(version)) => VersionArg { definition, version: Some(version) },
                Some(TargetArg::Version(b)) if b.definition == definition => b,
                Some(_) => return Err(different_kinds()),
            };
            (load_version(&a, session).await?, load_version(&b, session).await?)
        }
        (TargetArg::SameDefinition(_), _) => return Err(different_kinds()),
    };
    let differences = Differences::of(&before, &after);
    if out.is_json() {
        out.print_document(&differences)?;
    } else {
        differences.print(out)?;
    }
    Ok(Ending::Success)
}

fn different_kinds() -> Failure {
    let what =
        "give two versions of one definition, such as `agent/coder@1 @2`, or two publications, such as `3 latest`";
    Failure::Usage(what.to_owned())
}

async fn load_publication(publication: &PublicationArg, session: &Session) -> Result<Contents> {
    let manifest = load_manifest(&publication.0, &*session.registry()?).await?;
    Ok(contents_of(Some(&manifest)))
}

async fn load_version(version: &VersionArg, session: &Session) -> Result<Contents> {
    let found = version.load(&*session.registry()?).await?;
    Ok(Contents::from([(found.name.definition.clone(), (&found).into())]))
}
