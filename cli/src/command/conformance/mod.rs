//! `conformance`: runs the suite that every store must pass, on new stores next to the named store.

mod fixture;

use agentstore::{Detail, Error, ErrorKind, PageRequest, StoreUrl};
use conformance_tests::{Refusal, Report};
use serde::Serialize;

use self::fixture::UrlFixture;
use super::Ending;
use crate::{
    args::GlobalArgs,
    document::merge_objects,
    failure::{Failure, Result},
    output::Output,
    progress::Bar,
    session::{Access, Session},
    text::safe,
};

/// Run the suite that every store must pass, and print which cases passed
///
/// If the named store has data, the command refuses to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore conformance --store memory:\n  \
    agentstore conformance --store file:/mnt/disk/agentstore-data --json\n\n\
    Each case runs on a new store of the same kind next to the named store. The new stores are removed afterwards. \
    The exit code is 1 if a case failed.")]
pub(crate) struct Args {}

/// The number of cases with each result.
#[derive(Serialize)]
struct CaseCounts {
    passed: usize,
    failed: usize,
    unsupported: usize,
    gap: usize,
    not_run: usize,
}

pub(crate) async fn run(_args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    refuse_data(global).await?;
    let live = UrlFixture::new(global.store()).await?;
    let bar = Bar::new("running the suite");
    let report = conformance_tests::run(live).await;
    bar.finish();
    let report = report.map_err(|refusal| match refusal {
        Refusal::HoldsData => holds_data(global),
        Refusal::Failed(error) => error.into(),
    })?;
    print(&report, out)?;
    Ok(if report.is_success() { Ending::Success } else { Ending::Problem })
}

/// Returns an error if the named store exists and any tenant has data in it.
async fn refuse_data(global: &GlobalArgs) -> Result<()> {
    let store = global.store();
    let session = match &store {
        StoreUrl::File(path) | StoreUrl::Sqlite(path) if path.exists() => Session::open(global, Access::Read).await?,
        StoreUrl::Postgres(_) | StoreUrl::Nats(_) => match Session::open(global, Access::Read).await {
            Err(Failure::Refused { error, .. }) if error.kind() == ErrorKind::SchemaMismatch => return Ok(()),
            opened => opened?,
        },
        _ => return Ok(()),
    };
    let tenants = session.stores().store().list_tenants(PageRequest::first(1)).await?;
    session.close().await?;
    if tenants.items.is_empty() { Ok(()) } else { Err(holds_data(global)) }
}

fn holds_data(global: &GlobalArgs) -> Failure {
    let what = format!("store `{}`", safe(&global.store().to_string()));
    let detail = Detail::Invalid { what, reason: "it already contains data".to_owned() };
    Failure::from(Error::new(detail)).advise("name a folder, schema or prefix that does not exist yet")
}

fn print(report: &Report, out: &mut Output) -> Result<()> {
    let [passed, failed, unsupported, gap, not_run] = report.counts();
    if out.json() {
        let counts = CaseCounts { passed, failed, unsupported, gap, not_run };
        return out.document(&merge_objects(&counts, report)?);
    }
    out.line(report.to_string().trim_end())
}
