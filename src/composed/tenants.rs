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

/// Reads the list of one store, one page at a time.
struct TenantListReader<'a> {
    store: &'a dyn Store,
    /// The position in front of `page`.
    position: ListPosition,
    page: Page<TenantId>,
    /// The number of names that were taken from `page`.
    taken_count: usize,
}

/// Returns a page of the tenants that have data in either store.
pub(super) async fn list(threads: &dyn Store, mailbox: &dyn Store, page: PageRequest) -> Result<Page<TenantId>> {
    let limit = page.checked_limit()?;
    let (threads_position, mailbox_position) = match &page.cursor {
        None => (ListPosition::Beginning, ListPosition::Beginning),
        Some(cursor) => decode_positions(cursor).ok_or_else(|| Error::invalid_cursor("it belongs to another list"))?,
    };
    let mut threads_list = TenantListReader::load(threads, threads_position, limit).await?;
    let mut mailbox_list = TenantListReader::load(mailbox, mailbox_position, limit).await?;
    let mut items = Vec::new();
    while items.len() < limit
        && let Some(next) = next_tenant(&mut threads_list, &mut mailbox_list)
    {
        items.push(next);
    }
    let threads_position = threads_list.position_after_taken().await?;
    let mailbox_position = mailbox_list.position_after_taken().await?;
    let has_ended = threads_position == ListPosition::End && mailbox_position == ListPosition::End;
    let next = (!has_ended).then(|| encode_positions(&threads_position, &mailbox_position));
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
    async fn load(store: &'a dyn Store, position: ListPosition, limit: usize) -> Result<Self> {
        let page = page_request(&position, limit).map(|page_request| store.list_tenants(page_request));
        let page = match page {
            Some(page) => page.await?,
            None => Page::empty(),
        };
        Ok(Self { store, position, page, taken_count: 0 })
    }

    fn peek(&self) -> Option<&TenantId> {
        self.page.items.get(self.taken_count)
    }

    fn take(&mut self) -> Option<TenantId> {
        let tenant = self.peek().cloned();
        self.taken_count += 1;
        tenant
    }

    /// Returns whether every name of the page was taken although the list continues.
    fn needs_next_page(&self) -> bool {
        self.peek().is_none() && self.page.next.is_some()
    }

    /// Returns the position after the names that were taken. Only the end of a page has a cursor. So if the position is
    /// in the middle of the page, this function reads a shorter page that ends there.
    async fn position_after_taken(self) -> Result<ListPosition> {
        let next = match self.taken_count {
            0 if !self.page.items.is_empty() => return Ok(self.position),
            count if count == self.page.items.len() => self.page.next,
            count => match page_request(&self.position, count) {
                Some(page_request) => self.store.list_tenants(page_request).await?.next,
                None => None,
            },
        };
        Ok(next.map_or(ListPosition::End, ListPosition::After))
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
fn encode_positions(threads: &ListPosition, mailbox: &ListPosition) -> Cursor {
    let encode_position = |position: &ListPosition| match position {
        ListPosition::Beginning => "b".to_owned(),
        ListPosition::After(cursor) => format!("c{cursor}"),
        ListPosition::End => "e".to_owned(),
    };
    let (threads, mailbox) = (encode_position(threads), encode_position(mailbox));
    Cursor::from_text(format!("{}.{threads}{mailbox}", threads.len()))
}

fn decode_positions(cursor: &Cursor) -> Option<(ListPosition, ListPosition)> {
    let (length, rest) = cursor.as_str().split_once('.')?;
    let (threads, mailbox) = rest.split_at_checked(length.parse().ok()?)?;
    let decode_position = |text: &str| match text.split_at_checked(1)? {
        ("b", "") => Some(ListPosition::Beginning),
        ("c", cursor) => Some(ListPosition::After(Cursor::from_text(cursor))),
        ("e", "") => Some(ListPosition::End),
        _ => None,
    };
    let positions = decode_position(threads).zip(decode_position(mailbox));
    positions.filter(|positions| *positions != (ListPosition::End, ListPosition::End))
}
