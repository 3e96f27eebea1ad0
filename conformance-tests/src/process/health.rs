//! The health of a store: what it reports about its state.

use std::time::Duration;

use store_core::{ErrorKind, health::ClockReading};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
    record_list::first_record_list,
};

/// An open store reports its version, and that writes nothing. A closed store refuses to report.
pub(super) async fn the_health_of_a_store_is_read(given: &Given) -> Verdict {
    let store = given.store();
    let tenants_before = store.list_tenants(Default::default()).await?;
    let health = store.health().await?;
    expect(health.facts.iter().any(|fact| fact.name == "library" && !fact.value.is_empty()), "there is no version")?;
    expect_eq(store.list_tenants(Default::default()).await?, tenants_before)?;
    let records = first_record_list(given.contract());
    records.write(&given.stores()?, "x").await?;
    store.health().await?;
    expect_eq(records.ids(&store.tenant(&id("default"))?).await?, ["x"])?;
    store.close().await?;
    expect_kind(store.health().await, ErrorKind::Closed).map(drop)
}

/// A store whose clock is not that of the host reports its own.
pub(super) async fn the_health_shows_the_clock_of_the_store(given: &Given) -> Verdict {
    const HOUR: Duration = Duration::from_hours(1);
    let offset = async || -> Result<Option<i64>, Failure> {
        Ok(given.store().health().await?.clock.as_ref().map(ClockReading::offset_ms))
    };
    let before = offset().await?;
    given.advance(HOUR).await;
    let (Some(before), Some(after)) = (before, offset().await?) else {
        return expect(false, "the store has another clock than the host, and does not show it");
    };
    let moved = Duration::from_millis((after - before).unsigned_abs());
    // An opening that is in the past of the host by years may hide the time of an answer.
    expect(
        moved.abs_diff(HOUR) < Duration::from_mins(1),
        format!("the offset changed by {moved:?} instead of {HOUR:?}"),
    )
}
