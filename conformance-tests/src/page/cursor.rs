//! Cursors: what they are bound to, and how a list treats forged ones.

use std::time::Duration;

use store_core::{Cursor, Direction, ErrorKind, EventStream, Page, PageRequest, TenantStores};
use tokio::time::timeout;

use super::limit::ordered_ids;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    event::next,
    given::id,
    length::Length,
    probe::{Item, Probe, probes},
};

/// The cursor after the first two records.
async fn cursor_after_two_records(
    probe: &dyn Probe,
    stores: &TenantStores,
    direction: Direction,
) -> Result<Cursor, Failure> {
    let page = probe.list(stores, direction, PageRequest::first(2)).await?;
    page.next.ok_or_else(|| Failure::new("the page has no cursor").about(probe.name()))
}

/// A cursor has at most 1 KiB, even after the longest ids.
pub(super) async fn a_cursor_has_at_most_a_kibibyte(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        let stores = given.tenant(&"é".repeat(128))?;
        let long: Vec<_> = (1000..1005).map(|at| format!("{at}{}", "x".repeat(252))).collect();
        probe.write_all(&stores, &long).await?;
        for &direction in probe.directions() {
            let cursor = cursor_after_two_records(&*probe, &stores, direction).await?;
            expect(cursor.as_str().len() <= 1024, format!("{}: {} bytes", probe.name(), cursor.as_str().len()))?;
            expect_eq(probe.walk(&stores, direction, 1).await?.len(), 5)?;
        }
        given.store().delete_tenant(&id(&"é".repeat(128))).await?;
    }
    Ok(())
}

/// The limit may differ from page to page.
pub(super) async fn the_limit_may_change_between_pages(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        let stores = given.tenant(probe.name())?;
        probe.write_all(&stores, &ordered_ids(9)).await?;
        for &direction in probe.directions() {
            let whole = probe.walk(&stores, direction, 1000).await?;
            let behind = cursor_after_two_records(&*probe, &stores, direction).await?;
            for limit in [1_u32, 5, 1000] {
                let page = probe.list(&stores, direction, PageRequest::first(limit).after(behind.clone())).await?;
                let wanted: Vec<_> = whole.iter().skip(2).take(limit as usize).cloned().collect();
                expect_eq(page.items, wanted).map_err(|failure| failure.about(probe.name()))?;
            }
        }
    }
    Ok(())
}

/// A cursor of one list is refused with `InvalidCursor` by every other list, and by the same list in the other
/// direction. Only the cursor of an event works in both directions, because it is a position in a scope (EV-10).
pub(super) async fn a_cursor_is_bound_to_its_list(given: &Given) -> Verdict {
    let (stores, probes) = (given.stores()?, probes(given.contract()));
    for (at, probe) in probes.iter().enumerate() {
        let own: Vec<_> = ordered_ids(5).iter().map(|name| format!("{at}-{name}")).collect();
        probe.write_all(&stores, &own).await?;
    }
    let mut lists = Vec::new();
    for probe in &probes {
        lists.extend(probe.directions().iter().map(|direction| (probe, *direction)));
    }
    for &(from, there) in &lists {
        let cursor = cursor_after_two_records(&**from, &stores, there).await?;
        for &(to, here) in &lists {
            let request = PageRequest::first(2).after(cursor.clone());
            let ended = to.list(&stores, here, request).await;
            let what = format!("a cursor of {} {there:?} in {} {here:?}", from.name(), to.name());
            if from.name() == to.name() && (there == here || !from.binds_direction()) {
                ended?;
            } else {
                expect_kind(ended, ErrorKind::InvalidCursor).map_err(|failure| failure.about(what))?;
            }
        }
    }
    Ok(())
}

/// A cursor of one tenant is refused with `InvalidCursor` by every other tenant, even by a tenant that has the same
/// records.
pub(super) async fn a_cursor_is_bound_to_its_tenant(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        let own = |tenant: &str| given.tenant(&format!("{tenant}{}", probe.name()));
        let (acme, corp) = (own("acme")?, own("acme-corp")?);
        probe.write_all(&acme, &ordered_ids(5)).await?;
        probe.write_all(&corp, &ordered_ids(5)).await?;
        for &direction in probe.directions() {
            let request = PageRequest::first(2).after(cursor_after_two_records(&*probe, &acme, direction).await?);
            for other in [&corp, &own("never used")?] {
                let ended = probe.list(other, direction, request.clone()).await;
                expect_kind(ended, ErrorKind::InvalidCursor).map_err(|failure| failure.about(probe.name()))?;
            }
        }
    }
    Ok(())
}

/// Invalid cursors: a valid one with single bits changed, the valid one cut at each length, and texts that are no
/// cursors at all.
fn invalid_cursors(good: &str) -> Vec<String> {
    // Quick tests change only one bit of each byte, not the same one in neighbouring bytes, and cut only at every third
    // length.
    let (one_in, places) = Length::choose((8, 3), (1, 1), (1, 1));
    let mut bad: Vec<_> = (0..good.len()).step_by(places).map(|at| good[..at].to_owned()).collect();
    for (at, bit) in (0..good.len()).flat_map(|at| (at % one_in..8).step_by(one_in).map(move |bit| (at, bit))) {
        let mut bytes = good.as_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        bad.extend(String::from_utf8(bytes).ok());
    }
    bad.extend(["A", "=", "!!!!", "\u{0}", "é", "../..", "' OR 1=1 --", "null"].map(str::to_owned));
    bad.extend([format!("{good}A"), format!(" {good}"), format!("{good}{good}"), "A".repeat(1 << 20)]);
    bad
}

