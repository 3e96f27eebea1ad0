//! Blocks that are moved to blobs, and put back by reads.

use std::sync::Arc;

use bytes::Bytes;
use store_core::{
    BlobHash, Block, BlockKind, Budget, Commit, Compaction, ContextRequest, Entry, EntryQuery, ErrorKind, ImportOrigin,
    LogReaderExt, Media, MediaSource, Message, NewBody, NewEntry, Opaque, Origin, PageRequest, Role, Thinking,
    codec::Codec,
};

use super::helpers::{
    blobs, blobs_of_thread, commit, commits, first_text, list, long_text, object_count, threads, with_moving,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_kind, expect_some},
    given::id,
    log::entry_drafts::json,
    object::helpers::objects,
};

/// Commits entries to the thread `t` by a store that uses blobs. Returns the entries as its threads read them.
async fn commit_and_read(given: &Given, bodies: Vec<NewBody>) -> Result<Vec<Arc<Entry>>, Failure> {
    let entries = bodies.into_iter().map(NewEntry::new);
    commit(given, Commit::new(id("t")).with_key(id("k")).entries(entries)).await?;
    let thread = id("t");
    Ok(threads(given)?.list_entries(&thread, EntryQuery::default()).await?.items)
}

/// The JSON of the entries of the thread `t`, as they are stored.
async fn stored_text(given: &Given) -> Result<String, Failure> {
    Ok(given.read_log(&id("t")).await?.iter().map(|entry| entry.encode()).collect())
}

/// A large block is equal in every read: of the entry, of the list, of the context.
pub(super) async fn a_large_block_comes_back_as_it_was(given: &Given) -> Verdict {
    let message = Message::new(Role::User, vec![Block::text("small"), Block::text(long_text("large"))]);
    let listed = commit_and_read(given, vec![message.clone().into()]).await?;
    expect_eq(listed.first().and_then(|entry| entry.message()), Some(&message))?;
    let (threads, thread) = (threads(given)?, id("t"));
    let loaded = expect_some(threads.load_entry(&thread, &listed[0].id).await?, "entry")?;
    expect_eq(&loaded, &listed[0])?;
    let context = threads.load_context(&thread, ContextRequest::head()).await?;
    expect_eq(&context.context.messages[0].message, &message)
}

