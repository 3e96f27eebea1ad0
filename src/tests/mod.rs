//! Tests of opening a store at a URL, and of URLs and options that are refused (CP-1).

#[cfg(feature = "memory")]
mod builder;
#[cfg(feature = "memory")]
mod check;
#[cfg(feature = "memory")]
mod decorators;
#[cfg(feature = "memory")]
mod effects;
mod file;
#[cfg(all(feature = "memory", feature = "file"))]
mod history;
mod memory;
mod nats;
mod postgres;
#[cfg(feature = "memory")]
mod settings;
mod sqlite_mailbox;
#[cfg(all(feature = "worker", feature = "memory", feature = "file"))]
mod worker;

use store_core::{ErrorKind, Result};

use crate::{Stores, open};

/// Returns the kind and the message of the error with which an opening was refused.
fn refusal(result: Result<Stores>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn an_unknown_scheme_is_refused_and_the_known_ones_are_listed() {
    let (kind, message) = refusal(open("redis://localhost").await);
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(
        message.contains("known schemes are `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` and `nats://…`"),
        "{message}"
    );
}

/// Commits an entry to a new thread, and returns the version.
#[cfg(any(feature = "memory", feature = "file", feature = "postgres"))]
async fn commit_hello(stores: &Stores) -> Result<u64> {
    use store_core::{Commit, Expect, Message, NewEntry, TenantId, ThreadId};

    let commit = Commit::new(ThreadId::new("t")?).expecting(Expect::Absent);
    let commits = stores.commits(&TenantId::default_tenant())?;
    let receipt = commits.commit(commit.entry(NewEntry::new(Message::user("hi")))).await?;
    Ok(receipt.version.number())
}
