//! Compares a session whose file was rewritten by its tool with the thread that an earlier import made of it.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use store_core::{
    Block, BodyKind, EntryQuery, MAX_PAGE, Message, NewBody, PageRequest, Role, ThreadId, ThreadRunStore,
};

use crate::{
    error::Result,
    issue::Issues,
    session::{Session, StoredEntries},
};

/// How many messages a thread and a session have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Messages of the thread.
    thread_messages: u64,
    /// Messages of the session.
    session_messages: u64,
    /// Messages of the session with a role and blocks that a message of the thread has, too.
    equal_messages: u64,
}

impl Comparison {
    /// Whether the thread has every message of the session, and more.
    pub(crate) const fn session_is_older(self) -> bool {
        self.equal_messages == self.session_messages && self.session_messages < self.thread_messages
    }

    /// Describes the difference. The formats are that of the thread and that of the session.
    pub(crate) fn describe(self, thread: &ThreadId, (stored_format, format): (&str, &str)) -> String {
        let versions = if stored_format == format {
            "its tool has rewritten the file".to_owned()
        } else {
            format!("the thread was imported from {stored_format}, and the file is {format} now")
        };
        format!(
            "thread `{thread}` is the same session: {versions}. The file contains {} of the thread's {} messages, and \
             {} other message(s)",
            self.equal_messages,
            self.thread_messages,
            self.session_messages - self.equal_messages
        )
    }
}

/// Compares the messages of a thread with those of a session.
pub(crate) async fn compare(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    session: &dyn Session,
) -> Result<Comparison> {
    let mut comparison = Comparison { thread_messages: 0, session_messages: 0, equal_messages: 0 };
    let mut unmatched: HashMap<[u8; 32], u64> = HashMap::new();
    let mut query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
    query.kinds = Some(vec![BodyKind::Message]);
    loop {
        let page = threads.list_entries(thread, query.clone()).await?;
        for message in page.items.iter().filter_map(|entry| entry.message()) {
            comparison.thread_messages += 1;
            *unmatched.entry(digest(message)).or_default() += 1;
        }
        let Some(next) = page.next else { break };
        query.page = query.page.after(next);
    }
    let nothing_stored = StoredEntries::default();
    let mut drafts = session.drafts(&nothing_stored)?;
    let mut issues = Issues::default();
    while let Some(draft) = drafts.next(&mut issues)? {
        let NewBody::Message(message) = &draft.entry.body else { continue };
        comparison.session_messages += 1;
        if let Some(count) = unmatched.get_mut(&digest(message)).filter(|count| **count > 0) {
            *count -= 1;
            comparison.equal_messages += 1;
        }
    }
    Ok(comparison)
}

/// The digest of the parts of a message that are the same in all versions of a format.
fn digest(message: &Message) -> [u8; 32] {
    let parts: (Role, &[Block]) = (message.role, &message.blocks);
    Sha256::digest(serde_json::to_vec(&parts).unwrap_or_default()).into()
}
