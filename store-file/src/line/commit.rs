//! The line that closes a group.

use store_core::{
    ClaimNumber, CommitKey, Receipt, RunId, Timestamp,
    codec::{DecodeError, Fields, ObjectWriter},
};

/// What a commit line says of its group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CommitLine {
    /// Store time.
    pub(crate) time: Timestamp,
    /// The thread's `updated_at` after the group.
    pub(crate) updated_at: Timestamp,
    /// The highest claim number after the group.
    pub(crate) fence: Option<ClaimNumber>,
    /// The run that the commit named.
    pub(crate) run: Option<RunId>,
    /// Key, digest and receipt of a commit with a key.
    pub(crate) key: Option<(CommitKey, String, Receipt)>,
}

impl CommitLine {
    /// The fields as an object.
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.field("time", &self.time).field("updated_at", &self.updated_at);
        object.maybe("fence", self.fence.as_ref()).maybe("run", self.run.as_ref());
        if let Some((key, digest, receipt)) = &self.key {
            object.field("key", key).field("digest", digest).field("receipt", receipt);
        }
        object.close();
        out
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let key = match fields.maybe("key")? {
            Some(key) => Some((key, fields.take("digest")?, fields.take("receipt")?)),
            None => None,
        };
        Ok(Self {
            time: fields.take("time")?,
            updated_at: fields.take("updated_at")?,
            fence: fields.maybe("fence")?,
            run: fields.maybe("run")?,
            key,
        })
    }
}
