//! A worker process. It runs the worker loop of the facade until it is killed. Its store records what is done under
//! claims.

use std::{io::Read, path::Path, sync::Arc, time::Duration};

use agentstore::{
    ClaimNumber, Custom, Done, ErrorKind, Failure, Json, NewEntry, Outcome, Stores, TenantId, Work, Worker, WorkerId,
    WorkerOptions,
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::{
    logged::LoggedStore,
    options::StoreUrls,
    record::{DispatchName, Log},
};

/// The kind of the entry that a handler writes to the thread of its dispatch.
pub(crate) const DONE_KIND: &str = "soak.done";
/// One in this many jobs takes longer than a lease. The number is prime, so that these jobs are spread over the
/// threads.
const LONG_JOB_INTERVAL: u32 = 199;
/// How long a worker waits before it repeats a call that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The data of an entry, and of a result: the dispatch, and the claim under which it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoneBy {
    pub(crate) dispatch: DispatchName,
    pub(crate) claim: ClaimNumber,
}

/// The arguments of a worker process.
pub(crate) struct WorkerArguments<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) name: &'a str,
    pub(crate) log: &'a Path,
    pub(crate) lease: Duration,
}

/// Opens the stores. Retries for half a minute or longer, because a server may be just starting.
pub(crate) async fn open_stores(urls: &StoreUrls) -> Result<Stores> {
    let mut tries = 0;
    loop {
        let opened = match &urls.mailbox {
            Some(mailbox) => Stores::builder(&urls.store).mailbox(mailbox).open().await,
            None => agentstore::open(&urls.store).await,
        };
        match opened {
            Err(error) if (error.is_retryable() || error.outcome() == Outcome::Unknown) && tries < 600 => tries += 1,
            opened => return opened.context("the store cannot be opened"),
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Works until the process is killed, or until the process that started it has ended.
pub(crate) async fn run(urls: &StoreUrls, arguments: WorkerArguments<'_>) -> Result<()> {
    // The standard input is a pipe from the process that started this one. It closes when that process ends.
    std::thread::spawn(|| {
        let _closed = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let stores = open_stores(urls).await?;
    let logged_stores = Stores::new(Arc::new(LoggedStore::new(stores.into_store(), Log::create(arguments.log)?)));
    let options = WorkerOptions::default().with_name(WorkerId::new(arguments.name)?).with_lease(arguments.lease);
    let long_pause = arguments.lease.mul_f32(1.5);
    let worker = Worker::with_options(
        &logged_stores,
        &arguments.tenant,
        move |work| handle_dispatch(work, long_pause),
        options,
    )?;
    worker.start()?.join().await?;
    anyhow::bail!("the worker stopped on its own")
}

/// Handles a dispatch: writes its entry, and acknowledges it. In one store, one commit does both.
async fn handle_dispatch(work: Work, long_pause: Duration) -> Result<Done, Failure> {
    let dispatch: DispatchName = work.dispatch().id.as_str().parse().map_err(Failure::permanent)?;
    if dispatch.job.is_multiple_of(LONG_JOB_INTERVAL) {
        // The handler ignores its cancellation. If its claim is lost meanwhile, the store must refuse its write.
        sleep(long_pause).await;
    }
    let result = Json::of(&DoneBy { dispatch, claim: work.claim_number() })?;
    let Ok(commits) = work.commits() else { return Ok(Done::ack_with_result(result)) };
    let entry = NewEntry::new(Custom::new(DONE_KIND, result.clone()));
    let mut commit = work.new_commit().with_key(work.key("done")?).entry(entry);
    if work.can_settle_in_commit() {
        commit = commit.settling(agentstore::Settlement::Ack { result: Some(result.clone()) });
    }
    loop {
        match commits.commit(commit.clone()).await {
            Ok(_) if work.can_settle_in_commit() => return Ok(Done::Committed),
            Ok(_) => return Ok(Done::ack_with_result(result)),
            // An earlier attempt wrote the entry, with the number of its own claim, but did not settle the dispatch.
            Err(error) if error.kind() == ErrorKind::IdempotencyMismatch && !work.can_settle_in_commit() => {
                return Ok(Done::ack_with_result(result));
            }
            Err(error) if error.outcome() == Outcome::Unknown || error.is_retryable() => sleep(RETRY_PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}
