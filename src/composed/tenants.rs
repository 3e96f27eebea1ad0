//! Merges the tenants of two stores into one list ordered by name.

use std::cmp::Ordering;

use store_core::{Cursor, Error, Page, PageRequest, Result, Store, TenantId};

/// The position up to which a list was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum At {
    Beginning,
    Behind(Cursor),
    End,
}

/// The list of one store, with the page of it that was read.
struct Side<'a> {
    store: &'a dyn Store,
    at: At,
    page: Page<TenantId>,
    taken: usize,
}

/// Returns a page of the tenants that have data in either store.
pub(super) async fn list(threads: &dyn Store, mailbox: &dyn Store, page: PageRequest) -> Result<Page<TenantId>> {
    let limit = page.checked_limit()?;
    let (of_threads, of_mailbox) = match &page.cursor {
        None => (At::Beginning, At::Beginning),
        Some(cursor) => read(cursor).ok_or_else(|| Error::invalid_cursor("it belongs to another list"))?,
    };
    let mut sides = (Side::read(threads, of_threads, limit).await?, Side::read(mailbox, of_mailbox, limit).await?);
    let mut items = Vec::new();
    while items.len() < limit
        && let Some(next) = next(&mut sides.0, &mut sides.1)
    {
        items.push(next);
    }
    let at = (sides.0.end().await?, sides.1.end().await?);
    let next = (at != (At::End, At::End)).then(|| written(&at.0, &at.1));
    Ok(Page { items, next })
}

/// Takes the next name in the order of both lists together. Returns none at the end of both lists, and also if the next
/// page of one list has to be read first.
fn next(left: &mut Side<'_>, right: &mut Side<'_>) -> Option<TenantId> {
    if left.is_short() || right.is_short() {
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

impl<'a> Side<'a> {
    async fn read(store: &'a dyn Store, at: At, limit: usize) -> Result<Self> {
        let page = request(&at, limit).map(|request| store.list_tenants(request));
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
    fn is_short(&self) -> bool {
        self.peek().is_none() && self.page.next.is_some()
    }

    /// Returns the position after the names that were taken. If that position is in the middle of the page, it reads a
    /// page that ends there, to get its cursor.
    async fn end(self) -> Result<At> {
        let next = match self.taken {
            0 if !self.page.items.is_empty() => return Ok(self.at),
            taken if taken == self.page.items.len() => self.page.next,
            taken => match request(&self.at, taken) {
                Some(request) => self.store.list_tenants(request).await?.next,
                None => None,
            },
        };
        Ok(next.map_or(At::End, At::Behind))
    }
}

fn request(at: &At, limit: usize) -> Option<PageRequest> {
    let limit = u32::try_from(limit).ok();
    match at {
        At::Beginning => Some(PageRequest { limit, cursor: None }),
        At::Behind(cursor) => Some(PageRequest { limit, cursor: Some(cursor.clone()) }),
        At::End => None,
    }
}

/// Encodes both positions as one cursor: the length of the first position, a dot, then the two positions, each after a
/// letter that names its kind.
fn written(threads: &At, mailbox: &At) -> Cursor {
    let text = |at: &At| match at {
        At::Beginning => "b".to_owned(),
        At::Behind(cursor) => format!("c{cursor}"),
        At::End => "e".to_owned(),
    };
    let (threads, mailbox) = (text(threads), text(mailbox));
    Cursor::from_text(format!("{}.{threads}{mailbox}", threads.len()))
}

fn read(cursor: &Cursor) -> Option<(At, At)> {
    let (length, rest) = cursor.as_str().split_once('.')?;
    let (threads, mailbox) = rest.split_at_checked(length.parse().ok()?)?;
    let at = |text: &str| match text.split_at_checked(1)? {
        ("b", "") => Some(At::Beginning),
        ("c", cursor) => Some(At::Behind(Cursor::from_text(cursor))),
        ("e", "") => Some(At::End),
        _ => None,
    };
    at(threads).zip(at(mailbox)).filter(|at| *at != (At::End, At::End))
}
