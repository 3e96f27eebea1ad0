//! Test LK2 of docs/reliability.md: a server whose clock jumps. A lease may end earlier or later by the size of the
//! jump. No holder commits after another worker has claimed its dispatch (MB-34, PR-22).

use std::{sync::Arc, time::Duration};

use conformance_tests::TestLength;
use store_core::{ClaimRequest, ClaimedDispatch, ErrorKind, NewDispatch, RunId, Settlement, ThreadId, WorkerId};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::Postgres;
use tokio::time::{Instant, sleep};

use super::helpers::{commit_with_message, stores, thread};

const HOUR_SECONDS: i64 = 3_600;

/// A worker with a store of its own. For the server it is like another process.
struct Worker {
    store: Arc<PostgresStore>,
    name: WorkerId,
}

impl Worker {
    async fn new(server: &Postgres, name: &str) -> Self {
        let store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
        Self { store: Arc::new(store), name: WorkerId::new(name).unwrap() }
    }

    async fn enqueue(&self, thread: &ThreadId) {
        let new = NewDispatch::new(thread.clone(), RunId::new(format!("run of {thread}")).unwrap());
        stores(&*self.store).mailbox.unwrap().enqueue(vec![new]).await.unwrap().pop().unwrap().unwrap();
    }

    /// Claims a dispatch for a minute, if there is one.
    async fn claim(&self) -> Option<ClaimedDispatch> {
        let request = ClaimRequest::new(self.name.clone(), Duration::from_secs(60));
        let claims = stores(&*self.store).mailbox.unwrap().claim(request).await.unwrap();
        claims.claimed.into_iter().next()
    }

    /// Claims a dispatch as soon as one is found. A claim skips the parts of the index in which an earlier claim of the
    /// process found nothing. If the clock jumped back and forward since then, a skipped part may contain the dispatch.
    /// After half a second, the process searches all parts again.
    async fn claim_soon(&self) -> ClaimedDispatch {
        let began = Instant::now();
        loop {
            match self.claim().await {
                Some(claimed) => return claimed,
                None => assert!(began.elapsed() < Duration::from_secs(1), "nothing can be claimed"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn settle(&self, claim: &ClaimedDispatch) -> Result<(), ErrorKind> {
        let settlements = vec![(claim.claim(), Settlement::Ack { result: None })];
        let answer = stores(&*self.store).mailbox.unwrap().settle(settlements).await.unwrap().pop().unwrap();
        answer.map(|_| ()).map_err(|error| error.kind())
    }

    async fn commit(&self, to: &ThreadId, claim: &ClaimedDispatch, key: &str) -> Result<(), ErrorKind> {
        let commit = commit_with_message(to, key);
        let answer = stores(&*self.store).commits.unwrap().commit(commit.fenced(claim.fence())).await;
        answer.map(|_| ()).map_err(|error| error.kind())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_clock_jump_lets_two_holders_commit() {
    let server = Postgres::start_with_clock().unwrap();
    let workers = [Worker::new(&server, "one").await, Worker::new(&server, "two").await];
    let rounds = TestLength::pick_by_env(3, 8, 40);
    for round in 0..rounds {
        let to = thread(format!("t-{round}"));
        let [one, two] = &workers;
        one.enqueue(&to).await;
        let first_claim = one.claim_soon().await;
        server.set_clock(HOUR_SECONDS).unwrap();
        // The lease has ended for every worker, and its holder cannot commit any more.
        let second_claim = two.claim_soon().await;
        assert!(second_claim.number > first_claim.number);
        assert_eq!(one.commit(&to, &first_claim, "early").await, Err(ErrorKind::ClaimLost));
        assert_eq!(one.settle(&first_claim).await, Err(ErrorKind::ClaimLost));
        two.commit(&to, &second_claim, "late").await.unwrap();
        // The clock goes back: the lease lasts an hour longer, and still belongs to the second worker.
        server.set_clock(0).unwrap();
        assert_eq!(one.claim().await, None);
        assert_eq!(one.commit(&to, &first_claim, "early").await, Err(ErrorKind::ClaimLost));
        two.commit(&to, &second_claim, "later").await.unwrap();
        two.settle(&second_claim).await.unwrap();
        let stored = stores(&*one.store).threads.unwrap().load_thread(&to).await.unwrap().unwrap();
        assert_eq!(stored.version.number(), 2);
    }
    // If the clock jumps back during a lease, the lease lasts until the clock reaches its end.
    let to = thread("last");
    server.set_clock(HOUR_SECONDS).unwrap();
    workers[0].enqueue(&to).await;
    let last_claim = workers[0].claim_soon().await;
    server.set_clock(0).unwrap();
    assert_eq!(workers[1].claim().await, None);
    server.set_clock(HOUR_SECONDS + 61).unwrap();
    let _second_claim = workers[1].claim_soon().await;
    assert_eq!(workers[0].settle(&last_claim).await, Err(ErrorKind::ClaimLost));
    println!("{rounds} rounds of jumps by an hour: nothing committed twice");
    drop(workers);
    server.stop().unwrap();
}
