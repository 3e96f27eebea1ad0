//! A new thread that begins with a copy of a path of another thread.

use std::sync::Arc;

use store_core::{
    Body, Commit, CommitCoordinator, CommitKey, Custom, Entry, EntryId, EntryQuery, Error, Expect, Json, NewBody,
    NewEntry, PageRequest, ParentRef, Result, Thread, ThreadFields, ThreadId, codec::Codec,
};

/// A key in the metadata of a copied thread. Its value names the thread and the entry that were copied.
pub const COPIED_FROM: &str = "copied_from";

/// The kind of the entry that a copy has in place of a decision on a ticket. A copy does not contain the decision
/// itself, because a decision belongs to a run of its thread.
const DECISION_KIND: &str = "agentstore.decision";
/// The maximum number of entries that one commit copies. A copy that is repeated continues at the first missing commit.
const MAX_ENTRIES_PER_COMMIT: u32 = 100;
/// A commit takes no more entries once their encoded bodies have this many bytes.
const BYTES_PER_COMMIT: usize = 32 << 20;

/// The result of [`copy_thread`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadCopy {
    /// The new thread.
    pub thread: ThreadId,
    /// The head of the new thread. It has the same id as the entry `at` of the source.
    pub head: EntryId,
    /// The number of entries that were copied.
    pub entries: u64,
}

/// Makes the thread `target` from the path of the entry `at` of the thread `source`, so that work can continue in the
/// new thread.
///
/// The entries keep their ids, times and bodies, so that the context of the copy is the context of `at`. They lose
/// their runs, which belong to `source`. Side entries, the names that labels gave to entries, the state and pending
/// input are not copied. The tokens that the messages spent count in both threads. The metadata of the new thread names
/// the source. A call that was interrupted continues if it is repeated with the same arguments.
///
/// # Errors
/// `NotFound` if the source or the entry does not exist; `Invalid` for a side entry; `AlreadyExists` if the new thread
/// exists and is not a copy of this entry; the errors of the store.
pub async fn copy_thread(
    commits: &dyn CommitCoordinator,
    source: &ThreadId,
    at: &EntryId,
    target: ThreadId,
) -> Result<ThreadCopy> {
    let threads = commits.threads();
    let thread = threads.load_thread(source).await?.ok_or_else(|| Error::not_found("thread", source))?;
    let leaf = threads.load_entry(source, at).await?.ok_or_else(|| Error::not_found("entry", at))?;
    if leaf.side {
        return Err(Error::invalid("copy", format!("entry `{at}` is a side entry and on no path")));
    }
    let fields = copied_fields(&thread, at)?;
    if let Some(existing) = threads.load_thread(&target).await?
        && existing.metadata.get(COPIED_FROM) != fields.metadata.get(COPIED_FROM)
    {
        return Err(Error::already_exists("thread", &target));
    }
    let mut query = EntryQuery::path_of(at.clone()).with_page(PageRequest::first(MAX_ENTRIES_PER_COMMIT));
    let mut copier = Copier { commits, target, fields: Some(fields), commit_count: 0, entry_count: 0 };
    loop {
        let page = threads.list_entries(source, query.clone()).await?;
        copier.write_page(page.items).await?;
        match page.next {
            Some(cursor) => query.page = query.page.after(cursor),
            None => break,
        }
    }
    Ok(ThreadCopy { thread: copier.target, head: at.clone(), entries: copier.entry_count })
}

fn copied_fields(source: &Thread, at: &EntryId) -> Result<ThreadFields> {
    let mut fields = ThreadFields::default();
    fields.title.clone_from(&source.title);
    fields.resource_id.clone_from(&source.resource_id);
    let from = [("thread", source.id.as_str()), ("entry", at.as_str())];
    fields.metadata.insert(COPIED_FROM.to_owned(), Json::of(&std::collections::BTreeMap::from(from))?);
    Ok(fields)
}

/// Writes the commits of a copy.
struct Copier<'a> {
    commits: &'a dyn CommitCoordinator,
    target: ThreadId,
    /// The fields of the new thread, until the first commit creates the thread with them.
    fields: Option<ThreadFields>,
    commit_count: u64,
    entry_count: u64,
}

impl Copier<'_> {
    async fn write_page(&mut self, entries: Vec<Arc<Entry>>) -> Result<()> {
        let (mut drafts, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            bytes += entry.body.encode().len();
            drafts.push(draft(&entry)?);
            if bytes >= BYTES_PER_COMMIT {
                self.write(std::mem::take(&mut drafts)).await?;
                bytes = 0;
            }
        }
        if drafts.is_empty() { Ok(()) } else { self.write(drafts).await }
    }

    async fn write(&mut self, drafts: Vec<NewEntry>) -> Result<()> {
        self.entry_count += u64::try_from(drafts.len()).unwrap_or(u64::MAX);
        let key = CommitKey::new(format!("copy:{}", self.commit_count))?;
        let mut commit = Commit::new(self.target.clone()).with_key(key).entries(drafts);
        if let Some(fields) = self.fields.take() {
            commit = commit.expecting(Expect::Absent).creating(fields);
        }
        let _receipt = self.commits.commit(commit).await?;
        self.commit_count += 1;
        Ok(())
    }
}

/// Returns the entry that the new thread gets for an entry of the source.
fn draft(entry: &Entry) -> Result<NewEntry> {
    let body = match Body::clone(&entry.body) {
        Body::Decision(decision) => Custom::new(DECISION_KIND, Json::parse(&decision.encode())?).into(),
        body => NewBody::from(body),
    };
    let parent = entry.parent.clone().map_or(ParentRef::Root, ParentRef::Entry);
    let mut draft = NewEntry::new(body)
        .with_id(entry.id.clone())
        .with_parent(parent)
        .with_side(false)
        .with_timestamp(entry.timestamp);
    draft.origin.clone_from(&entry.origin);
    Ok(draft)
}
