//! `demo`: shows in several steps how a store works. Each step prints its result.

mod crash;
mod deliver;
mod report;
mod resume;
mod session_file;
mod steps;
mod turn;
mod work;
pub(crate) mod writer;

use std::path::PathBuf;

use agentstore::{IdSource, StoreUrl, TenantId, UuidSource};
use tempfile::TempDir;

use self::report::DemoReport;
use super::Ending;
use crate::{
    args::{GlobalArgs, PartUrls},
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
};

/// Show what a store does: import, commit, deliver input, queue work, crash, resume, fork, rewind and verify
///
/// Each step prints what it did and what that proved.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore demo\n  agentstore demo --keep\n  agentstore demo --store memory: --json\n  \
    agentstore demo --mailbox sqlite:queue.db\n\n\
    The demo works on a temporary store, which is removed afterwards, unless `--store` or AGENTSTORE_URL names a \
    store. It queues work in the same store, or in the store of `--mailbox` or AGENTSTORE_MAILBOX."
)]
pub(crate) struct Args {
    /// Keep the temporary store, and print where it is
    #[arg(long)]
    keep: bool,
}

/// What the steps of the demo work on.
struct Demo {
    urls: PartUrls,
    tenant: TenantId,
    /// The beginning of the ids and keys that this demo uses. Each demo on the same store has a different beginning.
    id_prefix: String,
    /// The folder with the session file.
    folder: PathBuf,
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let folder = TempDir::with_prefix("agentstore-demo-")
        .map_err(|error| Failure::io("no temporary folder can be created", error))?;
    let temporary_url = || StoreUrl::File(folder.path().join("agentstore-data"));
    let store = global.given_store_url().cloned().unwrap_or_else(temporary_url);
    let store = global.behind_buffer(store).map_err(Failure::Usage)?;
    let demo = Demo {
        urls: PartUrls { store, ..global.part_urls() },
        tenant: global.tenant.clone(),
        id_prefix: format!("demo-{}", UuidSource.next_id()),
        folder: folder.path().to_owned(),
    };
    let mut report = DemoReport::begin(&demo.open(Access::Create).await?, out)?;
    let steps_result = steps::run_all(&demo, &mut report).await;
    let is_kept = args.keep && global.given_store_url().is_none();
    if is_kept {
        // From here on the folder is not removed.
        let _kept = folder.keep();
    }
    steps_result?;
    report.end(is_kept.then(|| demo.urls.store.to_string()).as_deref())
}

impl Demo {
    async fn open(&self, access: Access) -> Result<Session> {
        Session::open_at(self.urls.clone(), self.tenant.clone(), access).await
    }
}
