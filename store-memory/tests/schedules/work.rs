//! Workers process the dispatches of a few threads. Meanwhile another task interrupts or cancels, one worker is dropped
//! in the middle of its work, and the time advances so that leases expire. Each dispatch ends once, no thread has two
//! holders, and each commit of a holder is in the log once.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use shuttle::future::{spawn, yield_now};
use store_core::{
    ClaimNumber, ClaimedDispatch, Commit, CommitKey, DispatchFilter, DispatchId, DispatchQuery, DispatchStatus, Error,
    ErrorKind, Interrupt, Settlement, ThreadId,
};

use crate::{
    check::{Tally, check_all_schedules},
    test_store::{
        LEASE, LONG_TIMEOUT, TestStore, ack, claim_request, id, new_dispatch, poll_at_most, random_below, user_entry,
    },
};

const THREADS: [&str; 2] = ["a", "b"];
/// The number of dispatches of each thread.
const DISPATCHES: usize = 2;
const WORKERS: usize = 2;

#[test]
fn each_dispatch_ends_once() {
    let expected_situations = [
        "acked by a commit",
        "acked",
        "cancelled",
        "claims",
        "claims lost",
        "commits",
        "commits repeated",
        "worker dropped",
        "interrupted",
        "superseded",
        "taken over",
        "too late to cancel",
        "waits",
    ];
    check_all_schedules("each dispatch ends once", &expected_situations, dispatch_scenario);
}

async fn dispatch_scenario(tally: Tally) {
    let scenario = Arc::new(Scenario::new(tally));
    for name in (1..=DISPATCHES).flat_map(|number| THREADS.map(|thread| format!("{thread}{number}"))) {
        scenario.enqueue(&name).await;
    }
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(Arc::clone(&scenario).serve())).collect();
    let interrupter = spawn(Arc::clone(&scenario).interrupt_or_cancel());
    let (max_polls, droppable_scenario) = (random_below(6), Arc::clone(&scenario));
    let droppable_worker = spawn(async move {
        let serve_once = async {
            let _woken = droppable_scenario.test_store.wake_ups.wait(LONG_TIMEOUT).await.unwrap();
            droppable_scenario.serve_once().await
        };
        if poll_at_most(serve_once, max_polls).await.is_none() {
            droppable_scenario.tally.count("worker dropped");
        }
    });
    droppable_worker.await.unwrap();
    // From now on the dispatch that the dropped worker held can be claimed again. Workers that hold a claim may lose it
    // as well.
    scenario.test_store.clock.advance(LEASE);
    scenario.check_single_claims().await;
    interrupter.await.unwrap();
    scenario.stop_if_done().await;
    for worker in workers {
        worker.await.unwrap();
    }
    scenario.check_results().await;
}

struct Scenario {
    test_store: TestStore,
    tally: Tally,
    may_interrupt: AtomicBool,
    observations: Mutex<Observations>,
}

/// What the tasks have observed. It is locked only between two calls of the store.
#[derive(Default)]
struct Observations {
    enqueued_ids: Vec<DispatchId>,
    /// The claims of each thread whose holders have not begun to settle them.
    open_claims: HashMap<ThreadId, Vec<ClaimedDispatch>>,
    /// The threads that an interrupt may have taken over.
    taken_over_threads: Vec<ThreadId>,
    /// For each text that was committed, the claim of its commit.
    commit_claims: HashMap<String, ClaimNumber>,
    final_statuses: HashMap<DispatchId, Vec<DispatchStatus>>,
}

impl Scenario {
    fn new(tally: Tally) -> Self {
        Self {
            test_store: TestStore::new(),
            tally,
            may_interrupt: AtomicBool::new(true),
            observations: Mutex::default(),
        }
    }

    fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap()
    }

    /// Enqueues a dispatch. The first letter of its name is the id of its thread.
    async fn enqueue(&self, name: &str) {
        self.observations().enqueued_ids.push(id(name));
        self.test_store.enqueue(new_dispatch(&name[..1], name)).await;
    }

    async fn serve(self: Arc<Self>) {
        while let Some(is_idle) = self.serve_once().await {
            self.stop_if_done().await;
            if is_idle {
                self.tally.count("waits");
                self.test_store.wake_ups.wait(LONG_TIMEOUT).await.unwrap();
            }
        }
    }

    /// Claims a dispatch and works on it. Returns `Some(true)` if there was nothing to claim, `Some(false)` after work,
    /// and `None` if the dispatch tells the worker to stop.
    async fn serve_once(&self) -> Option<bool> {
        let Some(claimed_dispatch) = self.test_store.mailbox.claim(claim_request()).await.unwrap().claimed.pop() else {
            return Some(true);
        };
        if claimed_dispatch.dispatch.id.as_str().starts_with("stop") {
            // The settlement may be too late. Then the next holder of the dispatch stops as well.
            let _answer = self.test_store.mailbox.settle(vec![(claimed_dispatch.claim(), ack())]).await.unwrap();
            return None;
        }
        self.tally.count("claims");
        self.record_claim(&claimed_dispatch);
        yield_now().await;
        self.finish(claimed_dispatch).await;
        Some(false)
    }

    /// Commits the name of a dispatch as an entry and settles the dispatch, in one step or in two.
    async fn finish(&self, claimed_dispatch: ClaimedDispatch) {
        let name = claimed_dispatch.dispatch.id.as_str();
        let key: CommitKey = id(name);
        let mut commit = Commit::new(claimed_dispatch.dispatch.thread.clone())
            .with_key(key)
            .fenced(claimed_dispatch.fence())
            .entry(user_entry(name));
        let settles_in_commit = name.ends_with('2');
        if settles_in_commit {
            commit = commit.settling(ack());
            self.record_release(&claimed_dispatch);
        }
        let result = self.test_store.commits.commit(commit).await;
        match &result {
            Ok(receipt) if receipt.deduplicated => self.tally.count("commits repeated"),
            Ok(_) => self.record_commit(name, claimed_dispatch.number),
            Err(error) => self.record_refusal(error),
        }
        let settlement = match result {
            Ok(receipt) if settles_in_commit => {
                if !receipt.deduplicated {
                    self.tally.count("acked by a commit");
                    self.record_end(&claimed_dispatch.dispatch.id, DispatchStatus::Acked);
                }
                return;
            }
            Ok(_) => ack(),
            // A holder whose commit is refused releases the claim, which it may still hold.
            Err(_) => Settlement::Release,
        };
        yield_now().await;
        self.record_release(&claimed_dispatch);
        let is_done = settlement == ack();
        match self.test_store.mailbox.settle(vec![(claimed_dispatch.claim(), settlement)]).await.unwrap().remove(0) {
            Ok(settled) => {
                assert!(is_done && !settled.deduplicated, "{settled:?}");
                self.tally.count("acked");
                self.record_end(&claimed_dispatch.dispatch.id, DispatchStatus::Acked);
            }
            Err(error) => self.record_refusal(&error),
        }
    }

    /// Interrupts a thread, with or without taking over, or cancels a dispatch.
    async fn interrupt_or_cancel(self: Arc<Self>) {
        let thread: ThreadId = id(THREADS[random_below(THREADS.len())]);
        match random_below(3) {
            0 => {
                let dispatch: DispatchId = id(&format!("{thread}{}", 1 + random_below(DISPATCHES)));
                match self.test_store.mailbox.cancel(&dispatch).await {
                    Ok(_) => {
                        self.tally.count("cancelled");
                        self.record_end(&dispatch, DispatchStatus::Cancelled);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidTransition);
                        self.tally.count("too late to cancel");
                    }
                }
            }
            1 => {
                let _ = self.test_store.mailbox.interrupt(Interrupt::new(thread.clone())).await.unwrap();
                self.tally.count("interrupted");
                self.enqueue(&format!("{thread}3")).await;
            }
            _ => {
                self.observations().taken_over_threads.push(thread.clone());
                let answer =
                    self.test_store.mailbox.interrupt(Interrupt::new(thread.clone()).taking_over()).await.unwrap();
                let fence = answer.fence.unwrap();
                let (name, number) = (format!("{thread} taken over"), fence.claim);
                let commit =
                    Commit::new(thread.clone()).with_key(id("taken over")).fenced(fence).entry(user_entry(&name));
                let _ = self.test_store.commits.commit(commit).await.unwrap();
                self.record_commit(&name, number);
                self.tally.count("taken over");
                self.enqueue(&format!("{thread}3")).await;
            }
        }
        self.check_single_claims().await;
        self.may_interrupt.store(false, Ordering::SeqCst);
    }

    /// Checks that no thread has two claims.
    async fn check_single_claims(&self) {
        for thread in THREADS {
            let filter = DispatchFilter::of_thread(id(thread)).in_status([DispatchStatus::Claimed]);
            let claimed_dispatches =
                self.test_store.mailbox.list_dispatches(DispatchQuery::new(filter)).await.unwrap().items;
            assert!(claimed_dispatches.len() <= 1, "{claimed_dispatches:?}");
        }
    }

    /// Tells the workers to stop when every dispatch has ended and no more will be enqueued. Each task that ends a
    /// dispatch calls this function afterwards, and a dispatch that has ended stays so. So the last of these calls
    /// finds that all have ended.
    async fn stop_if_done(&self) {
        if self.may_interrupt.load(Ordering::SeqCst) {
            return;
        }
        for thread in THREADS {
            let counts = self.test_store.mailbox.count_dispatches(Some(&id(thread))).await.unwrap();
            if counts.queued + counts.claimed > 0 {
                return;
            }
        }
        // The workers need one dispatch each. There is one more, because the worker that is dropped may claim one.
        for number in 0..=WORKERS {
            let name = format!("stop{number}");
            self.test_store.enqueue(new_dispatch(&name, &name)).await;
        }
    }

    /// Records a claim. Checks that each earlier claim of its thread had ended before: its lease had expired, or an
    /// interrupt had taken the thread over.
    fn record_claim(&self, claimed_dispatch: &ClaimedDispatch) {
        let mut observations = self.observations();
        let is_taken_over = observations.taken_over_threads.contains(&claimed_dispatch.dispatch.thread);
        let open_claims = observations.open_claims.entry(claimed_dispatch.dispatch.thread.clone()).or_default();
        for other in &*open_claims {
            let (earlier_claim, later_claim) = if other.number < claimed_dispatch.number {
                (other, claimed_dispatch)
            } else {
                (claimed_dispatch, other)
            };
            let (earlier_lease, later_lease) =
                (earlier_claim.dispatch.claim.as_ref().unwrap(), later_claim.dispatch.claim.as_ref().unwrap());
            let is_expired = earlier_lease.lease_until <= later_lease.claimed_at;
            let is_superseded = is_taken_over && earlier_claim.dispatch.epoch < later_claim.dispatch.epoch;
            assert!(
                earlier_claim.number < later_claim.number && (is_expired || is_superseded),
                "{earlier_claim:?} is claimed, and so is {later_claim:?}"
            );
        }
        open_claims.push(claimed_dispatch.clone());
    }

    /// Records that a claim is about to be settled. From now on another worker may claim the thread.
    fn record_release(&self, claimed_dispatch: &ClaimedDispatch) {
        let mut observations = self.observations();
        observations
            .open_claims
            .entry(claimed_dispatch.dispatch.thread.clone())
            .or_default()
            .retain(|other| other.number != claimed_dispatch.number);
    }

    fn record_commit(&self, name: &str, number: ClaimNumber) {
        self.tally.count("commits");
        let earlier_number = self.observations().commit_claims.insert(name.to_owned(), number);
        assert!(earlier_number.is_none(), "{name} was committed under {earlier_number:?} and {number:?}");
    }

    fn record_end(&self, dispatch: &DispatchId, status: DispatchStatus) {
        self.observations().final_statuses.entry(dispatch.clone()).or_default().push(status);
    }

    fn record_refusal(&self, error: &Error) {
        match error.kind() {
            ErrorKind::ClaimLost => self.tally.count("claims lost"),
            ErrorKind::StaleEpoch => self.tally.count("superseded"),
            _ => panic!("{error}"),
        }
    }

    async fn check_results(&self) {
        let Observations { enqueued_ids, commit_claims, mut final_statuses, .. } =
            std::mem::take(&mut *self.observations());
        for name in &enqueued_ids {
            let dispatch = self.test_store.mailbox.load_dispatch(name).await.unwrap().unwrap();
            let statuses = final_statuses.remove(name).unwrap_or_default();
            assert!(dispatch.finished_at.is_some() && dispatch.claim.is_none(), "{dispatch:?}");
            match dispatch.status {
                status @ (DispatchStatus::Acked | DispatchStatus::Cancelled) => {
                    assert_eq!(statuses, [status], "{name}")
                }
                DispatchStatus::Superseded => assert!(statuses.is_empty(), "{name}: {statuses:?}"),
                _ => panic!("{dispatch:?}"),
            }
            let is_committed = commit_claims.contains_key(name.as_str());
            // A dispatch whose name does not end with `2` is settled after its commit. In between it may be superseded.
            match dispatch.status {
                DispatchStatus::Acked => assert!(is_committed, "{name}"),
                DispatchStatus::Superseded if !name.as_str().ends_with('2') => {}
                _ => assert!(!is_committed, "{name}"),
            }
            let claims: Vec<_> = dispatch.history.iter().map(|attempt| attempt.claim).collect();
            assert!(claims.is_sorted(), "{claims:?}");
        }
        for thread in THREADS {
            self.check_log(thread, &commit_claims).await;
        }
    }

    /// Checks that each accepted commit is in the log once, and that the entries of a holder come before those of later
    /// holders.
    async fn check_log(&self, thread: &str, commit_claims: &HashMap<String, ClaimNumber>) {
        let texts = self.test_store.entry_texts(&id(thread)).await;
        let accepted_count = commit_claims.keys().filter(|name| name.starts_with(thread)).count();
        assert_eq!(
            (texts.len(), self.test_store.version_number(&id(thread)).await),
            (accepted_count, accepted_count as u64)
        );
        let numbers: Vec<_> = texts.iter().map(|text| commit_claims[text]).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?} {numbers:?}");
    }
}
