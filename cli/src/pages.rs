//! Reads lists page by page.

use agentstore::{Page, PageRequest};

use crate::failure::Result;

/// The number of records of a page.
const PAGE: u32 = 500;

/// Passes the records of a list to `take`, until `take` returns false or the list ends.
pub(crate) async fn each<T>(
    mut load: impl AsyncFnMut(PageRequest) -> agentstore::Result<Page<T>>,
    mut take: impl FnMut(T) -> Result<bool>,
) -> Result<()> {
    let mut request = PageRequest::first(PAGE);
    loop {
        let page = load(request.clone()).await?;
        for item in page.items {
            if !take(item)? {
                return Ok(());
            }
        }
        match page.next {
            Some(cursor) => request = request.after(cursor),
            None => return Ok(()),
        }
    }
}

/// Returns all records of a list. For lists that fit into memory.
pub(crate) async fn all<T>(load: impl AsyncFnMut(PageRequest) -> agentstore::Result<Page<T>>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    each(load, |item| {
        items.push(item);
        Ok(true)
    })
    .await?;
    Ok(items)
}
