//! Compares a session with the thread of an earlier state of the session, if its tool has rewritten the file.

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
pub(crate) struct Rewritten {
    /// Messages of the thread.
    stored: u64,
    /// Messages of the session.
    found: u64,
    /// Messages of the session with a role and blocks that a message of the thread has, too.
    equal: u64,
}

impl Rewritten {
    /// Whether the thread has every message of the session, and more.
    pub(crate) const fn is_older(self) -> bool {
        self.equal == self.found && self.found < self.stored
    }

    /// Describes the difference. The formats are that of the thread and that of the session.
    pub(crate) fn describe(self, thread: &ThreadId, (stored_format, format): (&str, &str)) -> String {
        let versions = if stored_format == format {
            "its tool has rewritten the file".to_owned()
        } else {
            format!("the thread was imported from {stored_format}, and the file is {format} now")
        };
        format!(
            "thread `{thread}` is the same session: {versions}. {} of its {} messages are in the file, which has {} \
             others",
            self.equal,
            self.stored,
            self.found - self.equal
        )
    }
}

/// Compares the messages of a thread with those of a session.
pub(crate) async fn compare(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    session: &dyn Session,
) -> Result<Rewritten> {
    let mut compared = Rewritten { stored: 0, found: 0, equal: 0 };
    let mut stored: HashMap<[u8; 32], u64> = HashMap::new();
    let mut query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
    query.kinds = Some(vec![BodyKind::Message]);
    loop {
        let page = threads.list_entries(thread, query.clone()).await?;
        for message in page.items.iter().filter_map(|entry| entry.message()) {
            compared.stored += 1;
            *stored.entry(digest(message)).or_default() += 1;
        }
        let Some(next) = page.next else { break };
        query.page = query.page.after(next);
    }
    let nothing_stored = StoredEntries::default();
    let mut drafts = session.drafts(&nothing_stored)?;
    let mut issues = Issues::default();
    while let Some(draft) = drafts.next(&mut issues)? {
        let NewBody::Message(message) = &draft.entry.body else { continue };
        compared.found += 1;
        if let Some(left) = stored.get_mut(&digest(message)).filter(|left| **left > 0) {
            *left -= 1;
            compared.equal += 1;
        }
    }
    Ok(compared)
}

/// The digest of the parts of a message that are the same in all versions of a format.
fn digest(message: &Message) -> [u8; 32] {
    let parts: (Role, &[Block]) = (message.role, &message.blocks);
    Sha256::digest(serde_json::to_vec(&parts).unwrap_or_default()).into()
}
