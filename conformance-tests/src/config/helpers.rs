//! Helpers that write config records and read the feed.

use std::{future::poll_fn, sync::Arc, time::Duration};

use store_core::{
    PageRequest, SegmentId, Timestamp,
    layers::config::{
        ConfigChange, ConfigEntry, ConfigName, ConfigPosition, ConfigRecord, ConfigStore, ConfigStream, ConfigUpdate,
        ConfigWatch, WrittenConfig,
    },
};
use tokio::time::timeout;

pub(crate) use crate::log::entry_drafts::json;
use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    given::{Given, read_all_pages},
};

/// How long a stream is read in order to see that nothing more comes.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// How long an item of a stream may take.
const LONG_WAIT: Duration = Duration::from_secs(30);

/// The config of the tenant `default`.
pub(crate) fn config(given: &Given) -> Result<Arc<dyn ConfigStore>, Failure> {
    Ok(given.fixture().config(&given.stores()?)?)
}

/// The name of a record in the namespace `ns`.
pub(crate) fn name(id: &str) -> ConfigName {
    ConfigName::new("ns", id).expect("a valid name")
}

/// A change that sets the value of a record in the namespace `ns`.
pub(crate) fn put(id: &str, value: &str) -> ConfigChange {
    ConfigChange::put(name(id), json(value))
}

/// Makes changes in one call.
pub(crate) async fn write(
    given: &Given,
    changes: impl IntoIterator<Item = ConfigChange>,
) -> Result<WrittenConfig, Failure> {
    Ok(config(given)?.write_config(changes.into_iter().collect()).await?)
}

/// Loads a record of the namespace `ns`.
pub(crate) async fn load(given: &Given, id: &str) -> Result<Option<ConfigRecord>, Failure> {
    Ok(config(given)?.load_config(&name(id)).await?)
}

/// Loads a record of the namespace `ns`, which must exist.
pub(crate) async fn load_existing(given: &Given, id: &str) -> Result<ConfigRecord, Failure> {
    expect_some(load(given, id).await?, "config record")
}

/// The value of a record of the namespace `ns`, or none if there is no such record.
pub(crate) async fn value_of(given: &Given, id: &str) -> Result<Option<String>, Failure> {
    Ok(load(given, id).await?.map(|record| record.content.value.to_string()))
}

/// The ids of the records of a namespace, separated by spaces, read in small pages.
pub(crate) async fn ids_in(given: &Given, namespace: &str) -> Result<String, Failure> {
    let (config, namespace) = (&config(given)?, &ConfigName::new(namespace, "x")?.namespace);
    let records = read_all_pages(PageRequest::first(2), |page| config.list_config(namespace, page)).await?;
    Ok(records.iter().map(|record| record.name.id.to_string()).collect::<Vec<_>>().join(" "))
}

/// The namespaces that have records, separated by spaces, listed `limit` at a time.
pub(crate) async fn namespaces(given: &Given, limit: u32) -> Result<String, Failure> {
    let config = config(given)?;
    let mut found: Vec<SegmentId> = Vec::new();
    for _ in 0..20 {
        let more = config.list_namespaces(found.last(), limit).await?;
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    Ok(found.iter().map(SegmentId::as_str).collect::<Vec<_>>().join(" "))
}

/// An entry as text, such as `updated a 3`.
pub(crate) fn entry_text(entry: &ConfigEntry) -> String {
    format!("{} {} {}", entry.kind, entry.name.id, entry.revision)
}

/// The next item of a stream.
macro_rules! next_item {
    ($stream:expr, $wait:expr) => {
        match timeout($wait, poll_fn(|cx| $stream.as_mut().poll_next(cx))).await {
            Err(_) => None,
            Ok(None) => return Err(Failure::new("the stream has ended")),
            Ok(Some(item)) => Some(item),
        }
    };
}

/// The next entry of a subscription.
pub(crate) async fn next_entry(stream: &mut ConfigStream) -> Result<ConfigEntry, Failure> {
    Ok(expect_some(next_item!(stream, LONG_WAIT), "entry")??)
}

/// The next update of a watch.
pub(crate) async fn next_update(stream: &mut ConfigWatch) -> Result<ConfigUpdate, Failure> {
    Ok(expect_some(next_item!(stream, LONG_WAIT), "update")??)
}

/// Checks that a subscription gives these entries and no other, such as `created a 1, updated a 2`.
pub(crate) async fn expect_entries(stream: &mut ConfigStream, expected: &str) -> Verdict {
    for text in expected.split(", ").filter(|text| !text.is_empty()) {
        expect_eq(entry_text(&next_entry(stream).await?).as_str(), text)?;
    }
    expect_nothing_more(stream).await
}

/// Checks that a subscription gives nothing now.
pub(crate) async fn expect_nothing_more(stream: &mut ConfigStream) -> Verdict {
    let item = next_item!(stream, SHORT_WAIT);
    expect_eq(item.map(|entry| entry.map(|entry| entry_text(&entry)).map_err(|e| e.kind())), None)
}

/// Checks the whole feed.
pub(crate) async fn expect_feed(given: &Given, expected: &str) -> Verdict {
    let mut stream = config(given)?.subscribe_config(ConfigPosition::default()).await?;
    expect_entries(&mut stream, expected).await
}

/// Makes a change at a time that is later than every other, and returns that time.
pub(crate) async fn time_of_a_change(given: &Given, id: &str) -> Result<Timestamp, Failure> {
    given.advance(Duration::from_secs(10)).await;
    write(given, [put(id, "\"late\"")]).await?;
    Ok(load_existing(given, id).await?.updated_at)
}
