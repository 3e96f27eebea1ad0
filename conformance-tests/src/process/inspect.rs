//! Long operations can be stopped, and damage never causes a panic.

use store_core::{DeleteRequest, IgnoreProgress, Progress};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    errors::{create_sample_records, tenant_as_text},
    given::{id, keyed_commit_with_message},
    record_list::write_record,
};

/// Asks the operation to stop as soon as it reports progress.
#[derive(Debug)]
struct StopAtOnce;

impl Progress for StopAtOnce {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        false
    }
}

/// Checks and repairs of an undamaged store find nothing wrong and change nothing. They can be stopped between two
/// batches, and this does no harm.
pub(super) async fn checks_of_an_undamaged_store_find_nothing_and_can_be_stopped(given: &Given) -> Verdict {
    create_sample_records(&given.stores()?).await?;
    for tenant in ["acme", "acme-corp", "b", "c"] {
        create_sample_records(&given.tenant(tenant)?).await?;
    }
    let text_before = tenant_as_text(&given.stores()?).await?;
    let store = given.store();
    let Some(inspector) = store.inspector() else { return Ok(()) };
    let report = inspector.verify(&IgnoreProgress).await?;
    expect(report.findings.is_empty() && !report.stopped, format!("{report:?}"))?;
    // Each of the 5 tenants has 3 threads that are not deleted, and 2 runs.
    expect_eq((report.tenants, report.threads, report.runs), (5, 15, 10))?;
    for dry_run in [true, false] {
        expect(inspector.verify(&StopAtOnce).await?.stopped, "a check cannot be stopped")?;
        let repaired = inspector.repair(dry_run, &StopAtOnce).await?;
        expect(repaired.findings.is_empty(), format!("{repaired:?}"))?;
        let repaired = inspector.repair(dry_run, &IgnoreProgress).await?;
        expect(repaired.findings.is_empty(), format!("{repaired:?}"))?;
    }
    expect_eq(tenant_as_text(&given.stores()?).await?, text_before)?;
    given.expect_accepted(keyed_commit_with_message(&id("t"), "after", "x")).await
}

/// If a purge is stopped between two batches, the next call continues it. Reads return the same before, between and
/// after the two calls.
pub(super) async fn a_purge_can_be_stopped(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for name in ["a", "b", "stays"] {
        given.create_thread_with_messages(name, &["x", "y"]).await?;
    }
    for name in ["a", "b"] {
        threads.delete_thread(&id(name), DeleteRequest::default()).await?;
    }
    let text_before = tenant_as_text(&given.stores()?).await?;
    let _purged = threads.purge_deleted(&StopAtOnce).await?;
    expect_eq(tenant_as_text(&given.stores()?).await?, text_before.clone())?;
    let _purged = threads.purge_deleted(&IgnoreProgress).await?;
    expect_eq(threads.purge_deleted(&IgnoreProgress).await?, 0)?;
    expect_eq(tenant_as_text(&given.stores()?).await?, text_before)
}

/// If any stored byte is changed, opening the store and reading it return data or an error. They never panic.
pub(super) async fn damage_never_causes_a_panic(given: &Given) -> Verdict {
    for seed in 0..16 {
        let damaged_store = given.open_another_store().await?;
        create_sample_records(&damaged_store.stores()?).await?;
        write_record(given.contract(), &damaged_store.stores()?, "last").await?;
        let opened = damaged_store.damage(seed).await?;
        if opened.is_err() {
            continue;
        }
        // These calls may fail, but they must return.
        let _read = tenant_as_text(&damaged_store.stores()?).await;
        let _written = write_record(given.contract(), &damaged_store.stores()?, "after").await;
        if let Some(inspector) = damaged_store.store().inspector() {
            let _found = inspector.verify(&IgnoreProgress).await;
        }
    }
    Ok(())
}
