//! What an erasure leaves as it is, and the erasure of a resource.

use store_core::{EraseResource, EraseThread, IgnoreProgress};

use super::{
    ErasureSubject,
    helpers::{ADA, ADA_TOO, BOB, by_admin, erase, erasure, expect_gone, plant},
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::id,
};

/// Returns what readers see of a subject: the lines in which its text occurs.
async fn seen(given: &Given, subject: &ErasureSubject) -> Result<Vec<String>, crate::Failure> {
    let seen = ErasureSubject::read_everything(&given.stores()?, &[subject]).await?;
    Ok(seen.lines().filter(|line| line.contains(subject.marker) && line.len() < 20_000).map(str::to_owned).collect())
}

/// Everything of other threads is as before: of the same resource, and of another one.
pub(super) async fn nothing_else_changes(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB, ADA_TOO]).await?;
    let text = |seen: Vec<String>| seen.join("\n").matches(BOB.marker).count();
    let (bob, ada_too) = (text(seen(given, &BOB).await?), seen(given, &ADA_TOO).await?.join("\n"));
    erase(given, ADA.name).await?;
    expect_eq(text(seen(given, &BOB).await?), bob)?;
    let after = seen(given, &ADA_TOO).await?.join("\n");
    expect_eq(after.matches(ADA_TOO.marker).count(), ada_too.matches(ADA_TOO.marker).count())
}

/// All threads of a resource are erased, and the profile of its user with what audit records have of it. Nothing of
/// others is.
pub(super) async fn a_resource_is_erased_with_its_profile(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB, ADA_TOO]).await?;
    let bob = seen(given, &BOB).await?.join("\n").matches(BOB.marker).count();
    let request = EraseResource::new(id("ada"), by_admin());
    let erased = erasure(given)?.erase_resource(request, &IgnoreProgress).await?;
    expect_eq((erased.threads.len(), erased.profile_values, erased.stopped), (4, 4, false))?;
    expect_gone(given, &ADA).await?;
    expect_gone(given, &ADA_TOO).await?;
    expect_eq(seen(given, &BOB).await?.join("\n").matches(BOB.marker).count(), bob)?;
    let audit = given.fixture().audit(&given.stores()?)?;
    let about = store_core::ResourceFilter::Exact(store_core::AuditResource::of(["resource", "ada"])?);
    let found = audit.list_audit(store_core::AuditQuery::new().about(about)).await?.items;
    expect_eq((found.len(), found[0].action.name()), (1, "erase"))
}

/// A dry run has the counts of the erasure, and changes nothing.
pub(super) async fn a_dry_run_counts_what_is_erased(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB, ADA_TOO]).await?;
    let all = [&ADA, &BOB, &ADA_TOO];
    let before = ErasureSubject::read_everything(&stores, &all).await?;
    let thread = EraseThread::new(id(ADA.name), by_admin());
    let resource = EraseResource::new(id("ada"), by_admin());
    let dry_thread = erasure(given)?.erase_thread(thread.clone().dry(), &IgnoreProgress).await?;
    let dry_resource = erasure(given)?.erase_resource(resource.clone().dry(), &IgnoreProgress).await?;
    expect(ErasureSubject::read_everything(&stores, &all).await? == before, "a dry run changed something")?;
    expect_eq(erasure(given)?.erase_thread(thread, &IgnoreProgress).await?, dry_thread.clone())?;
    let rest = erasure(given)?.erase_resource(resource, &IgnoreProgress).await?;
    expect_eq(dry_resource.threads.len(), dry_thread.threads.len() + rest.threads.len())?;
    expect_eq(dry_resource.entries, dry_thread.entries + rest.entries)?;
    expect_eq(dry_resource.events, dry_thread.events + rest.events)?;
    expect_eq(dry_resource.profile_values, dry_thread.profile_values + rest.profile_values)?;
    expect_eq(dry_resource.audit_records, dry_thread.audit_records + rest.audit_records)
}