/// Large blocks of every kind are equal when they are read, also those of results of tools and of compactions.
pub(super) async fn every_kind_of_large_block_comes_back(given: &Given) -> Verdict {
    let media = || Media::new(Some("image/png".to_owned()), MediaSource::Base64(long_text("bytes")));
    let mut thinking = Thinking::new(long_text("thinking"));
    thinking.signature = Some(long_text("signature"));
    let opaque = || Opaque::new(Origin::new("provider"), json(&format!(r#"["{}"]"#, "x".repeat(300))));
    let mut with_opaque = Block::text("short");
    with_opaque.opaque = Some(opaque());
    let unknown = BlockKind::Unknown { kind: "later".to_owned(), data: opaque().data };
    let kinds = [
        BlockKind::Thinking(thinking),
        BlockKind::Image(media()),
        BlockKind::Document(media()),
        BlockKind::Audio(media()),
        BlockKind::Video(media()),
        BlockKind::Opaque(opaque()),
        unknown,
    ];
    let mut blocks: Vec<_> = kinds.into_iter().map(Block::new).collect();
    blocks.push(with_opaque);
    blocks.push(Block::tool_use("call", "tool", json("{}")));
    let result = Block::tool_result("call", vec![Block::text("short"), Block::text(long_text("result"))]);
    let mut compaction = Compaction::default();
    compaction.summary = vec![Block::text(long_text("summary"))];
    compaction.replacement = Some(vec![Message::user(long_text("replacement"))]);
    let (asked, answered) = (Message::new(Role::Assistant, blocks), Message::new(Role::Tool, vec![result]));
    let read = commit_and_read(given, vec![asked.clone().into(), answered.clone().into(), compaction.clone().into()]);
    let read = read.await?;
    expect_eq(read[0].message(), Some(&asked))?;
    expect_eq(read[1].message(), Some(&answered))?;
    expect_eq(&*read[2].body, &store_core::Body::Compaction(compaction))?;
    let stored = stored_text(given).await?;
    expect(stored.len() < 6_000, format!("{} bytes are stored in the records", stored.len()))
}

/// A block above the size is not in its record, so it does not count for the size of the record. Smaller ones stay.
pub(super) async fn a_large_block_leaves_its_record(given: &Given) -> Verdict {
    let record_bytes = usize::try_from(given.limits().record_bytes).unwrap_or(usize::MAX);
    let (small, large) = ("s".repeat(100), "L".repeat(record_bytes + 1));
    let message = Message::new(Role::User, vec![Block::text(&*small), Block::text(&*large)]);
    let read = commit_and_read(given, vec![message.clone().into()]).await?;
    expect(read[0].message() == Some(&message), "the message is another one")?;
    let stored = stored_text(given).await?;
    expect(stored.contains(&small) && !stored.contains("LLLL"), "the wrong block was moved")?;
    expect_eq((object_count(given).await?, blobs_of_thread(given, "t").await?.len()), (1, 1))
}

/// Calls of tools are read by rules, so they stay, however large they are.
pub(super) async fn a_call_of_a_tool_stays_in_its_record(given: &Given) -> Verdict {
    let input = json(&format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000)));
    let message = Message::new(Role::Assistant, vec![Block::tool_use("call", "tool", input)]);
    commit_and_read(given, vec![message.clone().into()]).await?;
    let stored = given.read_log(&id("t")).await?;
    expect_eq(stored[0].message(), Some(&message))?;
    expect_eq(object_count(given).await?, 0)
}

/// A store that moves no blocks keeps them in their records. It still gives back those that were moved before.
pub(super) async fn moving_can_be_switched_off(given: &Given) -> Verdict {
    let moved = Message::user(long_text("moved"));
    commit_and_read(given, vec![moved.clone().into()]).await?;
    let stores = with_moving(given, None)?;
    let (commits, threads) = (expect_some(stores.commits, "commits")?, expect_some(stores.threads, "threads")?);
    let stays = Message::user(long_text("stays"));
    let receipt = commits.commit(Commit::new(id("t")).with_key(id("k2")).entry(NewEntry::new(stays.clone()))).await?;
    expect_eq(receipt.version.number(), 2)?;
    expect_eq(object_count(given).await?, 1)?;
    expect(stored_text(given).await?.contains("stays"), "the block was moved")?;
    let read = threads.list_entries(&id("t"), EntryQuery::default()).await?.items;
    expect_eq(read.iter().map(|entry| entry.message()).collect::<Vec<_>>(), [Some(&moved), Some(&stays)])
}

/// One image in many messages of several threads is stored once.
pub(super) async fn equal_blocks_are_stored_once(given: &Given) -> Verdict {
    let image = Media::new(Some("image/png".to_owned()), MediaSource::Base64(long_text("image")));
    let message = Message::new(Role::User, vec![Block::new(BlockKind::Image(image))]);
    for number in 0..40 {
        let new = Commit::new(id(&format!("t{}", number % 4))).with_key(id(&format!("k{number}")));
        let entries = (0..25).map(|_| NewEntry::new(message.clone()));
        commit(given, new.entries(entries)).await?;
    }
    expect_eq((object_count(given).await?, list(&*blobs(given)?).await?.len()), (1, 1))?;
    let query = EntryQuery::default().with_page(PageRequest::first(300));
    let entries = threads(given)?.list_entries(&id("t3"), query).await?.items;
    expect_eq(entries.len(), 250)?;
    expect(entries.iter().all(|entry| entry.message() == Some(&message)), "a message is another one")
}

/// A commit that is repeated with its key returns the first receipt. Another content is refused.
pub(super) async fn a_repeated_commit_returns_its_receipt(given: &Given) -> Verdict {
    let commits = commits(given)?;
    let commit_of = |text: &str| Commit::new(id("t")).with_key(id("k")).entry(NewEntry::new(Message::user(text)));
    let first = commits.commit(commit_of(&long_text("a"))).await?;
    let repeated = commits.commit(commit_of(&long_text("a"))).await?;
    expect_eq((repeated.version, repeated.deduplicated), (first.version, true))?;
    expect_kind(commits.commit(commit_of(&long_text("b"))).await, ErrorKind::IdempotencyMismatch)?;
    expect_eq(given.read_log(&id("t")).await?.len(), 1)
}

/// Tokens are counted in whole messages, not in what stands for their blocks.
pub(super) async fn a_budget_counts_whole_messages(given: &Given) -> Verdict {
    for (number, text) in [long_text("first"), "second".to_owned(), long_text("third")].iter().enumerate() {
        let new = Commit::new(id("t")).with_key(id(&format!("k{number}")));
        commit(given, new.entry(NewEntry::new(Message::user(text)))).await?;
        let answer = NewEntry::new(Message::assistant("yes"));
        let answered = Commit::new(id("t")).with_key(id(&format!("a{number}"))).entry(answer);
        commit(given, answered).await?;
    }
    let counter = |message: &Message| {
        message
            .blocks
            .iter()
            .map(|block| if let BlockKind::Text(text) = &block.kind { text.len() as u64 } else { 0 })
            .sum()
    };
    let (threads, thread, large) = (threads(given)?, id("t"), long_text("third").len() as u64);
    for (max, expected) in [(10_000, 6), (large + 20, 4), (large, 2), (1, 2)] {
        let budget = Budget::Tokens { max, counter: Arc::new(counter) };
        let context = threads.load_context(&thread, ContextRequest::head().within(budget)).await?.context;
        expect_eq((max, context.messages.len()), (max, expected))?;
        let last = &context.messages[expected - 2].message;
        expect_eq(last, &Message::user(long_text("third")))?;
    }
    let budget = Budget::Messages(2);
    let context = threads.load_context(&thread, ContextRequest::head().within(budget)).await?.context;
    expect_eq(&context.messages[0].message, &Message::user(long_text("third")))
}

/// A large raw line of an imported entry is moved, and comes back byte for byte.
pub(super) async fn a_raw_line_comes_back(given: &Given) -> Verdict {
    let lines = [Bytes::from(long_text("line")), Bytes::from(vec![0xFF; 300]), Bytes::from_static(b"short")];
    let mut new = Commit::new(id("t")).with_key(id("k"));
    for (number, line) in (1..).zip(&lines) {
        let origin = ImportOrigin::new("format", number).with_raw(line.clone());
        new = new.entry(NewEntry::new(Message::user("x")).with_origin(origin));
    }
    commit(given, new).await?;
    let read = threads(given)?.list_entries(&id("t"), EntryQuery::default()).await?.items;
    let origins: Vec<_> =
        (1..).zip(&lines).map(|(number, line)| ImportOrigin::new("format", number).with_raw(line.clone())).collect();
    expect_eq(read.iter().filter_map(|entry| entry.origin.clone()).collect::<Vec<_>>(), origins)?;
    expect_eq(object_count(given).await?, 2)
}

/// If the blob of a block is gone, the entry is corrupt. Nothing else is given in its place.
pub(super) async fn a_moved_block_whose_blob_is_missing_is_corrupt(given: &Given) -> Verdict {
    let read =
        commit_and_read(given, vec![Message::user(long_text("a")).into(), Message::user("small").into()]).await?;
    let objects = objects(given)?;
    for object in crate::object::helpers::list(&*objects).await? {
        objects.delete_objects(&[object.key]).await?;
    }
    let (threads, thread) = (threads(given)?, id("t"));
    expect_kind(threads.load_entry(&thread, &read[0].id).await, ErrorKind::Corrupt)?;
    expect_kind(threads.load_context(&thread, ContextRequest::head()).await, ErrorKind::Corrupt)?;
    let small = expect_some(threads.load_entry(&thread, &read[1].id).await?, "entry")?;
    expect_eq(first_text(&small), Some("small"))
}

/// A page ends before the blocks that are put back need more memory than a page may.
pub(super) async fn a_page_of_large_blocks_is_short(given: &Given) -> Verdict {
    let text = "x".repeat(30 << 20);
    let bodies = (0..4).map(|number| Message::user(format!("{number}{text}")).into()).collect();
    let read = commit_and_read(given, bodies).await?;
    expect_eq(read.len(), 2)?;
    let (threads, thread) = (threads(given)?, id("t"));
    let mut stream = threads.stream_entries(&thread, EntryQuery::default());
    for number in 0..4 {
        let entry = expect_some(futures_util::StreamExt::next(&mut stream).await, "entry")??;
        let whole = first_text(&entry).map(|read| (BlobHash::of(read), read.len()));
        expect_eq(whole, Some((BlobHash::of(format!("{number}{text}")), text.len() + 1)))?;
    }
    Ok(())
}
