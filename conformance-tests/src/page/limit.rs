//! How many records a page holds, and when it has a cursor.

use store_core::{Direction, ErrorKind, PageRequest, TenantStores};

use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    record_list::{RecordList, record_lists},
};

/// Returns `count` ids in ascending order.
pub(super) fn ordered_ids(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("id-{at:04}")).collect()
}

/// The sizes of the pages of a walk with this limit.
async fn page_sizes(
    records: &dyn RecordList,
    stores: &TenantStores,
    direction: Direction,
    limit: u32,
) -> Result<Vec<usize>, Failure> {
    let (mut page_sizes, mut request) = (Vec::new(), PageRequest::first(limit));
    loop {
        let page = records.list(stores, direction, request.clone()).await?;
        page_sizes.push(page.items.len());
        match page.next {
            Some(cursor) => request = request.after(cursor),
            None => return Ok(page_sizes),
        }
    }
}

/// A page holds at most `limit` records, and has a cursor if and only if more follow.
pub(super) async fn no_page_exceeds_its_limit(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(7)).await?;
        for &direction in records.directions() {
            for (limit, wanted) in [
                (1, vec![1; 7]),
                (2, vec![2, 2, 2, 1]),
                (3, vec![3, 3, 1]),
                (6, vec![6, 1]),
                (7, vec![7]),
                (8, vec![7]),
                (1000, vec![7]),
            ] {
                let found = page_sizes(&*records, &stores, direction, limit).await?;
                expect_eq(found, wanted).map_err(|f| f.about(format!("{}, limit {limit}", records.name())))?;
            }
        }
    }
    Ok(())
}

/// A limit of 0 or above 1,000 is refused with `Invalid`, with and without a cursor. Without a limit a page holds up to
/// 50 records.
pub(super) async fn a_page_limit_out_of_range_is_refused(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(51)).await?;
        for &direction in records.directions() {
            let page = records.list(&stores, direction, PageRequest::default()).await?;
            expect_eq(page.items.len(), 50)?;
            let cursor = page.next.ok_or_else(|| Failure::new("the page has no cursor").about(records.name()))?;
            for limit in [0, 1001, u32::MAX] {
                let first_request = PageRequest::first(limit);
                for request in [first_request.clone(), first_request.after(cursor.clone())] {
                    expect_kind(records.list(&stores, direction, request).await, ErrorKind::Invalid)
                        .map_err(|failure| failure.about(records.name()))?;
                }
            }
            let second_page = records.list(&stores, direction, PageRequest::default().after(cursor)).await?;
            expect_eq((second_page.items.len(), second_page.next.is_none()), (1, true))?;
        }
    }
    Ok(())
}

/// If nothing is found, the page is empty and has no cursor, and the call is not an error. This also holds for a tenant
/// that was never used.
pub(super) async fn finding_nothing_returns_an_empty_page(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        for &direction in records.directions() {
            for limit in [1, 1000] {
                let page = records.list(&stores, direction, PageRequest::first(limit)).await?;
                expect(page.items.is_empty() && page.next.is_none(), format!("{}: {page:?}", records.name()))?;
            }
        }
        expect(!records.has(&stores, "x").await?, "a record that was never written is found")?;
    }
    Ok(())
}
