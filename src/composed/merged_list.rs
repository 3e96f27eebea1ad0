//! Merges the lists of two stores into one list in the same order.

use std::cmp::Ordering;

use async_trait::async_trait;
use store_core::{Cursor, Error, MAX_PAGE, Page, PageRequest, Result, Store, TenantId};

/// A list of one store.
#[async_trait]
pub(super) trait ListSource<T>: Sync {
    /// Returns a page of the list. Each item has the cursor after it, if the list tells it.
    async fn list(&self, page: PageRequest) -> Result<Page<(T, Option<Cursor>)>>;
}

#[async_trait]
impl ListSource<TenantId> for &dyn Store {
    async fn list(&self, page: PageRequest) -> Result<Page<(TenantId, Option<Cursor>)>> {
        let Page { items, next } = self.list_tenants(page).await?;
        Ok(Page { items: items.into_iter().map(|tenant| (tenant, None)).collect(), next })
    }
}

/// The position up to which a list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ListPosition {
    Beginning,
    After(Cursor),
    End,
}

/// Reads the list of one store, one page at a time.
struct ListReader<'a, T> {
    source: &'a dyn ListSource<T>,
    /// The position in front of `page`.
    position: ListPosition,
    page: Page<(T, Option<Cursor>)>,
    /// The number of items that were taken from `page`.
    taken_count: usize,
}

/// Returns a page of the items of both lists, which have the order `order`. An item that is in both comes once.
pub(super) async fn list<T: Clone + PartialEq + Send + Sync>(
    left: &dyn ListSource<T>,
    right: &dyn ListSource<T>,
    order: fn(&T, &T) -> Ordering,
    page: PageRequest,
) -> Result<Page<T>> {
    let limit = page.checked_limit()?;
    let (left_position, right_position) = match &page.cursor {
        None => (ListPosition::Beginning, ListPosition::Beginning),
        Some(cursor) => decode_positions(cursor).ok_or_else(|| Error::invalid_cursor("it belongs to another list"))?,
    };
    let mut left = ListReader::load(left, left_position, limit).await?;
    let mut right = ListReader::load(right, right_position, limit).await?;
    let mut items = Vec::new();
    while items.len() < limit
        && let Some(next) = take_next(&mut left, &mut right, order)
    {
        items.push(next);
    }
    let (left, right) = (left.position_after_taken(order).await?, right.position_after_taken(order).await?);
    let has_ended = left == ListPosition::End && right == ListPosition::End;
    let next = (!has_ended).then(|| encode_positions(&left, &right));
    Ok(Page { items, next })
}

/// Takes the next item of both lists together. Returns none if both lists have ended, or if the next page of one list
/// has to be read first.
fn take_next<T: Clone + PartialEq + Send + Sync>(
    left: &mut ListReader<'_, T>,
    right: &mut ListReader<'_, T>,
    order: fn(&T, &T) -> Ordering,
) -> Option<T> {
    if left.needs_next_page() || right.needs_next_page() {
        return None;
    }
    let order = match (left.peek(), right.peek()) {
        (None, None) => return None,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(left), Some(right)) if left == right => Ordering::Equal,
        // Of different items with the same place in the order, that of the left list comes first.
        (Some(left), Some(right)) => order(left, right).then(Ordering::Less),
    };
    let from_left = if order.is_le() { left.take() } else { None };
    let from_right = if order.is_ge() { right.take() } else { None };
    from_left.or(from_right)
}

impl<'a, T: Clone + PartialEq + Send + Sync> ListReader<'a, T> {
    async fn load(source: &'a dyn ListSource<T>, position: ListPosition, limit: usize) -> Result<Self> {
        let page = match page_request(&position, limit) {
            Some(request) => source.list(request).await?,
            None => Page::empty(),
        };
        Ok(Self { source, position, page, taken_count: 0 })
    }

    fn peek(&self) -> Option<&T> {
        self.page.items.get(self.taken_count).map(|(item, _)| item)
    }

