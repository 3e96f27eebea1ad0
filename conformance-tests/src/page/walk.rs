//! Walks, which read a list page by page to its end: their order, and what happens if the list grows meanwhile.

use std::collections::BTreeSet;

use store_core::{Direction, PageRequest};

use super::limit::ordered_ids;
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq},
    record_list::{ListedRecord, record_lists},
};

/// Ids that are sorted differently by locale, by case, by Unicode normalization, or by UTF-16 instead of UTF-8.
const IDS_WITH_AMBIGUOUS_ORDER: [&str; 16] =
    ["a", "B", "b", "A", "é", "e\u{301}", "z", "~", "_", "-", "a b", "a-b", "\u{fb01}", "\u{ffee}", "\u{10ffff}", "10"];

/// The order of a list is total: records with equal keys are ordered by the bytes of their ids. A backward walk returns
/// the same records in reverse order, whatever the size of the pages is.
pub(super) async fn orders_are_total(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &IDS_WITH_AMBIGUOUS_ORDER.map(str::to_owned)).await?;
        let forward_records = records.read_all_pages(&stores, Direction::Forward, 1000).await?;
        let sorted_records: Vec<ListedRecord> =
            forward_records.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
        expect_eq(&forward_records, &sorted_records).map_err(|failure| failure.about(records.name()))?;
        expect_eq(forward_records.len(), IDS_WITH_AMBIGUOUS_ORDER.len())?;
        for limit in [1, 2, 5] {
            for &direction in records.directions() {
                let mut found = records.read_all_pages(&stores, direction, limit).await?;
                if direction == Direction::Backward {
                    found.reverse();
                }
                expect_eq(&found, &forward_records).map_err(|f| f.about(format!("{} by {limit}", records.name())))?;
            }
        }
    }
    Ok(())
}

/// If records are written between two pages of a walk, the walk still repeats no record, and returns every record that
/// existed at its start exactly once.
pub(super) async fn a_walk_with_writes_between_pages_skips_and_repeats_nothing(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        for &direction in records.directions() {
            let stores = given.tenant(&format!("{} {direction:?}", records.name()))?;
            records.write_all(&stores, &ordered_ids(9)).await?;
            let (mut found, mut request) = (Vec::new(), PageRequest::first(2));
            for pages_read in 0.. {
                let page = records.list(&stores, direction, request.clone()).await?;
                found.extend(page.items.into_iter().map(|item| item.id));
                let Some(cursor) = page.next else { break };
                expect(pages_read < 50, format!("{} {direction:?}: the walk does not end", records.name()))?;
                request = request.after(cursor);
                for name in [format!("aa-{pages_read:03}"), format!("zz-{pages_read:03}")] {
                    if pages_read < 6 {
                        records.write(&stores, &name).await?;
                    }
                }
            }
            let distinct_ids: BTreeSet<_> = found.iter().cloned().collect();
            let what = || format!("{} {direction:?}: {found:?}", records.name());
            expect_eq(distinct_ids.len(), found.len()).map_err(|failure: Failure| failure.about(what()))?;
            expect(ordered_ids(9).iter().all(|name| distinct_ids.contains(name)), what())?;
        }
    }
    Ok(())
}

/// A walk during which records are written returns every record that existed at the start exactly once, and ends.
pub(super) async fn a_walk_during_writes_returns_each_record_once(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        records.write_all(&stores, &ordered_ids(30)).await?;
        let (name, contract, writer_stores) = (records.name(), given.contract(), stores.clone());
        let writer = tokio::spawn(async move {
            let records = record_lists(contract).into_iter().find(|records| records.name() == name);
            for at in 0..60 {
                if let Some(records) = &records {
                    records.write(&writer_stores, &format!("more-{at:03}")).await?;
                }
            }
            Ok::<(), store_core::Error>(())
        });
        for &direction in records.directions() {
            let found = records.read_all_pages(&stores, direction, 3).await?;
            let distinct_ids: BTreeSet<_> = found.iter().map(|item| &item.id).collect();
            expect_eq(distinct_ids.len(), found.len()).map_err(|failure| failure.about(name))?;
            expect(
                ordered_ids(30).iter().all(|name| distinct_ids.contains(name)),
                format!("{name}: a record is missing"),
            )?;
        }
        writer.await.map_err(|panic| Failure::new(panic.to_string()))??;
    }
    Ok(())
}
