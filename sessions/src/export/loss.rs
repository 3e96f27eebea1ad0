//! Losses: what a message contains and a format cannot represent.

use serde::Serialize;
use store_core::EntryId;

/// Something that an export could not write as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The entry.
    pub entry: EntryId,
    /// A JSON pointer to what was lost: within the entry for a field of the entry, else within the message. It is empty
    /// for the whole entry.
    pub path: String,
    /// The kind of what was lost, such as `signature`.
    pub kind: &'static str,
    /// Why it was lost.
    pub reason: &'static str,
    /// What the export did about it: `dropped`, `moved` or `replaced`.
    pub action: &'static str,
}

/// Collects the losses of one entry.
pub(crate) struct Losses<'a> {
    entry: &'a EntryId,
    list: &'a mut Vec<Loss>,
}

impl<'a> Losses<'a> {
    pub(crate) const fn new(entry: &'a EntryId, list: &'a mut Vec<Loss>) -> Self {
        Self { entry, list }
    }

    /// Adds a loss with its kind, its reason and the action of the export.
    pub(crate) fn add(&mut self, path: impl Into<String>, what: (&'static str, &'static str, &'static str)) {
        let (kind, reason, action) = what;
        self.list.push(Loss { entry: self.entry.clone(), path: path.into(), kind, reason, action });
    }
}