    fn take(&mut self) -> Option<T> {
        let item = self.peek().cloned();
        self.taken_count += 1;
        item
    }

    /// Returns whether every item of the page was taken although the list continues.
    fn needs_next_page(&self) -> bool {
        self.peek().is_none() && self.page.next.is_some()
    }

    /// Returns the position after the items that were taken.
    ///
    /// If items have no cursors, only the end of a page has one. So if the position is in the middle of the page, this
    /// function reads a page that ends there. Meanwhile items may have been added in front of it, or removed.
    async fn position_after_taken(self, order: fn(&T, &T) -> Ordering) -> Result<ListPosition> {
        let last = self.taken_count.checked_sub(1).and_then(|at| self.page.items.get(at));
        let Some((last, cursor)) = last.filter(|_| self.taken_count < self.page.items.len()) else {
            let is_untouched = !self.page.items.is_empty() && self.taken_count == 0;
            let end = || self.page.next.map_or(ListPosition::End, ListPosition::After);
            return Ok(if is_untouched { self.position } else { end() });
        };
        if let Some(cursor) = cursor {
            return Ok(ListPosition::After(cursor.clone()));
        }
        let (mut limit, mut is_removed) = (self.taken_count, false);
        while let Some(request) = page_request(&self.position, limit) {
            let page = self.source.list(request).await?;
            let place = page.items.iter().position(|(item, _)| item == last);
            let before = place.or_else(|| page.items.iter().rposition(|(item, _)| order(item, last).is_le()));
            let before = before.map_or(0, |at| at + 1);
            if before < page.items.len() {
                if before == 0 {
                    return Ok(self.position);
                }
                (limit, is_removed) = (before, place.is_none());
                continue;
            }
            match page.next {
                Some(next) if place.is_some() || is_removed || limit >= MAX_PAGE as usize => {
                    return Ok(ListPosition::After(next));
                }
                Some(_) => limit += 1,
                None => break,
            }
        }
        Ok(ListPosition::End)
    }
}

fn page_request(position: &ListPosition, limit: usize) -> Option<PageRequest> {
    let limit = u32::try_from(limit).ok();
    match position {
        ListPosition::Beginning => Some(PageRequest { limit, cursor: None }),
        ListPosition::After(cursor) => Some(PageRequest { limit, cursor: Some(cursor.clone()) }),
        ListPosition::End => None,
    }
}

/// Encodes both positions as one cursor: the length of the first encoded position, a dot, and both encoded positions.
/// The first letter of an encoded position says which kind it is.
fn encode_positions(left: &ListPosition, right: &ListPosition) -> Cursor {
    let encode_position = |position: &ListPosition| match position {
        ListPosition::Beginning => "b".to_owned(),
        ListPosition::After(cursor) => format!("c{cursor}"),
        ListPosition::End => "e".to_owned(),
    };
    let (left, right) = (encode_position(left), encode_position(right));
    Cursor::from_text(format!("{}.{left}{right}", left.len()))
}

