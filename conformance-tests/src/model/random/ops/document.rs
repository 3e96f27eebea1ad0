//! The operations of documents and topics.

/// A key: its first segment, and its second one, if it has one. Even numbers stand for numbers, odd ones for ids.
pub(in crate::model::random) type KeyOp = (u8, Option<u8>);

/// A step of documents or topics.
#[derive(Debug, Clone)]
pub(in crate::model::random) enum DocumentOp {
    /// A write. `fence` is the thread of a claim and the claim number.
    Write { changes: Vec<ChangeOp>, topics: Vec<u8>, fence: Option<(u8, u8)> },
    /// A commit that has documents, and events in topics. Some of these commits expect that the thread is absent.
    Commit { thread: u8, key: Option<u8>, expects_absent: bool, changes: Vec<ChangeOp>, topics: Vec<u8> },
    /// Reads a list page by page. The scope is that of a thread, or that of the tenant.
    List {
        thread: Option<u8>,
        prefix: Option<u8>,
        from: Option<KeyOp>,
        before: Option<KeyOp>,
        backward: bool,
        limit: u8,
    },
    /// Deletes the documents of a prefix that were last put before a number of milliseconds ago.
    DeletePrefix { thread: Option<u8>, prefix: Option<u8>, older_millis: Option<u16>, dry_run: bool },
    /// Trims the events of a topic that are older than a number of milliseconds, and reads the topic.
    TrimTopic { topic: u8, older_millis: u16, dry_run: bool },
}

/// A change of a document of the tenant or of a thread.
#[derive(Debug, Clone)]
pub(in crate::model::random) struct ChangeOp {
    pub(in crate::model::random) thread: Option<u8>,
    pub(in crate::model::random) key: KeyOp,
    pub(in crate::model::random) action: ActionOp,
    pub(in crate::model::random) expect: ExpectOp,
}

/// What a change does.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::random) enum ActionOp {
    /// Puts the value with this number.
    Put(u8),
    Delete,
    Check,
}

/// What a change expects.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::random) enum ExpectOp {
    Any,
    Absent,
    Present,
    /// The revision that the document got when it was last put, even if it was deleted since.
    LastRevision,
    /// A revision that the document never had.
    WrongRevision,
}
