//! Cursors: what they are bound to, and how a list treats forged ones.

use std::time::Duration;

use store_core::{Cursor, Direction, ErrorKind, EventStream, Page, PageRequest, TenantStores};
use tokio::time::timeout;

use super::limit::ordered_ids;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    event::next_event,
    given::id,
    record_list::{ListedRecord, RecordList, record_lists},
    test_length::TestLength,
};

/// The cursor after the first two records.
async fn cursor_after_two_records(
    records: &dyn RecordList,
    stores: &TenantStores,
    direction: Direction,
) -> Result<Cursor, Failure> {
    let page = records.list(stores, direction, PageRequest::first(2)).await?;
    page.next.ok_or_else(|| Failure::new("the page has no cursor").about(records.name()))
}

/// A cursor has at most 1 KiB, even after the longest ids.
pub(super) async fn a_cursor_has_at_most_a_kibibyte(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(&"é".repeat(128))?;
        let long_ids: Vec<_> = (1000..1005).map(|at| format!("{at}{}", "x".repeat(252))).collect();
        records.write_all(&stores, &long_ids).await?;
        for &direction in records.directions() {
            let cursor = cursor_after_two_records(&*records, &stores, direction).await?;
            expect(cursor.as_str().len() <= 1024, format!("{}: {} bytes", records.name(), cursor.as_str().len()))?;
            expect_eq(records.read_all_pages(&stores, direction, 1).await?.len(), 5)?;
        }
        given.store().delete_tenant(&id(&"é".repeat(128))).await?;
    }
    Ok(())
}

/// The limit may differ from page to page.
pub(super) async fn the_limit_may_change_between_pages(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(9)).await?;
        for &direction in records.directions() {
            let all_records = records.read_all_pages(&stores, direction, 1000).await?;
            let cursor = cursor_after_two_records(&*records, &stores, direction).await?;
            for limit in [1_u32, 5, 1000] {
                let page = records.list(&stores, direction, PageRequest::first(limit).after(cursor.clone())).await?;
                let wanted: Vec<_> = all_records.iter().skip(2).take(limit as usize).cloned().collect();
                expect_eq(page.items, wanted).map_err(|failure| failure.about(records.name()))?;
            }
        }
    }
    Ok(())
}

/// A cursor of one list is refused with `InvalidCursor` by every other list, and by the same list in the other
/// direction. Only the cursor of an event works in both directions, because it is a position in a scope (EV-10).
pub(super) async fn a_cursor_is_bound_to_its_list(given: &Given) -> Verdict {
    let (stores, record_lists) = (given.stores()?, record_lists(given.contract()));
    for (at, records) in record_lists.iter().enumerate() {
        let own_ids: Vec<_> = ordered_ids(5).iter().map(|name| format!("{at}-{name}")).collect();
        records.write_all(&stores, &own_ids).await?;
    }
    let mut lists = Vec::new();
    for records in &record_lists {
        lists.extend(records.directions().iter().map(|direction| (records, *direction)));
    }
    for &(cursor_list, cursor_direction) in &lists {
        let cursor = cursor_after_two_records(&**cursor_list, &stores, cursor_direction).await?;
        for &(read_list, read_direction) in &lists {
            let request = PageRequest::first(2).after(cursor.clone());
            let result = read_list.list(&stores, read_direction, request).await;
            let what = format!(
                "a cursor of {} {cursor_direction:?} in {} {read_direction:?}",
                cursor_list.name(),
                read_list.name()
            );
            if cursor_list.name() == read_list.name()
                && (cursor_direction == read_direction || !cursor_list.is_cursor_bound_to_direction())
            {
                result?;
            } else {
                expect_kind(result, ErrorKind::InvalidCursor).map_err(|failure| failure.about(what))?;
            }
        }
    }
    Ok(())
}

/// A cursor of one tenant is refused with `InvalidCursor` by every other tenant, even by a tenant that has the same
/// records.
pub(super) async fn a_cursor_is_bound_to_its_tenant(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let tenant_stores = |tenant: &str| given.tenant(&format!("{tenant}{}", records.name()));
        let (acme, corp) = (tenant_stores("acme")?, tenant_stores("acme-corp")?);
        records.write_all(&acme, &ordered_ids(5)).await?;
        records.write_all(&corp, &ordered_ids(5)).await?;
        for &direction in records.directions() {
            let request = PageRequest::first(2).after(cursor_after_two_records(&*records, &acme, direction).await?);
            for other in [&corp, &tenant_stores("never used")?] {
                let result = records.list(other, direction, request.clone()).await;
                expect_kind(result, ErrorKind::InvalidCursor).map_err(|failure| failure.about(records.name()))?;
            }
        }
    }
    Ok(())
}

/// Invalid cursors: a valid one with single bits changed, the valid one cut at each length, and texts that are not
/// cursors at all.
fn invalid_cursors(valid_cursor: &str) -> Vec<String> {
    // Quick tests change only one bit of each byte, and a different bit in the next byte. They cut the cursor only at
    // every third length.
    let (bit_step, length_step) = TestLength::pick_by_env((8, 3), (1, 1), (1, 1));
    let mut cursors: Vec<_> =
        (0..valid_cursor.len()).step_by(length_step).map(|at| valid_cursor[..at].to_owned()).collect();
    for (at, bit) in
        (0..valid_cursor.len()).flat_map(|at| (at % bit_step..8).step_by(bit_step).map(move |bit| (at, bit)))
    {
        let mut bytes = valid_cursor.as_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        cursors.extend(String::from_utf8(bytes).ok());
    }
    cursors.extend(["A", "=", "!!!!", "\u{0}", "é", "../..", "' OR 1=1 --", "null"].map(str::to_owned));
    cursors.extend([
        format!("{valid_cursor}A"),
        format!(" {valid_cursor}"),
        format!("{valid_cursor}{valid_cursor}"),
        "A".repeat(1 << 20),
    ]);
    cursors
}

