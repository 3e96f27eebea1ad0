//! `demo`: the tour: import, commit, deliver, work, crash, resume, branch; each step says what it proved.

mod crash;
mod deliver;
mod report;
mod resume;
mod script;
mod steps;
mod turn;
mod work;
pub(crate) mod writer;

use std::path::PathBuf;

use agentstore::{IdSource, StoreUrl, TenantId, Uuids};
use tempfile::TempDir;

use self::report::Report;
use super::Ending;
use crate::{
    args::Global,
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
};

/// Take the tour: import, commit, deliver input, queue work, crash, resume, branch; each step says what it proved
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore demo\n  agentstore demo --keep\n  agentstore demo --store memory: --json\n  \
    agentstore demo --mailbox sqlite:queue.db\n\n\
    Unless `--store` or AGENTSTORE_URL names a store it works on a temporary one, which is gone afterwards. Its work is \
    queued in the same store, or in that of `--mailbox` or AGENTSTORE_MAILBOX."
)]
pub(crate) struct Args {
    /// Keep the temporary store, and say where it is
    #[arg(long)]
    keep: bool,
}

/// What the steps of the tour work on.
struct Tour {
    url: StoreUrl,
    /// Where the mailbox is, if it is in another store.
    mailbox: Option<StoreUrl>,
    tenant: TenantId,
    /// Begins every id and key of this tour, so that it can be taken again on the same store.
    name: String,
    /// The folder with the session's file.
    folder: PathBuf,
}

pub(crate) async fn run(args: Args, global: &Global, out: &mut Output) -> Result<Ending> {
    let folder = TempDir::with_prefix("agentstore-demo-")
        .map_err(|error| Failure::io("no temporary folder can be made", error))?;
    let tour = Tour {
        url: global.named_store().cloned().unwrap_or_else(|| StoreUrl::File(folder.path().join("agentstore-data"))),
        mailbox: global.mailbox().cloned(),
        tenant: global.tenant.clone(),
        name: format!("demo-{}", Uuids.next_id()),
        folder: folder.path().to_owned(),
    };
    let mut report = Report::begin(&tour.open(Access::Create).await?, out)?;
    let toured = steps::take(&tour, &mut report).await;
    let kept = args.keep && global.named_store().is_none();
    if kept {
        // The folder is the user's from here on.
        let _kept = folder.keep();
    }
    toured?;
    report.end(kept.then(|| tour.url.to_string()).as_deref())
}

impl Tour {
    async fn open(&self, access: Access) -> Result<Session> {
        Session::open_at(self.url.clone(), self.mailbox.as_ref(), self.tenant.clone(), access).await
    }
}
