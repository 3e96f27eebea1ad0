//! Looking at the quarantine of a buffer, and retrying or discarding by hand what is in it (NB-7).

use store_core::{
    Error, Result, TenantId, ThreadId, Timestamp,
    buffer::{BufferTarget, Delta, DeltaKeys},
    codec::Codec,
    length,
};

use super::{message::DeltaMessage, quarantine::Quarantined, shared::Shared, store::Buffered};

/// An acknowledged write that is in quarantine: the inner store refused it, or it relies on one that was refused.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct QuarantinedWrite {
    /// The sequence number of the write in the stream. It names the write.
    pub sequence: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The thread that accepts no writes because of it; of a deletion of several threads the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// What it writes: `thread` for a commit, a change of a thread or of its pending input; `documents` for documents
    /// and events without a commit; `deletion` of threads; `tenant_deletion`.
    pub kind: &'static str,
    /// Why it was not applied.
    pub reason: String,
    /// The store time at which it was put into quarantine.
    pub since: Timestamp,
    /// Its size in bytes.
    pub bytes: u64,
    /// The writes in quarantine that it relies on: they come first.
    pub relies_on: Vec<u64>,
}

impl QuarantinedWrite {
    fn of(quarantined: &Quarantined, relies_on: Vec<u64>) -> Self {
        let record = &quarantined.record;
        Self {
            sequence: record.sequence,
            tenant: record.tenant.clone(),
            thread: quarantined.delta.thread().cloned(),
            kind: match &*quarantined.delta {
                Delta::Thread(_) => "thread",
                Delta::Documents(_) => "documents",
                Delta::Deletion(_) => "deletion",
                Delta::TenantDeletion => "tenant_deletion",
                _ => "other",
            },
            reason: record.reason.clone(),
            since: record.since,
            bytes: length(record.message.len()),
            relies_on,
        }
    }
}

impl<S: BufferTarget + Clone + 'static> Buffered<S> {
    /// Returns what is in quarantine, in the order of the stream (NB-7).
    ///
    /// Until it is retried or discarded, the threads that it is about accept no writes (`Quarantined`), and lists do
    /// not show it. It never goes away by itself, except if its tenant is deleted.
    ///
    /// # Errors
    /// `Unavailable` if the servers or the inner store cannot be reached; `Closed`.
    pub async fn quarantined(&self) -> Result<Vec<QuarantinedWrite>> {
        let shared = self.shared();
        read_all(shared).await?;
        let state = shared.stream.state();
        let quarantine = state.quarantine();
        Ok(quarantine.iter().map(|it| QuarantinedWrite::of(it, quarantine.relied_on_by(it))).collect())
    }

    /// Returns the message of a write in quarantine, as the stream had it: a JSON object with the records that the
    /// write changes. It contains the data of users.
    ///
    /// # Errors
    /// `NotFound` if the write is not in quarantine; those of [`quarantined`](Self::quarantined).
    pub async fn quarantined_message(&self, sequence: u64) -> Result<String> {
        let shared = self.shared();
        read_all(shared).await?;
        let state = shared.stream.state();
        let found = state.quarantine().get(sequence).ok_or_else(|| not_found(sequence))?;
        Ok(found.record.message.clone())
    }

    /// Applies a write that is in quarantine, after the cause of its refusal was mended. What relies on it stays in
    /// quarantine until it is retried, too.
    ///
    /// # Errors
    /// `NotFound` if it is not in quarantine; `Invalid` if it relies on another write in quarantine, which the error
    /// names; the error of the inner store if it refuses the write again; those of [`quarantined`](Self::quarantined).
    pub async fn retry(&self, sequence: u64) -> Result<()> {
        let shared = self.shared();
        let _ongoing = shared.ongoing_writes.read().await;
        check_named(shared, &[sequence]).await?;
        shared.retry_quarantined(sequence).await
    }

    /// Removes writes from the quarantine without applying them: acknowledged data is lost, and the threads accept
    /// writes again. Every write that relies on one of them must be named, too.
    ///
    /// # Errors
    /// `NotFound` if one of them is not in quarantine; `Invalid` if a write that is not named relies on one of them;
    /// those of [`quarantined`](Self::quarantined). After an error, nothing is discarded.
    pub async fn discard(&self, sequences: &[u64]) -> Result<()> {
        let shared = self.shared();
        let _ongoing = shared.ongoing_writes.read().await;
        let named = check_named(shared, sequences).await?;
        // A node that does not know of the quarantine may be about to write something that relies on these. After a
        // message that writes the same keys, that takes no effect; and after it every node asks for the quarantine.
        for (tenant, keys) in named {
            let as_of = shared.stream.state().position();
            let subject = shared.stream.subject(tenant.as_str(), "-");
            let message = DeltaMessage { tenant, as_of, keys, delta: None, refreshes: true, detached: None };
            let written = shared.stream.connection.write(subject, message.encode()).await?;
            shared.stream.wait_until_read(written).await?;
        }
        let end = shared.catch_up().await?;
        shared.flush(end).await?;
        shared.discard_quarantined(sequences).await
    }
}

/// Reads the stream and the quarantine.
async fn read_all(shared: &Shared) -> Result<()> {
    shared.check_open()?;
    shared.catch_up().await?;
    shared.ask_inner().await.map(drop)
}

/// Checks that all these writes are in quarantine. Returns, for each of their tenants, the keys of the writes.
async fn check_named(shared: &Shared, sequences: &[u64]) -> Result<Vec<(TenantId, DeltaKeys)>> {
    read_all(shared).await?;
    let state = shared.stream.state();
    let mut named: Vec<(TenantId, DeltaKeys)> = Vec::new();
    for sequence in sequences {
        let quarantined = state.quarantine().get(*sequence).ok_or_else(|| not_found(*sequence))?;
        let tenant = &quarantined.record.tenant;
        match named.iter_mut().find(|(other, _)| other == tenant) {
            Some((_, keys)) => keys.write_all_of(&quarantined.keys),
            None => {
                let mut keys = DeltaKeys::default();
                keys.write_all_of(&quarantined.keys);
                named.push((tenant.clone(), keys));
            }
        }
    }
    Ok(named)
}

fn not_found(sequence: u64) -> Error {
    Error::not_found("quarantined write", sequence.to_string())
}
