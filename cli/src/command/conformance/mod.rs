//! `conformance`: runs the suite that every store must pass, on new stores next to the named store.

#[cfg(test)]
pub(crate) mod copies;
mod fixture;
#[cfg(test)]
mod round_trips;

use agentstore::{Detail, Error, ErrorKind, PageRequest, StoreUrl};
use conformance_tests::{Report, SuiteRefusal};
use serde::Serialize;

use self::fixture::UrlFixture;
use super::Ending;
use crate::{
    args::GlobalArgs,
    failure::{Failure, Result},
    json_merge::merge_objects,
    output::Output,
    progress::TerminalProgress,
    session::{Access, Session},
    text::terminal_safe,
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
    check_store_is_empty(global).await?;
    let fixture = UrlFixture::new(global.store_url()).await?;
    let bar = TerminalProgress::new("running the suite");
    let report = conformance_tests::run(fixture).await;
    bar.finish();
    let report = report.map_err(|refusal| match refusal {
        SuiteRefusal::HoldsData => has_data_failure(global),
        SuiteRefusal::Failed(error) => error.into(),
    })?;
    print(&report, out)?;
    Ok(if report.is_success() { Ending::Success } else { Ending::Problem })
}

/// Returns an error if the named store exists and any tenant has data in it.
async fn check_store_is_empty(global: &GlobalArgs) -> Result<()> {
    let store = global.store_url();
    let session = match &store {
        StoreUrl::File(path) | StoreUrl::Sqlite(path) if path.exists() => Session::open(global, Access::Read).await?,
        StoreUrl::Buffered { inner, .. } => {
            let text = format!("the suite is run on a store without a write buffer: name it as `{inner}`");
            return Err(Failure::Usage(text));
        }
        StoreUrl::Postgres(_) | StoreUrl::Nats(_) => match Session::open(global, Access::Read).await {
            Err(Failure::Library { error, .. }) if error.kind() == ErrorKind::SchemaMismatch => return Ok(()),
            opened => opened?,
        },
        _ => return Ok(()),
    };
    let tenants = session.stores().store().list_tenants(PageRequest::first(1)).await?;
    session.close().await?;
    if tenants.items.is_empty() { Ok(()) } else { Err(has_data_failure(global)) }
}

fn has_data_failure(global: &GlobalArgs) -> Failure {
    let what = format!("store `{}`", terminal_safe(&global.store_url().to_string()));
    let detail = Detail::Invalid { what, reason: "it already contains data".to_owned() };
    Failure::from(Error::new(detail)).with_advice("name a folder, schema or prefix that does not exist yet")
}

fn print(report: &Report, out: &mut Output) -> Result<()> {
    let [passed, failed, unsupported, gap, not_run] = report.counts();
    if out.is_json() {
        let counts = CaseCounts { passed, failed, unsupported, gap, not_run };
        return out.print_document(&merge_objects(&counts, report)?);
    }
    out.print_line(report.to_string().trim_end())
}