fn decode_positions(cursor: &Cursor) -> Option<(ListPosition, ListPosition)> {
    let (length, rest) = cursor.as_str().split_once('.')?;
    let (left, right) = rest.split_at_checked(length.parse().ok()?)?;
    let decode_position = |text: &str| match text.split_at_checked(1)? {
        ("b", "") => Some(ListPosition::Beginning),
        ("c", cursor) => Some(ListPosition::After(Cursor::from_text(cursor))),
        ("e", "") => Some(ListPosition::End),
        _ => None,
    };
    let positions = decode_position(left).zip(decode_position(right));
    positions.filter(|positions| *positions != (ListPosition::End, ListPosition::End))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

    use std::sync::Mutex;

    use async_trait::async_trait;
    use store_core::{Cursor, Page, PageRequest, Result};

    use super::{ListSource, list};

    /// A list of numbers in ascending order. Each read but the last one is followed by a change to the next list.
    struct Changing {
        lists: Mutex<Vec<Vec<u32>>>,
        has_cursors: bool,
    }

    impl Changing {
        fn new(lists: &[&[u32]], has_cursors: bool) -> Self {
            Self { lists: Mutex::new(lists.iter().rev().map(|list| list.to_vec()).collect()), has_cursors }
        }
    }

    #[async_trait]
    impl ListSource<u32> for Changing {
        async fn list(&self, page: PageRequest) -> Result<Page<(u32, Option<Cursor>)>> {
            let mut lists = self.lists.lock().unwrap();
            let present = lists.last().unwrap().clone();
            if lists.len() > 1 {
                lists.pop();
            }
            let after: Option<u32> = page.cursor.as_ref().map(|cursor| cursor.as_str().parse().unwrap());
            let rest: Vec<_> = present.into_iter().filter(|item| after.is_none_or(|after| *item > after)).collect();
            let limit = page.checked_limit()?;
            let items: Vec<_> = rest.iter().copied().take(limit).collect();
            let cursor = |item: &u32| Cursor::from_text(item.to_string());
            let next = (rest.len() > limit).then(|| cursor(items.last().unwrap()));
            let items = items.into_iter().map(|item| (item, self.has_cursors.then(|| cursor(&item)))).collect();
            Ok(Page { items, next })
        }
    }

    /// Reads both lists as one, in pages of this size.
    async fn read(left: &[&[u32]], right: &[&[u32]], limit: u32) -> Vec<u32> {
        let found = read_lists(Changing::new(left, false), Changing::new(right, false), limit).await;
        // With cursors, nothing is read twice.
        let with_cursors = read_lists(Changing::new(left, true), Changing::new(right, true), limit).await;
        assert!(found == with_cursors || left.len() > 1, "{with_cursors:?}");
        found
    }

    async fn read_lists(left: Changing, right: Changing, limit: u32) -> Vec<u32> {
        let (mut found, mut page) = (Vec::new(), PageRequest::first(limit));
        loop {
            let listed = list(&left, &right, u32::cmp, page.clone()).await.unwrap();
            found.extend(listed.items);
            let Some(next) = listed.next else { return found };
            page = page.after(next);
        }
    }

    #[tokio::test]
    async fn two_lists_are_read_as_one_in_pages_of_any_size() {
        for limit in 1..8 {
            assert_eq!(read(&[&[1, 3, 5, 6]], &[&[2, 3, 4, 9]], limit).await, [1, 2, 3, 4, 5, 6, 9], "{limit}");
            assert_eq!(read(&[&[]], &[&[2, 4]], limit).await, [2, 4], "{limit}");
            assert_eq!(read(&[&[1, 1]], &[&[]], limit).await.len(), if limit == 1 { 1 } else { 2 });
        }
    }

    /// While the first page is read, items are added in front of what was taken, or removed. Nothing else is lost, and
    /// nothing comes twice.
    #[tokio::test]
    async fn changes_while_a_page_is_read_hide_nothing_else() {
        let left: &[u32] = &[10, 20, 30, 40, 50];
        let changed: [(&[u32], &[u32]); 6] = [
            (&[1, 2, 3, 10, 20, 30, 40, 50], &[10, 20, 25, 30, 40, 50]),
            (&[10, 30, 40, 50], &[10, 20, 25, 30, 40, 50]),
            (&[20, 30, 40, 50], &[10, 20, 25, 30, 40, 50]),
            (&[30, 40, 50], &[10, 20, 25, 30, 40, 50]),
            (&[1, 2, 30, 40, 50], &[10, 20, 25, 30, 40, 50]),
            (&[10, 20], &[10, 20, 25]),
        ];
        for (after, expected) in changed {
            assert_eq!(read(&[left, after], &[&[25]], 3).await, expected, "{after:?}");
        }
    }
}
