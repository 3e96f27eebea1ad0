//! The feed of publications and archivals.

use std::time::Duration;

use store_core::{RegistryChange, RegistryFact, RegistryReader, RegistryStream, RegistryWriter, SubscriptionStart};
use tokio::time::timeout;

use super::helpers::{agent, publication, publish, publish_all, registry};
use crate::{Failure, Given, Verdict, check::expect_eq};

/// The next changes of a subscription.
async fn take(stream: &mut RegistryStream, count: usize) -> Result<Vec<RegistryChange>, Failure> {
    const MAX_WAIT: Duration = Duration::from_secs(20);
    let mut received = Vec::new();
    while received.len() < count {
        let next = std::future::poll_fn(|context| stream.as_mut().poll_next(context));
        let missing = || Failure::new(format!("only {} of {count} changes arrived", received.len()));
        match timeout(MAX_WAIT, next).await {
            Ok(Some(change)) => received.push(change?),
            Ok(None) | Err(_) => return Err(missing()),
        }
    }
    Ok(received)
}

fn text(change: &RegistryChange) -> String {
    match &change.fact {
        RegistryFact::Published { snapshot, id } => format!("published {id} {snapshot}"),
        RegistryFact::Archived(definition) => format!("archived {definition}"),
        RegistryFact::Unarchived(definition) => format!("unarchived {definition}"),
        other => format!("{other:?}"),
    }
}

fn joined(changes: &[RegistryChange]) -> String {
    changes.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Checks that the feed has exactly these facts, in this order.
pub(super) async fn expect_facts(given: &Given, expected: &str) -> Verdict {
    // The last fact is known, so the end of the feed needs no waiting.
    let store = registry(given)?;
    publish(given, "last", "1").await?;
    store.archive(&agent("last"), None).await?;
    let mut stream = store.subscribe_publications(SubscriptionStart::First).await?;
    let mut found = Vec::new();
    loop {
        let change = take(&mut stream, 1).await?;
        if joined(&change) == "archived agent/last" {
            return expect_eq(joined(&found).as_str(), expected);
        }
        found.extend(change);
    }
}

/// Each publication, each archiving and each return from the archive comes once, in order: stored ones first, and then
/// new ones. What changes nothing, and a version that is published alone, does not come.
pub(super) async fn publications_and_archivals_come_once_in_order(given: &Given) -> Verdict {
    let store = registry(given)?;
    publish(given, "a", "0").await?;
    publish_all(given, publication("p", &[("a", "1"), ("b", "1")])).await?;
    store.archive(&agent("b"), None).await?;
    store.archive(&agent("b"), None).await?;
    let mut stream = store.subscribe_publications(SubscriptionStart::First).await?;
    expect_eq(joined(&take(&mut stream, 2).await?).as_str(), "published p 1, archived agent/b")?;
    store.unarchive(&agent("b"), None).await?;
    store.unarchive(&agent("b"), None).await?;
    publish_all(given, publication("q", &[("a", "2")])).await?;
    expect_eq(joined(&take(&mut stream, 2).await?).as_str(), "unarchived agent/b, published q 2")?;
    expect_facts(given, "published p 1, archived agent/b, unarchived agent/b, published q 2").await
}

/// A subscription that begins after the cursor of a change continues with the next one. Its time is that of the
/// publication.
pub(super) async fn a_subscription_continues_after_a_cursor(given: &Given) -> Verdict {
    let store = registry(given)?;
    let mut published = Vec::new();
    for name in ["p", "q", "r"] {
        published.push(publish_all(given, publication(name, &[("a", &format!("{name:?}"))])).await?);
    }
    let mut stream = store.subscribe_publications(SubscriptionStart::First).await?;
    let all = take(&mut stream, 3).await?;
    expect_eq(joined(&all).as_str(), "published p 1, published q 2, published r 3")?;
    let times: Vec<_> = all.iter().map(|change| change.at).collect();
    expect_eq(times, published.iter().map(|publication| publication.published_at).collect::<Vec<_>>())?;
    for (index, change) in all.iter().enumerate().take(2) {
        let start = SubscriptionStart::After(change.cursor.clone());
        let mut later = store.subscribe_publications(start).await?;
        let rest = all.get(index + 1..).unwrap_or_default();
        expect_eq(take(&mut later, rest.len()).await?.as_slice(), rest)?;
    }
    Ok(())
}
