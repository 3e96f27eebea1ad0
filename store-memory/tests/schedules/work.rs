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
    check::{Tally, holds},
    given::{Given, LEASE, LONG, ack, below, claim, id, polled, said, work},
};

const THREADS: [&str; 2] = ["a", "b"];
/// The number of dispatches of each thread.
const DISPATCHES: usize = 2;
const WORKERS: usize = 2;

#[test]
fn each_dispatch_ends_once() {
    let wanted = [
        "acked by a commit",
        "acked",
        "cancelled",
        "claims",
        "claims lost",
        "commits",
        "commits repeated",
        "gone",
        "interrupted",
        "superseded",
        "taken over",
        "too late to cancel",
        "waits",
    ];
    holds("each dispatch ends once", &wanted, dispatches);
}

async fn dispatches(tally: Tally) {
    let scene = Arc::new(Scene::new(tally));
    for name in (1..=DISPATCHES).flat_map(|number| THREADS.map(|thread| format!("{thread}{number}"))) {
        scene.enqueue(&name).await;
    }
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(Arc::clone(&scene).serve())).collect();
    let meddler = spawn(Arc::clone(&scene).meddle());
    let (times, going) = (below(6), Arc::clone(&scene));
    let gone = spawn(async move {
        let serving = async {
            let _woken = going.given.wake_ups.wait(LONG).await.unwrap();
            going.serve_once().await
        };
        if polled(serving, times).await.is_none() {
            going.tally.count("gone");
        }
    });
    gone.await.unwrap();
    // From now on the dispatch that the dropped worker held can be claimed again. Workers that hold a claim may lose
    // it, too.
    scene.given.clock.advance(LEASE);
    scene.look().await;
    meddler.await.unwrap();
    scene.stop_if_done().await;
    for worker in workers {
        worker.await.unwrap();
    }
    scene.judge().await;
}

struct Scene {
    given: Given,
    tally: Tally,
    is_meddling: AtomicBool,
    book: Mutex<Book>,
}

/// What the tasks have observed. It is locked only between two calls of the store.
#[derive(Default)]
struct Book {
    enqueued: Vec<DispatchId>,
    /// The claims of each thread whose holders have not begun to settle them.
    holders: HashMap<ThreadId, Vec<ClaimedDispatch>>,
    /// The threads that an interrupt may have taken over.
    taken_over: Vec<ThreadId>,
    /// For each text that was committed, the claim of its commit.
    committed: HashMap<String, ClaimNumber>,
    ended: HashMap<DispatchId, Vec<DispatchStatus>>,
}

