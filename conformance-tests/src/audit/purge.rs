//! The retention of audit records.

use std::time::Duration;

use store_core::{
    IgnoreProgress, Timestamp,
    layers::{
        TrimFeed,
        audit::{AUDIT_RETENTION, AuditQuery, ResourceFilter, retention_limit},
    },
};

use super::helpers::{audit, exactly, expect_records, list, newest, resource, restart};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq},
};

/// Writes three records, two of which are older than the usual retention at the time of the third. Returns that time.
async fn old_and_new_records(given: &Given) -> Result<Timestamp, Failure> {
    restart(given, "ada", "f/a").await?;
    restart(given, "bob", "f/b").await?;
    given.advance(AUDIT_RETENTION + Duration::from_millis(1)).await;
    Ok(restart(given, "ada", "f/b").await?.time)
}

/// Records older than the retention are removed from every list. Newer ones stay.
pub(super) async fn old_records_are_purged_from_every_order(given: &Given) -> Verdict {
    expect_eq(AUDIT_RETENTION, Duration::from_hours(90 * 24))?;
    let now = old_and_new_records(given).await?;
    let purged = audit(given)?.purge_audit(TrimFeed::new(retention_limit(now)), &IgnoreProgress).await?;
    expect_eq((purged.removed, purged.stopped), (2, false))?;
    let kept = "ada restart f/b";
    expect_records(given, &AuditQuery::new(), kept).await?;
    expect_records(given, &AuditQuery::new().by(exactly("ada")), kept).await?;
    expect_records(given, &AuditQuery::new().by(exactly("bob")), "").await?;
    expect_records(given, &AuditQuery::new().about(ResourceFilter::Below(resource("f"))), kept).await?;
    expect_records(given, &AuditQuery::new().about(ResourceFilter::Exact(resource("f/a"))), "").await?;
    let again = audit(given)?.purge_audit(TrimFeed::new(retention_limit(now)), &IgnoreProgress).await?;
    expect_eq(again.removed, 0)?;
    expect_eq(newest(given).await?.time, now)
}

/// A dry run returns the number of old records and removes none.
pub(super) async fn a_dry_run_counts_old_records(given: &Given) -> Verdict {
    let now = old_and_new_records(given).await?;
    let dry = audit(given)?.purge_audit(TrimFeed::new(retention_limit(now)).dry(), &IgnoreProgress).await?;
    expect_eq((dry.removed, list(given, &AuditQuery::new()).await?.len()), (2, 3))
}