/// Checks that a list refuses a cursor with `InvalidCursor`, or returns only records from `own_ids`.
fn expect_only_own_records(result: store_core::Result<Page<ListedRecord>>, own_ids: &[String]) -> Verdict {
    match result {
        Ok(page) => {
            let foreign_records: Vec<_> = page.items.iter().filter(|item| !own_ids.contains(&item.id)).collect();
            expect(foreign_records.is_empty(), format!("the page has foreign records: {foreign_records:?}"))
        }
        refused => expect_kind(refused, ErrorKind::InvalidCursor).map(drop),
    }
}

/// A changed, cut, empty, huge or invented cursor is refused with `InvalidCursor`, or leads only to data that the
/// caller may read. This also holds for the start of a subscription.
pub(super) async fn a_forged_cursor_is_refused(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(5)).await?;
        for &direction in records.directions() {
            let valid_cursor = cursor_after_two_records(&*records, &stores, direction).await?;
            for invalid_cursor in invalid_cursors(valid_cursor.as_str()) {
                let request = PageRequest::first(2).after(Cursor::from_text(&invalid_cursor));
                let result = records.list(&stores, direction, request).await;
                expect_only_own_records(result, &ordered_ids(5))
                    .map_err(|f| f.about(format!("{} {direction:?} {invalid_cursor:.99}", records.name())))?;
                let Some(subscription) = records.subscribe_after(&stores, Cursor::from_text(&invalid_cursor)).await
                else {
                    continue;
                };
                expect_only_own_events(subscription, &ordered_ids(5))
                    .await
                    .map_err(|f| f.about(format!("subscription after {invalid_cursor:.99}")))?;
            }
        }
    }
    Ok(())
}

/// Checks that a subscription is refused with `InvalidCursor`, or that its first event, if there is one, is one of the
/// caller's own. The list of events stores the id of a record as the kind of its event.
async fn expect_only_own_events(subscription: store_core::Result<EventStream>, own_ids: &[String]) -> Verdict {
    let Ok(mut events) = subscription else {
        return expect_kind(subscription.map(drop), ErrorKind::InvalidCursor).map(drop);
    };
    let Ok(Some(event)) = timeout(Duration::from_millis(20), next_event(&mut events)).await else { return Ok(()) };
    let kind = event?.kind;
    expect(
        own_ids.iter().any(|own_id| own_id == kind.as_str()),
        format!("the subscription shows a foreign event `{kind}`"),
    )
}

/// A cursor that was made before its tenant was deleted is refused with `InvalidCursor`, or leads only to data of the
/// new tenant with that name.
pub(super) async fn an_old_cursor_shows_nothing_of_a_deleted_tenant(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let old_stores = given.tenant(records.name())?;
        records.write_all(&old_stores, &ordered_ids(5)).await?;
        let mut cursors = Vec::new();
        for &direction in records.directions() {
            cursors.push((direction, cursor_after_two_records(&*records, &old_stores, direction).await?));
        }
        given.store().delete_tenant(&id(records.name())).await?;
        let (new_stores, own_ids) =
            (given.tenant(records.name())?, ["new-1", "new-2", "new-3", "new-4"].map(str::to_owned));
        for more_ids in [&own_ids[..0], &own_ids[..1], &own_ids[1..]] {
            records.write_all(&new_stores, more_ids).await?;
            for (direction, cursor) in &cursors {
                let request = PageRequest::first(10).after(cursor.clone());
                let result = records.list(&new_stores, *direction, request).await;
                expect_only_own_records(result, &own_ids).map_err(|failure| failure.about(records.name()))?;
                let Some(subscription) = records.subscribe_after(&new_stores, cursor.clone()).await else { continue };
                expect_only_own_events(subscription, &own_ids)
                    .await
                    .map_err(|failure| failure.about(records.name()))?;
            }
        }
    }
    Ok(())
}

/// A cursor of another store is refused with `InvalidCursor`.
pub(super) async fn a_cursor_of_another_store_is_refused(given: &Given) -> Verdict {
    let other_store = given.open_another_store().await?;
    for records in record_lists(given.contract()) {
        let (stores, other_stores) = (given.tenant(records.name())?, other_store.tenant(records.name())?);
        records.write_all(&stores, &ordered_ids(5)).await?;
        records.write_all(&other_stores, &ordered_ids(5)).await?;
        for &direction in records.directions() {
            let request =
                PageRequest::first(2).after(cursor_after_two_records(&*records, &other_stores, direction).await?);
            let result = records.list(&stores, direction, request).await;
            expect_kind(result, ErrorKind::InvalidCursor).map_err(|failure| failure.about(records.name()))?;
        }
    }
    Ok(())
}

/// After the store is closed and reopened, a cursor still works: the walk continues where it stopped.
pub(super) async fn a_cursor_stays_valid_after_a_reopen(given: &Given) -> Verdict {
    let mut walks = Vec::new();
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(7)).await?;
        for &direction in records.directions() {
            let all_records = records.read_all_pages(&stores, direction, 1000).await?;
            walks.push((
                records.name(),
                direction,
                cursor_after_two_records(&*records, &stores, direction).await?,
                all_records,
            ));
        }
    }
    given.reopen().await?;
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        for (_, direction, cursor, all_records) in walks.iter().filter(|(name, ..)| *name == records.name()) {
            let next_page = records.list(&stores, *direction, PageRequest::first(1000).after(cursor.clone())).await?;
            expect_eq(&next_page.items, &all_records[2..].to_vec()).map_err(|failure| failure.about(records.name()))?;
        }
    }
    Ok(())
}
