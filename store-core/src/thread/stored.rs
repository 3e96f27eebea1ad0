//! What a store keeps about a thread: the thread, the counters that the rules need, and the record of its id.

use super::Thread;
use crate::{
    claim::ClaimNumber,
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    pending::QueueState,
    run::Run,
    time::Timestamp,
    version::Version,
};

/// A thread, with counters that only the rules need.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredThread {
    /// The thread.
    pub thread: Thread,
    /// The sequence number of the head.
    pub head_seq: Option<u64>,
    /// The number of roots that are not side entries.
    pub roots: u32,
    /// The number of keys in the thread's state.
    pub state_keys: u64,
    /// The size of the thread's state in bytes, keys and values.
    pub state_bytes: u64,
    /// The queue of pending input, without the inputs themselves.
    pub queue: QueueState,
    /// Store time of the last commit or update. A later commit or update never has an earlier time (CM-35).
    pub last_time: Timestamp,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(StoredThread {
    thread: req,
    head_seq: opt,
    roots: def,
    state_keys: def,
    state_bytes: def,
    queue: def,
    last_time: req
});

impl StoredThread {
    /// Updates the latest run and the open runs of the thread after a commit wrote `run` (RU-8, RU-9).
    pub fn record_run(&mut self, run: &Run) {
        let record = &mut self.thread;
        record.latest_run = Some(run.id.clone());
        if !run.is_open() {
            record.open_runs.retain(|open_run| *open_run != run.id);
        } else if !record.open_runs.contains(&run.id) {
            record.open_runs.push(run.id.clone());
        }
    }
}

/// What a store keeps about a thread id: before the thread exists, while it exists, and after it was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadIdRecord {
    /// The generation of the thread that has or had the id. It is 0 before the first thread.
    pub generation: u64,
    /// The highest number of a claim that has written to the thread (CM-32). A fence with a lower number is refused.
    pub fence: Option<ClaimNumber>,
    /// When the thread was deleted. Absent while there is a thread with this id (TH-25).
    pub deleted_at: Option<Timestamp>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(ThreadIdRecord { generation: def, fence: opt, deleted_at: opt });

/// Written as an object with the field names of the contract. `version` and `revision` are written as plain numbers.
/// Their generation and incarnation are fields of their own.
impl Codec for Thread {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object
            .field("id", &self.id)
            .maybe("resource_id", self.resource_id.as_ref())
            .maybe("parent_thread_id", self.parent_thread_id.as_ref())
            .maybe("title", self.title.as_ref())
            .field("metadata", &self.metadata)
            .field("created_at", &self.created_at)
            .field("updated_at", &self.updated_at)
            .field("version", &self.version.number())
            .field("generation", &self.version.generation());
        if self.version.incarnation() != 0 {
            object.field("incarnation", &self.version.incarnation());
        }
        object
            .field("revision", &self.revision.number())
            .maybe("head", self.head.as_ref())
            .maybe("latest_run", self.latest_run.as_ref())
            .field("open_runs", &self.open_runs);
        if let Some((first, last)) = self.entry_times {
            object.field("entry_times", &vec![first, last]);
        }
        object
            .field("leaves", &self.leaves)
            .field("usage", &self.usage)
            .field("state_revision", &self.state_revision)
            .extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let generation = fields.take("generation")?;
        let incarnation = fields.maybe("incarnation")?.unwrap_or_default();
        let entry_times = match fields.maybe::<Vec<Timestamp>>("entry_times")?.as_deref() {
            None => None,
            Some(&[first, last]) => Some((first, last)),
            Some(_) => return Err(DecodeError::new("is not a pair of times").within("entry_times")),
        };
        Ok(Self {
            id: fields.take("id")?,
            resource_id: fields.maybe("resource_id")?,
            parent_thread_id: fields.maybe("parent_thread_id")?,
            title: fields.maybe("title")?,
            metadata: fields.take("metadata")?,
            created_at: fields.take("created_at")?,
            updated_at: fields.take("updated_at")?,
            version: Version::new(fields.take("version")?, generation, incarnation),
            revision: Version::new(fields.take("revision")?, generation, incarnation),
            head: fields.maybe("head")?,
            latest_run: fields.maybe("latest_run")?,
            open_runs: fields.take("open_runs")?,
            entry_times,
            leaves: fields.take("leaves")?,
            usage: fields.take("usage")?,
            state_revision: fields.take("state_revision")?,
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(Thread);

#[cfg(test)]
mod tests {
    use crate::{
        Limits, NewThread, Thread, ThreadId, Timestamp,
        codec::Codec,
        thread::{ThreadIdRecord, create},
    };

    #[test]
    fn an_incarnation_is_written_unless_it_is_0() {
        for incarnation in [0, 7] {
            let draft = NewThread::new(ThreadId::new("t").unwrap());
            let time_and_incarnation = (Timestamp::MIN, incarnation);
            let thread = create(None, &ThreadIdRecord::default(), &draft, &Limits::default(), time_and_incarnation)
                .unwrap()
                .thread;
            let text = thread.encode();
            assert_eq!(text.contains("incarnation"), incarnation > 0);
            assert_eq!(Thread::read(&text).unwrap(), thread);
        }
    }
}