/// Checks that a list refuses a cursor with `InvalidCursor`, or returns only records from `own`.
fn expect_only_own_records(ended: store_core::Result<Page<Item>>, own: &[String]) -> Verdict {
    match ended {
        Ok(page) => {
            let foreign: Vec<_> = page.items.iter().filter(|item| !own.contains(&item.id)).collect();
            expect(foreign.is_empty(), format!("the page has foreign records: {foreign:?}"))
        }
        refused => expect_kind(refused, ErrorKind::InvalidCursor).map(drop),
    }
}

/// A changed, cut, empty, huge or invented cursor is refused with `InvalidCursor`, or leads only to data that the
/// caller may read. This also holds for the start of a subscription.
pub(super) async fn a_forged_cursor_is_refused(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        let stores = given.tenant(probe.name())?;
        probe.write_all(&stores, &ordered_ids(5)).await?;
        for &direction in probe.directions() {
            let good = cursor_after_two_records(&*probe, &stores, direction).await?;
            for bad in invalid_cursors(good.as_str()) {
                let request = PageRequest::first(2).after(Cursor::from_text(&bad));
                let ended = probe.list(&stores, direction, request).await;
                expect_only_own_records(ended, &ordered_ids(5))
                    .map_err(|f| f.about(format!("{} {direction:?} {bad:.99}", probe.name())))?;
                let Some(begun) = probe.follow(&stores, Cursor::from_text(&bad)).await else { continue };
                expect_only_own_events(begun, &ordered_ids(5))
                    .await
                    .map_err(|f| f.about(format!("subscription after {bad:.99}")))?;
            }
        }
    }
    Ok(())
}

/// Checks that a subscription is refused with `InvalidCursor`, or that its first event, if there is one, has a kind
/// from `own`.
async fn expect_only_own_events(begun: store_core::Result<EventStream>, own: &[String]) -> Verdict {
    let Ok(mut events) = begun else {
        return expect_kind(begun.map(drop), ErrorKind::InvalidCursor).map(drop);
    };
    let Ok(Some(event)) = timeout(Duration::from_millis(20), next(&mut events)).await else { return Ok(()) };
    let kind = event?.kind;
    expect(own.iter().any(|own| own == kind.as_str()), format!("the subscription shows a foreign event `{kind}`"))
}

/// A cursor that was made before its tenant was deleted is refused with `InvalidCursor`, or leads only to data of the
/// new tenant with that name.
pub(super) async fn an_old_cursor_shows_nothing_of_a_deleted_tenant(given: &Given) -> Verdict {
    for probe in probes(given.contract()) {
        let old = given.tenant(probe.name())?;
        probe.write_all(&old, &ordered_ids(5)).await?;
        let mut cursors = Vec::new();
        for &direction in probe.directions() {
            cursors.push((direction, cursor_after_two_records(&*probe, &old, direction).await?));
        }
        given.store().delete_tenant(&id(probe.name())).await?;
        let (new, own) = (given.tenant(probe.name())?, ["new-1", "new-2", "new-3", "new-4"].map(str::to_owned));
        for written in [&own[..0], &own[..1], &own[1..]] {
            probe.write_all(&new, written).await?;
            for (direction, cursor) in &cursors {
                let request = PageRequest::first(10).after(cursor.clone());
                let ended = probe.list(&new, *direction, request).await;
                expect_only_own_records(ended, &own).map_err(|failure| failure.about(probe.name()))?;
                let Some(begun) = probe.follow(&new, cursor.clone()).await else { continue };
                expect_only_own_events(begun, &own).await.map_err(|failure| failure.about(probe.name()))?;
            }
        }
    }
    Ok(())
}

/// A cursor of another store is refused with `InvalidCursor`.
pub(super) async fn a_cursor_of_another_store_is_refused(given: &Given) -> Verdict {
    let other = given.open_another_store().await?;
    for probe in probes(given.contract()) {
        let (here, there) = (given.tenant(probe.name())?, other.tenant(probe.name())?);
        probe.write_all(&here, &ordered_ids(5)).await?;
        probe.write_all(&there, &ordered_ids(5)).await?;
        for &direction in probe.directions() {
            let request = PageRequest::first(2).after(cursor_after_two_records(&*probe, &there, direction).await?);
            let ended = probe.list(&here, direction, request).await;
            expect_kind(ended, ErrorKind::InvalidCursor).map_err(|failure| failure.about(probe.name()))?;
        }
    }
    Ok(())
}

/// After the store is closed and reopened, a cursor still works: the walk continues where it stopped.
pub(super) async fn a_cursor_stays_valid_after_a_reopen(given: &Given) -> Verdict {
    let mut walks = Vec::new();
    for probe in probes(given.contract()) {
        let stores = given.tenant(probe.name())?;
        probe.write_all(&stores, &ordered_ids(7)).await?;
        for &direction in probe.directions() {
            let whole = probe.walk(&stores, direction, 1000).await?;
            walks.push((probe.name(), direction, cursor_after_two_records(&*probe, &stores, direction).await?, whole));
        }
    }
    given.reopen().await?;
    for probe in probes(given.contract()) {
        let stores = given.tenant(probe.name())?;
        for (_, direction, cursor, whole) in walks.iter().filter(|(name, ..)| *name == probe.name()) {
            let rest = probe.list(&stores, *direction, PageRequest::first(1000).after(cursor.clone())).await?;
            expect_eq(&rest.items, &whole[2..].to_vec()).map_err(|failure| failure.about(probe.name()))?;
        }
    }
    Ok(())
}
