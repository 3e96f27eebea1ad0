//! Lists, deletion and maintenance of tenants.

use std::time::Duration;

use store_core::{
    ClaimRequest, Cursor, DeleteRequest, DispatchQuery, ErrorKind, IgnoreProgress, MailboxStore, NewDispatch,
    PageRequest, PruneRequest, Purge, TenantId, ThreadFilter, ThreadRunStore, Timestamp,
};

use super::similar_names::SIMILAR_TENANT_NAMES;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message, read_all_pages, run_two_concurrently},
    record_list::{first_record_list, record_lists},
};

async fn list_tenant_names(given: &Given, limit: u32) -> Result<Vec<String>, Failure> {
    let store = &given.store();
    let tenants = read_all_pages(PageRequest::first(limit), |page| store.list_tenants(page)).await?;
    Ok(tenants.iter().map(ToString::to_string).collect())
}

/// `list_tenants` returns the tenants that have records, ordered by the bytes of their names, in pages of any size. An
/// invalid limit is refused with `Invalid`, and a forged cursor with `InvalidCursor`.
pub(super) async fn tenants_are_listed_by_name(given: &Given) -> Verdict {
    expect_eq(list_tenant_names(given, 10).await?, [""; 0])?;
    // `records` writes and finds records of the tested contract.
    let records = first_record_list(given.contract());
    given.tenant("looked at only")?;
    for tenant in SIMILAR_TENANT_NAMES {
        records.write(&given.tenant(tenant)?, "x").await?;
    }
    let mut sorted = SIMILAR_TENANT_NAMES.map(str::to_owned).to_vec();
    sorted.sort();
    for limit in [1, 2, 49, 50, 1000] {
        expect_eq(&list_tenant_names(given, limit).await?, &sorted)?;
    }
    for limit in [0, 1001, u32::MAX] {
        expect_kind(given.store().list_tenants(PageRequest::first(limit)).await, ErrorKind::Invalid)?;
    }
    for forged in ["", "x", "AAAA"] {
        let request = PageRequest::first(2).after(Cursor::from_text(forged));
        expect_kind(given.store().list_tenants(request).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// `delete_tenant` closes the handles of the tenant and removes all its records, and no record of another tenant. The
/// name can be used again through new handles. Deleting the tenant again, or a tenant that never existed, is not an
/// error.
pub(super) async fn deleting_a_tenant_removes_all_its_records(given: &Given) -> Verdict {
    let name: TenantId = id("acme");
    // `records` stands for one list of the tested contract. It writes records to the list, and finds them there.
    for records in record_lists(given.contract()) {
        let (old_stores, other_stores) = (given.tenant("acme")?, given.tenant("acme-corp")?);
        for stores in [&old_stores, &other_stores] {
            records.write_all(stores, &["a", "b", "c"].map(|id| format!("{id} {}", records.name()))).await?;
        }
        let before = records.ids(&other_stores).await?;
        given.store().delete_tenant(&name).await?;
        expect_kind(records.has(&old_stores, "a").await, ErrorKind::Closed)?;
        expect_kind(records.write(&old_stores, "d").await, ErrorKind::Closed)?;
        for &direction in records.directions() {
            expect_kind(records.list(&old_stores, direction, PageRequest::default()).await, ErrorKind::Closed)?;
        }
        expect_eq(records.ids(&other_stores).await?, before)?;
        expect_eq(list_tenant_names(given, 10).await?, ["acme-corp"])?;
        let new_stores = given.tenant("acme")?;
        expect_eq(records.ids(&new_stores).await?, [""; 0])?;
        records.write(&new_stores, "a").await?;
        given.store().delete_tenant(&name).await?;
        given.store().delete_tenant(&name).await?;
        given.store().delete_tenant(&id("never")).await?;
    }
    Ok(())
}

/// After the store was opened again, a deleted tenant has no records, and another tenant has all its records.
pub(super) async fn a_deleted_tenant_stays_deleted_after_a_reopen(given: &Given) -> Verdict {
    let records = first_record_list(given.contract());
    for tenant in ["acme", "acme-corp"] {
        records.write(&given.tenant(tenant)?, "x").await?;
    }
    given.store().delete_tenant(&id("acme")).await?;
    given.reopen().await?;
    expect_eq(list_tenant_names(given, 10).await?, ["acme-corp"])?;
    expect(!records.has(&given.tenant("acme")?, "x").await?, "a record of the deleted tenant came back")?;
    expect(records.has(&given.tenant("acme-corp")?, "x").await?, "the other tenant's record is gone")
}

/// A record whose write races with the deletion of its tenant is deleted with the tenant, or the write is refused with
/// `Closed`. No record is left.
pub(super) async fn writes_racing_with_a_tenant_deletion_leave_nothing(given: &Given) -> Verdict {
    let contract = given.contract();
    for round in 0..20 {
        let (store, old_stores) = (given.store(), given.tenant("acme")?);
        let writing = async move {
            for at in 0..50 {
                match &old_stores.commits {
                    Some(commits) => {
                        let thread = id(&format!("t-{}", at % 5));
                        commits.commit(keyed_commit_with_message(&thread, &format!("{at}"), "x")).await.map(drop)?;
                    }
                    None => first_record_list(contract).write(&old_stores, &format!("{at}")).await?,
                }
                tokio::task::yield_now().await;
            }
            Ok(())
        };
        let deleting = async move {
            tokio::time::sleep(Duration::from_micros(round * 20)).await;
            store.delete_tenant(&id("acme")).await
        };
        let (write_result, deletion_result) = run_two_concurrently(writing, deleting).await;
        deletion_result?;
        if write_result.is_err() {
            expect_kind(write_result, ErrorKind::Closed)?;
        }
        let new_stores = given.tenant("acme")?;
        if let Some(threads) = &new_stores.threads {
            expect_eq(threads.count_threads(&ThreadFilter::default()).await?, 0)?;
        }
        expect_eq(
            (first_record_list(contract).ids(&new_stores).await?.len(), list_tenant_names(given, 10).await?.len()),
            (0, 0),
        )?;
    }
    Ok(())
}

/// Maintenance through the handle of a tenant does not change the records of any other tenant.
pub(super) async fn maintenance_changes_only_its_own_tenant(given: &Given) -> Verdict {
    let tenants = [given.tenant("acme")?, given.tenant("acme-corp")?];
    for stores in &tenants {
        if let Some(commits) = &stores.commits {
            for thread in ["idle", "deleted"] {
                let _receipt = commits.commit(keyed_commit_with_message(&id(thread), "k", "x")).await?;
            }
            commits.threads().delete_thread(&id("deleted"), DeleteRequest::default()).await?;
        }
        if let Some(mailbox) = &stores.mailbox {
            let new_dispatch = |name| NewDispatch::new(id(name), id("r")).with_id(id(name));
            mailbox.enqueue(vec![new_dispatch("cancelled"), new_dispatch("claimed")]).await?;
            mailbox.cancel(&id("cancelled")).await?;
            expect_eq(mailbox.claim(ClaimRequest::new(id("w"), Duration::from_secs(1))).await?.claimed.len(), 1)?;
        }
    }
    given.advance(Duration::from_secs(7200)).await;
    let [own, other] = tenants;
    if let (Some(own), Some(other)) = (&own.threads, &other.threads) {
        check_thread_maintenance(&**own, &**other).await?;
    }
    if let (Some(own), Some(other)) = (&own.mailbox, &other.mailbox) {
        check_mailbox_maintenance(&**own, &**other).await?;
    }
    Ok(())
}

async fn check_mailbox_maintenance(own: &dyn MailboxStore, other: &dyn MailboxStore) -> Verdict {
    let before = other.list_dispatches(DispatchQuery::default()).await?;
    expect_eq(own.reclaim(10).await?.requeued, vec![id("claimed")])?;
    expect_eq(own.purge(Purge::new(Timestamp::MAX)).await?.removed, 1)?;
    expect_eq(other.list_dispatches(DispatchQuery::default()).await?, before)
}

async fn check_thread_maintenance(own: &dyn ThreadRunStore, other: &dyn ThreadRunStore) -> Verdict {
    let request = PruneRequest { idle: Duration::from_secs(3600), limit: 1000, dry_run: false };
    expect_eq(own.prune_threads(request).await?.threads, vec![id("idle")])?;
    own.purge_deleted(&IgnoreProgress).await?;
    expect(other.load_thread(&id("idle")).await?.is_some(), "another tenant's thread was pruned")?;
    expect_eq(own.count_threads(&ThreadFilter::default()).await?, 0)
}
