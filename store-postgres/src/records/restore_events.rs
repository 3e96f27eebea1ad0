//! Events and their scopes, written as they were in another store.

use store_core::{Result, RunId, Scope, codec::Codec as _, records::StoredRecord};

use super::{
    restore::{Step, saturating},
    statements::Restored,
};
use crate::cache::scope_kind_and_id;

impl Step<'_, '_> {
    pub(super) async fn events(&mut self, records: &[StoredRecord]) -> Result<()> {
        match records.first() {
            Some(StoredRecord::Scope { .. }) => self.scopes(records).await,
            Some(StoredRecord::EventKey { .. }) => self.event_keys(records).await,
            _ => self.restore_events(records).await,
        }
    }

    async fn scopes(&mut self, records: &[StoredRecord]) -> Result<()> {
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Scope { scope, state } => Some((scope_kind_and_id(scope), state)),
                _ => None,
            })
            .collect();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.0.0))?
            .column(rows().map(|row| row.0.1.to_owned()))?
            .column(rows().map(|row| saturating(row.1.count)))?
            .column(rows().map(|row| saturating(row.1.floor)))?
            .column(rows().map(|row| row.1.encode()))?;
        self.run(Restored::Scopes, arguments).await.map(drop)
    }

    async fn restore_events(&mut self, records: &[StoredRecord]) -> Result<()> {
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::Event(stored) => Some(&**stored),
                _ => None,
            })
            .collect();
        let rows = || rows.iter();
        let join = |texts: Vec<String>, separator: &str| (!texts.is_empty()).then(|| texts.join(separator));
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.event.id.to_string()))?
            .column(rows().map(|row| row.event.thread.as_ref().map(ToString::to_string)))?
            .column(rows().map(|row| row.thread_seq.map(saturating)))?
            .column(rows().map(|row| row.event.run.as_ref().map(RunId::to_string)))?
            .column(rows().map(|row| row.run_seq.map(saturating)))?
            .column(rows().map(|row| row.event.encode()))?
            .column(rows().map(|row| join(row.event.topics.iter().map(ToString::to_string).collect(), "\u{1}")))?
            .column(rows().map(|row| join(row.topic_seqs.iter().map(ToString::to_string).collect(), " ")))?;
        self.run(Restored::Events, arguments).await?;
        let topics: Vec<_> = rows()
            .flat_map(|row| row.scope_numbers().map(|(scope, seq)| (scope, seq, row.event.id.to_string())))
            .filter_map(|(scope, seq, event)| match scope {
                Scope::Topic(topic) => Some((topic.to_string(), saturating(seq), event)),
                Scope::Thread(_) | Scope::Run(_) => None,
            })
            .collect();
        if topics.is_empty() {
            return Ok(());
        }
        let arguments = self
            .arguments()?
            .column(topics.iter().map(|row| row.0.clone()))?
            .column(topics.iter().map(|row| row.1))?
            .column(topics.iter().map(|row| row.2.clone()))?;
        self.run(Restored::EventTopics, arguments).await.map(drop)
    }

    async fn event_keys(&mut self, records: &[StoredRecord]) -> Result<()> {
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                StoredRecord::EventKey { writer, key, record } => {
                    Some((writer.to_string(), key.to_string(), &**record))
                }
                _ => None,
            })
            .collect();
        let rows = || rows.iter();
        let arguments = self
            .arguments()?
            .column(rows().map(|row| row.0.clone()))?
            .column(rows().map(|row| row.1.clone()))?
            .column(rows().map(|row| row.2.encode()))?;
        self.run(Restored::EventKeys, arguments).await?;
        let events: Vec<_> = rows()
            .flat_map(|row| row.2.events.iter().map(|id| (row.0.clone(), row.1.clone(), id.to_string())))
            .collect();
        let arguments = self
            .arguments()?
            .column(events.iter().map(|row| row.0.clone()))?
            .column(events.iter().map(|row| row.1.clone()))?
            .column(events.iter().map(|row| row.2.clone()))?;
        self.run(Restored::KeyedEvents, arguments).await.map(drop)
    }
}
