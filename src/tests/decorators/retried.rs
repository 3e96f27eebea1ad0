//! What is repeated, how often, and which error is returned (CP-8).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{
    Commit, CommitKey, Error, ErrorKind, Expect, Message, NewEntry, ObjectUpload, Outcome, Store, TenantId, Timestamp,
};

use crate::{
    Backoff, Clock, Decorator, ManualClock, Retried, Stores,
    decorators::{Answer, DecoratedStore, Hook, Method, Request},
};

/// Fails calls with these errors. `true` says that the call is made before its answer is lost.
#[derive(Clone, Default)]
struct Failing {
    faults: Arc<Mutex<VecDeque<(MakeError, bool)>>>,
    attempts: Arc<Mutex<u32>>,
}

/// Makes an error.
type MakeError = fn() -> Error;

impl Hook for Failing {
    fn for_tenant(&self, _tenant: &TenantId) -> Self {
        self.clone()
    }

    fn check(&self, _request: Request<'_>) -> store_core::Result<()> {
        Ok(())
    }

    async fn around<'a, A, T, F>(&'a self, method: Method, args: A, call: F) -> store_core::Result<T>
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a,
    {
        if method.name != "commit" {
            return call(args).await;
        }
        *self.attempts.lock().unwrap() += 1;
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            None => call(args).await,
            Some((error, false)) => Err(error()),
            Some((error, true)) => {
                call(args).await?;
                Err(error())
            }
        }
    }

    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload> {
        upload
    }
}

fn unavailable() -> Error {
    Error::server_unavailable("the server is away")
}

fn unknown() -> Error {
    Error::commit_unknown(Some(key()))
}

fn unknown_without_key() -> Error {
    Error::commit_unknown(None)
}

fn key() -> CommitKey {
    "k".parse().unwrap()
}

/// Commits once through retries over a store with these faults. Returns the answer, the attempts, and how many entries
/// there are.
async fn commit(faults: &[(MakeError, bool)], attempts: u32) -> (Result<u64, Error>, u32, u64) {
    let failing = Failing::default();
    failing.faults.lock().unwrap().extend(faults.iter().copied());
    let memory = crate::open("memory:").await.unwrap();
    let inner: Arc<dyn Store> = Arc::new(DecoratedStore::new(failing.clone(), memory.clone().into_store()));
    let retried = Retried::new().with_attempts(attempts).with_backoff(Backoff::new(Duration::ZERO, Duration::ZERO));
    let stores = Stores::new(retried.decorate(inner, "memory"));
    let tenant = TenantId::default_tenant();
    let commit = Commit::new("t".parse().unwrap()).with_key(key()).expecting(Expect::Absent);
    let commit = commit.entry(NewEntry::new(Message::user("hi")));
    let answer = stores.commits(&tenant).unwrap().commit(commit).await.map(|receipt| receipt.version.number());
    let thread = memory.threads(&tenant).unwrap().load_thread(&"t".parse().unwrap()).await.unwrap();
    let made = *failing.attempts.lock().unwrap();
    (answer, made, thread.map_or(0, |thread| thread.version.number()))
}

/// Tests CP-8: what certainly had no effect, or carries a key, is repeated up to the number of attempts, and takes
/// effect once.
#[tokio::test]
async fn retryable_failures_are_repeated() {
    for faults in [
        vec![],
        vec![(unavailable as MakeError, false)],
        vec![(unknown, false), (unavailable, false)],
        // The commit was applied. The repetition finds it by its key.
        vec![(unknown, true), (unknown, false), (unavailable, false)],
    ] {
        let (answer, made, entries) = commit(&faults, 4).await;
        assert_eq!((answer.unwrap(), made as usize, entries), (1, faults.len() + 1, 1));
    }
    let (answer, made, entries) = commit(&[(unavailable as MakeError, false); 4], 3).await;
    assert_eq!((answer.unwrap_err().kind(), made, entries), (ErrorKind::Unavailable, 3, 0));
    let (answer, made, _) = commit(&[(unavailable as MakeError, false)], 0).await;
    assert_eq!((answer.unwrap_err().kind(), made), (ErrorKind::Unavailable, 1));
}

/// Tests CP-8: any other error is returned at once.
#[tokio::test]
async fn other_failures_are_returned_at_once() {
    for error in [
        unknown_without_key as MakeError,
        Error::closed,
        || Error::corrupt("a log"),
        || Error::invalid("commit", "it is empty"),
        || Error::limit_exceeded("record bytes", 1, 2),
    ] {
        let (answer, made, entries) = commit(&[(error, false)], 5).await;
        assert_eq!((answer.unwrap_err().kind(), made, entries), (error().kind(), 1, 0));
    }
}

/// Tests CP-8 and ER-2: if an attempt may have been applied, no later refusal hides that.
#[tokio::test]
async fn an_unknown_outcome_is_not_hidden_by_later_attempts() {
    for (faults, kind) in [
        (vec![(unknown as MakeError, true), (unavailable, false)], ErrorKind::Unavailable),
        (vec![(unknown, true), (Error::closed, false)], ErrorKind::Closed),
    ] {
        let (answer, made, entries) = commit(&faults, 2).await;
        let error = answer.unwrap_err();
        assert_eq!((error.outcome(), made, entries), (Outcome::Unknown, 2, 1));
        assert!(error.is_retryable(), "{error:?}");
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
        assert_eq!(source.map(Error::kind), Some(kind));
    }
}

/// Tests CP-8: the waits are those of the backoff, and nothing is held meanwhile.
#[tokio::test]
async fn attempts_wait_as_the_backoff_says() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000).unwrap());
    let failing = Failing::default();
    failing.faults.lock().unwrap().extend([(unavailable as MakeError, false), (unavailable, false)]);
    let memory = crate::open("memory:").await.unwrap();
    let inner: Arc<dyn Store> = Arc::new(DecoratedStore::new(failing.clone(), memory.into_store()));
    let backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(15));
    let retried = Retried::new().with_backoff(backoff).with_clock(Arc::new(clock.clone()));
    let stores = Stores::new(retried.decorate(inner, "memory"));
    let commits = stores.commits(&TenantId::default_tenant()).unwrap();
    let entry = NewEntry::new(Message::user("hi"));
    let commit = Commit::new("t".parse().unwrap()).expecting(Expect::Absent).entry(entry);
    let made = tokio::spawn(async move { commits.commit(commit).await });
    let attempts = || *failing.attempts.lock().unwrap();
    let settled = async |expected: u32| {
        while attempts() < expected {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(attempts(), expected);
    };
    settled(1).await;
    clock.advance(Duration::from_millis(4_999));
    settled(1).await;
    clock.advance(Duration::from_millis(5_001));
    settled(2).await;
    clock.advance(Duration::from_millis(7_499));
    settled(2).await;
    clock.advance(Duration::from_millis(7_501));
    settled(3).await;
    assert_eq!(made.await.unwrap().unwrap().version.number(), 1);
    assert!(clock.now() > Timestamp::from_millis(1_000_000).unwrap());
}
