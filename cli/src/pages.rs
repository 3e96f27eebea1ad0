//! Reads lists page by page.

use agentstore::{Page, PageRequest, length};

use crate::failure::Result;

/// The number of records of a page.
const PAGE_SIZE: u32 = 500;

/// Passes the records of a list to `visit`, until the list ends or `visit` returns `false`. `true` asks for
/// the next record.
pub(crate) async fn for_each<T>(
    mut load: impl AsyncFnMut(PageRequest) -> agentstore::Result<Page<T>>,
    mut visit: impl FnMut(T) -> Result<bool>,
) -> Result<()> {
    let mut request = PageRequest::first(PAGE_SIZE);
    loop {
        let page = load(request.clone()).await?;
        for item in page.items {
            if !visit(item)? {
                return Ok(());
            }
        }
        match page.next {
            Some(cursor) => request = request.after(cursor),
            None => return Ok(()),
        }
    }
}

/// Returns all records of a list. They must fit into memory.
pub(crate) async fn load_all<T>(load: impl AsyncFnMut(PageRequest) -> agentstore::Result<Page<T>>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    for_each(load, |item| {
        items.push(item);
        Ok(true)
    })
    .await?;
    Ok(items)
}

/// Returns all items of a list that continues after an item instead of a cursor. They must fit into memory.
pub(crate) async fn load_all_after<T: Clone>(
    mut load: impl AsyncFnMut(Option<T>, u32) -> agentstore::Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut items: Vec<T> = Vec::new();
    loop {
        let found = load(items.last().cloned(), PAGE_SIZE).await?;
        let is_end = length(found.len()) < u64::from(PAGE_SIZE);
        items.extend(found);
        if is_end {
            return Ok(items);
        }
    }
}
