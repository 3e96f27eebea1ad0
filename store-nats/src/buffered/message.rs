//! The messages of the stream of deltas.

use store_core::{
    TenantId,
    buffer::{Delta, DeltaKeys},
    codec::{Codec, DecodeError, Fields, ObjectWriter},
};

/// The format of the messages. A newer format is refused (PR-18).
const FORMAT_VERSION: u64 = 1;

/// A message of the stream: a delta, with what it was decided from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeltaMessage {
    pub(crate) tenant: TenantId,
    /// The position of the stream up to which the node had read when it decided.
    pub(crate) as_of: u64,
    pub(crate) keys: DeltaKeys,
    /// None in a message that only writes its keys, so that an earlier message with these keys takes no effect.
    pub(crate) delta: Option<Delta>,
    /// Whether a node asks the inner store for its quarantine after this message, before it decides again.
    pub(crate) refreshes: bool,
    /// Whether the buffer is detached from the inner store from here on, or attached again. Absent in other messages.
    pub(crate) detached: Option<bool>,
}

impl DeltaMessage {
    /// Makes the message that detaches the buffer, or attaches it again. It writes no keys.
    pub(crate) fn of_attachment(detached: bool) -> Self {
        let (tenant, keys) = (TenantId::default_tenant(), DeltaKeys::default());
        Self { tenant, as_of: 0, keys, delta: None, refreshes: false, detached: Some(detached) }
    }

    /// Returns a message that only writes the keys of this one.
    pub(crate) fn barrier(&self) -> Self {
        let (tenant, keys) = (self.tenant.clone(), self.keys.clone());
        Self { tenant, as_of: self.as_of, keys, delta: None, refreshes: self.refreshes, detached: None }
    }
}

impl Codec for DeltaMessage {
    fn write(&self, out: &mut String) {
        let list = |keys: &std::collections::BTreeSet<String>| keys.iter().cloned().collect::<Vec<_>>();
        let mut object = ObjectWriter::open(out);
        object.field("format", &FORMAT_VERSION).field("tenant", &self.tenant);
        object.field("as_of", &self.as_of);
        object.field_unless_default("reads", &list(&self.keys.reads)).field("writes", &list(&self.keys.writes));
        object.maybe("delta", self.delta.as_ref()).field_unless_default("refreshes", &self.refreshes);
        object.maybe("detached", self.detached.as_ref());
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        if fields.take::<u64>("format")? > FORMAT_VERSION {
            return Err(DecodeError::new("is of a newer release").within("format"));
        }
        let (tenant, as_of) = (fields.take("tenant")?, fields.take("as_of")?);
        let keys = DeltaKeys::from_lists(fields.maybe("reads")?.unwrap_or_default(), fields.take("writes")?);
        let (delta, refreshes) = (fields.maybe("delta")?, fields.maybe("refreshes")?.unwrap_or_default());
        Ok(Self { tenant, as_of, keys, delta, refreshes, detached: fields.maybe("detached")? })
    }
}

#[cfg(test)]
mod tests {
    use store_core::{TenantId, buffer::DeltaKeys, codec::Codec};

    use super::DeltaMessage;

    #[test]
    fn a_message_is_read_back_and_a_newer_format_is_refused() {
        let keys = DeltaKeys::from_lists(vec!["r1".to_owned()], vec!["ta".to_owned(), "tb".to_owned()]);
        let tenant = TenantId::default_tenant();
        let message = DeltaMessage { tenant, as_of: 7, keys, delta: None, refreshes: true, detached: Some(false) };
        let text = message.encode();
        assert_eq!(DeltaMessage::read(&text).unwrap(), message);
        assert!(DeltaMessage::read(&text.replace(r#""format":1"#, r#""format":2"#)).is_err());
    }
}
