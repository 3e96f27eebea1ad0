//! Merges the tenants of two stores into one list ordered by name.

use std::cmp::Ordering;

use store_core::{Cursor, Error, Page, PageRequest, Result, Store, TenantId};

/// The position up to which a list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ListPosition {
    Beginning,
    After(Cursor),
    End,
}

/// The list of one store, with the page of it that was read.
struct TenantListReader<'a> {
    store: &'a dyn Store,
    at: ListPosition,
    page: Page<TenantId>,
    taken: usize,
}

/// Returns a page of the tenants that have data in either store.
pub(super) async fn list(threads: &dyn Store, mailbox: &dyn Store, page: PageRequest) -> Result<Page<TenantId>> {
    let limit = page.checked_limit()?;
    let (threads_position, mailbox_position) = match &page.cursor {
        None => (ListPosition::Beginning, ListPosition::Beginning),
        Some(cursor) => decode_positions(cursor).ok_or_else(|| Error::invalid_cursor("it belongs to another list"))?,
    };
    let mut lists = (
        TenantListReader::load(threads, threads_position, limit).await?,
        TenantListReader::load(mailbox, mailbox_position, limit).await?,
    );
    let mut items = Vec::new();
    while items.len() < limit
        && let Some(next) = next_tenant(&mut lists.0, &mut lists.1)
    {
        items.push(next);
    }
    let at = (lists.0.position_after_taken().await?, lists.1.position_after_taken().await?);
    let next = (at != (ListPosition::End, ListPosition::End)).then(|| encode_positions(&at.0, &at.1));
    Ok(Page { items, next })
}

/// Takes the next name in the order of both lists together. Returns none if both lists have ended, or if the next
/// page of one list has to be read first.
fn next_tenant(left: &mut TenantListReader<'_>, right: &mut TenantListReader<'_>) -> Option<TenantId> {
    if left.needs_next_page() || right.needs_next_page() {
        return None;
    }
    let order = match (left.peek(), right.peek()) {
        (None, None) => return None,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(left), Some(right)) => left.cmp(right),
    };
    let from_left = if order.is_le() { left.take() } else { None };
    let from_right = if order.is_ge() { right.take() } else { None };
    from_left.or(from_right)
}

impl<'a> TenantListReader<'a> {
    async fn load(store: &'a dyn Store, at: ListPosition, limit: usize) -> Result<Self> {
        let page = page_request(&at, limit).map(|page_request| store.list_tenants(page_request));
        let page = match page {
            Some(page) => page.await?,
            None => Page::empty(),
        };
        Ok(Self { store, at, page, taken: 0 })
    }

    fn peek(&self) -> Option<&TenantId> {
        self.page.items.get(self.taken)
    }

    fn take(&mut self) -> Option<TenantId> {
        let taken = self.peek().cloned();
        self.taken += 1;
        taken
    }

    /// Returns whether every name of the page was taken although the list continues.
    fn needs_next_page(&self) -> bool {
        self.peek().is_none() && self.page.next.is_some()
    }

    /// Returns the position after the names that were taken. Only the end of a page has a cursor. So if the position is
    /// in the middle of the page, this function reads a shorter page that ends there.
    async fn position_after_taken(self) -> Result<ListPosition> {
        let next = match self.taken {
            0 if !self.page.items.is_empty() => return Ok(self.at),
            taken if taken == self.page.items.len() => self.page.next,
            taken => match page_request(&self.at, taken) {
                Some(page_request) => self.store.list_tenants(page_request).await?.next,
                None => None,
            },
        };
        Ok(next.map_or(ListPosition::End, ListPosition::After))
    }
}

fn page_request(at: &ListPosition, limit: usize) -> Option<PageRequest> {
    let limit = u32::try_from(limit).ok();
    match at {
        ListPosition::Beginning => Some(PageRequest { limit, cursor: None }),
        ListPosition::After(cursor) => Some(PageRequest { limit, cursor: Some(cursor.clone()) }),
        ListPosition::End => None,
    }
}

/// Encodes both positions as one cursor: the length of the first encoded position, a dot, and both encoded positions.
/// The first letter of an encoded position says which kind it is.
fn encode_positions(threads: &ListPosition, mailbox: &ListPosition) -> Cursor {
    let text = |at: &ListPosition| match at {
        ListPosition::Beginning => "b".to_owned(),
        ListPosition::After(cursor) => format!("c{cursor}"),
        ListPosition::End => "e".to_owned(),
    };
    let (threads, mailbox) = (text(threads), text(mailbox));
    Cursor::from_text(format!("{}.{threads}{mailbox}", threads.len()))
}

fn decode_positions(cursor: &Cursor) -> Option<(ListPosition, ListPosition)> {
    let (length, rest) = cursor.as_str().split_once('.')?;
    let (threads, mailbox) = rest.split_at_checked(length.parse().ok()?)?;
    let at = |text: &str| match text.split_at_checked(1)? {
        ("b", "") => Some(ListPosition::Beginning),
        ("c", cursor) => Some(ListPosition::After(Cursor::from_text(cursor))),
        ("e", "") => Some(ListPosition::End),
        _ => None,
    };
    at(threads).zip(at(mailbox)).filter(|at| *at != (ListPosition::End, ListPosition::End))
}
