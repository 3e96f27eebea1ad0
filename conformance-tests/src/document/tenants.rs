//! Documents of different tenants.

use store_core::{DocumentChange, DocumentExpect, ErrorKind, PageRequest, WriteDocuments};

use super::helpers::{all_notes, joined_keys, note, put, text};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
};

/// A tenant reads, lists, changes and deletes its own documents only, although the keys are the same. Its cursors are
/// refused by other tenants.
pub(super) async fn tenants_have_their_own_documents(given: &Given) -> Verdict {
    let store_of = |name: &str| expect_some(given.tenant(name)?.documents, "documents");
    let (one, longer) = (store_of("a")?, store_of("ab")?);
    let revision = one.write_documents(WriteDocuments::new([put("x", "one"), put("y", "one")])).await?.revision;
    expect_eq(longer.load_documents(&[note("x")]).await?, vec![None])?;
    expect_eq(one.list_documents(all_notes()).await?.items.len(), 2)?;
    let stale = put("x", "stolen").expecting(DocumentExpect::Revision(revision.unwrap_or_default()));
    expect_kind(longer.write_documents(WriteDocuments::new([stale])).await, ErrorKind::Conflict)?;
    let _written = longer.write_documents(WriteDocuments::new([put("x", "longer"), put("z", "longer")])).await?;
    expect_eq(joined_keys(&one.list_documents(all_notes()).await?.items).as_str(), "x y")?;
    expect_eq(joined_keys(&longer.list_documents(all_notes()).await?.items).as_str(), "x z")?;
    let page = one.list_documents(all_notes().with_page(PageRequest::first(1))).await?;
    let next = PageRequest::first(1).after(expect_some(page.next, "cursor")?);
    expect_kind(longer.list_documents(all_notes().with_page(next)).await, ErrorKind::InvalidCursor)?;
    let _written = longer.write_documents(WriteDocuments::new([DocumentChange::delete(note("x"))])).await?;
    let found = expect_some(one.load_documents(&[note("x")]).await?.remove(0), "document")?;
    expect_eq(text(&found).as_str(), "one")
}
