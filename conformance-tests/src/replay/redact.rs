//! Redaction: the bytes of a record are removed, and its place stays.

use store_core::{DocumentQuery, ErrorKind, PageRequest, ReplayContent};

use super::helpers::{append, expect_next, expect_records, named, new, replay, stream};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages},
};

/// A redacted record keeps its id, number, wire id and cursor, and says when it was redacted. It may be redacted again,
/// and a repeat of its append is that record.
pub(super) async fn a_redacted_record_keeps_its_place(given: &Given) -> Verdict {
    let records = append(given, named("a b c")).await?;
    let redacted = replay(given)?.redact_replay(&records[1].id).await?;
    let ReplayContent::Redacted { at } = redacted.content else { return expect(false, "the record has its bytes") };
    expect(at >= redacted.created_at, "it was redacted before it was appended")?;
    expect_eq((&redacted.id, &redacted.cursor), (&records[1].id, &records[1].cursor))?;
    expect_records(given, "1:a=a 2:b=(redacted) 3:c=c").await?;
    expect_eq(replay(given)?.redact_replay(&records[1].id).await?, redacted.clone())?;
    expect_eq(append(given, named("b d")).await?.remove(0), redacted)?;
    let mut subscription = replay(given)?.subscribe_replay(&stream(), Some(records[0].cursor.clone())).await?;
    expect_next(&mut subscription, "2:b=(redacted) 3:c=c 4:d=d").await?;
    expect_kind(replay(given)?.redact_replay(&id("unknown")).await, ErrorKind::NotFound).map(drop)
}

/// The bytes of a redacted record are in no document of the replay log, and are not returned in any way.
pub(super) async fn redacted_bytes_are_gone(given: &Given) -> Verdict {
    let record = append(given, [new("a", "top secret"), new("b", "b")]).await?.remove(0);
    expect(is_stored(given).await?, "the bytes are not found before the redaction")?;
    replay(given)?.redact_replay(&record.id).await?;
    expect(!is_stored(given).await?, "the bytes are still stored")?;
    let loaded = expect_some(replay(given)?.load_replay(&record.id).await?, "record")?;
    let found = expect_some(replay(given)?.find_replay(&stream(), &id("a")).await?, "record")?;
    expect_eq((loaded.bytes(), found.bytes()), (None, None))
}

/// Whether `top secret` is in a document of the replay log, as text or in base64.
async fn is_stored(given: &Given) -> Result<bool, Failure> {
    let documents = &expect_some(given.stores()?.documents, "documents")?;
    let query = DocumentQuery::new(id("layer.replay.records"));
    let all = read_all_pages(PageRequest::first(10), |page| documents.list_documents(query.clone().with_page(page)));
    let has_bytes = |text: &str| text.contains("top secret") || text.contains("dG9wIHNlY3JldA==");
    Ok(all.await?.iter().any(|document| has_bytes(document.value.as_str())))
}