impl Scene {
    fn new(tally: Tally) -> Self {
        Self { given: Given::new(), tally, is_meddling: AtomicBool::new(true), book: Mutex::default() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// Enqueues a dispatch. The first letter of its name is the id of its thread.
    async fn enqueue(&self, name: &str) {
        self.book().enqueued.push(id(name));
        self.given.enqueue(work(&name[..1], name)).await;
    }

    async fn serve(self: Arc<Self>) {
        while let Some(is_idle) = self.serve_once().await {
            self.stop_if_done().await;
            if is_idle {
                self.tally.count("waits");
                self.given.wake_ups.wait(LONG).await.unwrap();
            }
        }
    }

    /// Claims a dispatch and works on it. Returns whether there was no dispatch, or `None` if the dispatch tells the
    /// worker to stop.
    async fn serve_once(&self) -> Option<bool> {
        let Some(held) = self.given.mailbox.claim(claim()).await.unwrap().claimed.pop() else { return Some(true) };
        if held.dispatch.id.as_str().starts_with("stop") {
            // The settlement may be too late. Then the next holder of the dispatch stops as well.
            let _answer = self.given.mailbox.settle(vec![(held.claim(), ack())]).await.unwrap();
            return None;
        }
        self.tally.count("claims");
        self.take(&held);
        yield_now().await;
        self.finish(held).await;
        Some(false)
    }

    /// Commits the name of a dispatch as an entry and settles the dispatch, in one step or in two.
    async fn finish(&self, held: ClaimedDispatch) {
        let name = held.dispatch.id.as_str();
        let key: CommitKey = id(name);
        let mut commit = Commit::new(held.dispatch.thread.clone()).with_key(key).fenced(held.fence()).entry(said(name));
        let settles = name.ends_with('2');
        if settles {
            commit = commit.settling(ack());
            self.give(&held);
        }
        let committed = self.given.commits.commit(commit).await;
        match &committed {
            Ok(receipt) if receipt.deduplicated => self.tally.count("commits repeated"),
            Ok(_) => self.committed(name, held.number),
            Err(error) => self.lost(error),
        }
        let settlement = match committed {
            Ok(receipt) if settles => {
                if !receipt.deduplicated {
                    self.tally.count("acked by a commit");
                    self.end(&held.dispatch.id, DispatchStatus::Acked);
                }
                return;
            }
            Ok(_) => ack(),
            // A holder whose commit is refused releases the claim, which it may still hold.
            Err(_) => Settlement::Release,
        };
        yield_now().await;
        self.give(&held);
        let is_done = settlement == ack();
        match self.given.mailbox.settle(vec![(held.claim(), settlement)]).await.unwrap().remove(0) {
            Ok(settled) => {
                assert!(is_done && !settled.deduplicated, "{settled:?}");
                self.tally.count("acked");
                self.end(&held.dispatch.id, DispatchStatus::Acked);
            }
            Err(error) => self.lost(&error),
        }
    }

    /// Interrupts a thread, with or without taking over, or cancels a dispatch.
    async fn meddle(self: Arc<Self>) {
        let thread: ThreadId = id(THREADS[below(THREADS.len())]);
        match below(3) {
            0 => {
                let dispatch: DispatchId = id(&format!("{thread}{}", 1 + below(DISPATCHES)));
                match self.given.mailbox.cancel(&dispatch).await {
                    Ok(_) => {
                        self.tally.count("cancelled");
                        self.end(&dispatch, DispatchStatus::Cancelled);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidTransition);
                        self.tally.count("too late to cancel");
                    }
                }
            }
            1 => {
                let _ = self.given.mailbox.interrupt(Interrupt::new(thread.clone())).await.unwrap();
                self.tally.count("interrupted");
                self.enqueue(&format!("{thread}3")).await;
            }
            _ => {
                self.book().taken_over.push(thread.clone());
                let taken = self.given.mailbox.interrupt(Interrupt::new(thread.clone()).taking_over()).await.unwrap();
                let fence = taken.fence.unwrap();
                let (name, number) = (format!("{thread} taken over"), fence.claim);
                let commit = Commit::new(thread.clone()).with_key(id("taken over")).fenced(fence).entry(said(&name));
                let _ = self.given.commits.commit(commit).await.unwrap();
                self.committed(&name, number);
                self.tally.count("taken over");
                self.enqueue(&format!("{thread}3")).await;
            }
        }
        self.look().await;
        self.is_meddling.store(false, Ordering::SeqCst);
    }

    /// Checks that no thread has two claims.
    async fn look(&self) {
        for thread in THREADS {
            let filter = DispatchFilter::of_thread(id(thread)).in_status([DispatchStatus::Claimed]);
            let claimed = self.given.mailbox.list_dispatches(DispatchQuery::new(filter)).await.unwrap().items;
            assert!(claimed.len() <= 1, "{claimed:?}");
        }
    }

    /// Tells the workers to stop when every dispatch has ended and no more will be enqueued. Each task that ends a
    /// dispatch calls this function afterwards, and a dispatch that has ended stays so. So the last of these calls
    /// finds that all have ended.
    async fn stop_if_done(&self) {
        if self.is_meddling.load(Ordering::SeqCst) {
            return;
        }
        for thread in THREADS {
            let counts = self.given.mailbox.count_dispatches(Some(&id(thread))).await.unwrap();
            if counts.queued + counts.claimed > 0 {
                return;
            }
        }
        // The workers need one dispatch each. There is one more, because the worker that is dropped may claim one.
        for number in 0..=WORKERS {
            let name = format!("stop{number}");
            self.given.enqueue(work(&name, &name)).await;
        }
    }

    /// Records a claim. Checks that each earlier claim of its thread had ended before: its lease had expired, or an
    /// interrupt had taken the thread over.
    fn take(&self, held: &ClaimedDispatch) {
        let mut book = self.book();
        let is_taken_over = book.taken_over.contains(&held.dispatch.thread);
        let holders = book.holders.entry(held.dispatch.thread.clone()).or_default();
        for other in &*holders {
            let (one, next) = if other.number < held.number { (other, held) } else { (held, other) };
            let (until, since) = (one.dispatch.claim.as_ref().unwrap(), next.dispatch.claim.as_ref().unwrap());
            let is_over = until.lease_until <= since.claimed_at;
            let is_ended = is_taken_over && one.dispatch.epoch < next.dispatch.epoch;
            assert!(one.number < next.number && (is_over || is_ended), "{one:?} is claimed, and so is {next:?}");
        }
        holders.push(held.clone());
    }

    /// Records that a claim is about to be settled. From now on another worker may claim the thread.
    fn give(&self, held: &ClaimedDispatch) {
        let mut book = self.book();
        book.holders.entry(held.dispatch.thread.clone()).or_default().retain(|other| other.number != held.number);
    }

    fn committed(&self, name: &str, number: ClaimNumber) {
        self.tally.count("commits");
        let earlier = self.book().committed.insert(name.to_owned(), number);
        assert!(earlier.is_none(), "{name} was committed under {earlier:?} and {number:?}");
    }

    fn end(&self, dispatch: &DispatchId, status: DispatchStatus) {
        self.book().ended.entry(dispatch.clone()).or_default().push(status);
    }

    fn lost(&self, error: &Error) {
        match error.kind() {
            ErrorKind::ClaimLost => self.tally.count("claims lost"),
            ErrorKind::StaleEpoch => self.tally.count("superseded"),
            _ => panic!("{error}"),
        }
    }

    async fn judge(&self) {
        let Book { enqueued, committed, mut ended, .. } = std::mem::take(&mut *self.book());
        for name in &enqueued {
            let dispatch = self.given.mailbox.load_dispatch(name).await.unwrap().unwrap();
            let ended = ended.remove(name).unwrap_or_default();
            assert!(dispatch.finished_at.is_some() && dispatch.claim.is_none(), "{dispatch:?}");
            match dispatch.status {
                status @ (DispatchStatus::Acked | DispatchStatus::Cancelled) => assert_eq!(ended, [status], "{name}"),
                DispatchStatus::Superseded => assert!(ended.is_empty(), "{name}: {ended:?}"),
                _ => panic!("{dispatch:?}"),
            }
            let is_committed = committed.contains_key(name.as_str());
            match dispatch.status {
                DispatchStatus::Acked => assert!(is_committed, "{name}"),
                DispatchStatus::Superseded if !name.as_str().ends_with('2') => {}
                _ => assert!(!is_committed, "{name}"),
            }
            let claims: Vec<_> = dispatch.history.iter().map(|attempt| attempt.claim).collect();
            assert!(claims.is_sorted(), "{claims:?}");
        }
        for thread in THREADS {
            self.judge_log(thread, &committed).await;
        }
    }

    /// Checks that each accepted commit is in the log once, and that no entry of a holder is behind an entry of a later
    /// holder.
    async fn judge_log(&self, thread: &str, committed: &HashMap<String, ClaimNumber>) {
        let texts = self.given.texts(&id(thread)).await;
        let accepted = committed.keys().filter(|name| name.starts_with(thread)).count();
        assert_eq!((texts.len(), self.given.version(&id(thread)).await), (accepted, accepted as u64));
        let numbers: Vec<_> = texts.iter().map(|text| committed[text]).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?} {numbers:?}");
    }
}
