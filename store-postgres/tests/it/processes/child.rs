//! A process that writes or reads until its task is done, and prints what it wrote or read.

use std::env;

use futures_util::StreamExt;
use store_core::{
    BegunEffect, CollectionId, Cursor, DefinitionRef, DocumentChange, DocumentExpect, DocumentKey, DocumentRef,
    DocumentStoreExt, EffectIntent, EffectLayer, EffectName, EffectStore, ErrorKind, Json, KeySegment, NewEffect,
    NewVersion, PublishAll, RegistryFact, RegistryLayer, RegistryReader, RegistryWriter, Store, SubscriptionStart,
    TenantId, WriteDocuments,
    layers::{
        LayerStore,
        config::{ConfigChange, ConfigEntryKind, ConfigLayer, ConfigName, ConfigStore},
    },
};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::{Process, send_line, wait_for_parent};

use crate::fixture::server_url;

const TASK: &str = "AGENTSTORE_TEST_CHILD";
const SCHEMA: &str = "AGENTSTORE_TEST_SCHEMA";

/// The id of the record or publication at which readers end.
pub(super) const END: &str = "end";
/// After this number of entries, a reader subscribes again.
const ENTRIES_PER_SUBSCRIPTION: usize = 10;

/// What a process does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    Count,
    ChangeConfig,
    ReadConfig,
    Publish,
    PublishAndArchive,
    ReadPublications,
    BeginEffects,
}

impl Task {
    const ALL: [Self; 7] = [
        Self::Count,
        Self::ChangeConfig,
        Self::ReadConfig,
        Self::Publish,
        Self::PublishAndArchive,
        Self::ReadPublications,
        Self::BeginEffects,
    ];
}

/// A process: its task, its number among those with this task, and how often it writes.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) task: Task,
    pub(super) number: usize,
    pub(super) writes: usize,
}

impl Child {
    pub(super) fn start(&self, schema: &str) -> Process {
        let task = format!("{} {} {}", self.task as usize, self.number, self.writes);
        let test = "processes::child::a_child_process_performs_its_task";
        Process::begin(&[], test, &[(TASK, &task), (SCHEMA, schema)])
    }
}

/// The other side of the tests. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_process_performs_its_task() {
    let Ok(task) = env::var(TASK) else { return };
    let numbers: Vec<usize> = task.split(' ').map(|number| number.parse().unwrap()).collect();
    let child = Child { task: Task::ALL[numbers[0]], number: numbers[1], writes: numbers[2] };
    let mut config = PostgresConfig::new(&server_url()).unwrap().with_schema(&env::var(SCHEMA).unwrap()).unwrap();
    config.allow_unsafe = true;
    let store = PostgresStore::open(config).await.unwrap();
    let layer_store = LayerStore::new(&store.tenant(&TenantId::default_tenant()).unwrap()).unwrap();
    send_line("open");
    wait_for_parent();
    match child.task {
        Task::Count => child.count(&layer_store).await,
        Task::ChangeConfig => child.change_config(&ConfigLayer::new(layer_store)).await,
        Task::ReadConfig => read_config(&ConfigLayer::new(layer_store)).await,
        Task::Publish => child.publish(&RegistryLayer::new(layer_store)).await,
        Task::PublishAndArchive => child.publish_and_archive(&RegistryLayer::new(layer_store)).await,
        Task::ReadPublications => read_publications(&RegistryLayer::new(layer_store)).await,
        Task::BeginEffects => child.begin_effects(&EffectLayer::new(layer_store)).await,
    }
    store.close().await.unwrap();
}

/// The document in which all processes count.
pub(super) fn counter() -> DocumentRef {
    DocumentKey::new(CollectionId::new("counters").unwrap(), [KeySegment::Number(1)]).unwrap().into()
}

/// A version of a definition with a content of its own.
pub(super) fn new_version(name: &str, number: usize) -> NewVersion {
    NewVersion::new(definition(name), Json::of(&format!("{name} {number}")).unwrap())
}

fn definition(name: &str) -> DefinitionRef {
    DefinitionRef::new("agent".parse().unwrap(), name.parse().unwrap()).unwrap()
}

impl Child {
    /// Adds to the counter, each time over the revision that was read. Prints the revisions that were replaced.
    async fn count(&self, layer_store: &LayerStore) {
        let mut written = 0;
        while written < self.writes {
            let found = layer_store.documents.load_document(&counter()).await.unwrap();
            let number = found.as_ref().map_or(0, |found| found.value.as_str().parse::<u64>().unwrap());
            let revision = found.map(|found| found.revision);
            let change = DocumentChange::put(counter(), Json::of(&(number + 1)).unwrap());
            let change = change.expecting(revision.map_or(DocumentExpect::Absent, DocumentExpect::Revision));
            match layer_store.documents.write_documents(WriteDocuments::new([change])).await {
                Ok(_) => {
                    written += 1;
                    send_line(revision.unwrap_or_default());
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            }
        }
    }

    /// Puts or deletes one record, each time over the revision that was read. Prints the revision of each change, what
    /// happened, and the revision that it replaced.
    async fn change_config(&self, config: &ConfigLayer) {
        let name = ConfigName::new("config", "record").unwrap();
        let mut written = 0;
        while written < self.writes {
            let found = config.load_config(&name).await.unwrap().map(|record| record.revision);
            let change = if found.is_some() && written % 3 == 2 {
                ConfigChange::delete(name.clone())
            } else {
                let value = Json::of(&format!("{} {written}", self.number)).unwrap();
                ConfigChange::put(name.clone(), value)
            };
            let expect = found.map_or(DocumentExpect::Absent, DocumentExpect::Revision);
            match config.write_config(vec![change.expecting(expect)]).await {
                Ok(answer) => {
                    written += 1;
                    let entry = &answer.entries[0];
                    let found = found.map_or("absent".to_owned(), |revision| revision.to_string());
                    send_line(format!("{} {} {found}", entry.revision, entry.kind));
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            }
        }
    }

    /// Begins effects that all processes begin. Prints those that it is told to perform.
    async fn begin_effects(&self, effects: &EffectLayer) {
        for number in 0..self.writes {
            let id = number.to_string().parse().unwrap();
            let name = EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), id).unwrap();
            let intent = EffectIntent::new("line".parse().unwrap(), Json::null());
            if let BegunEffect::Fresh(_) = effects.begin_effect(NewEffect::new(name, intent)).await.unwrap() {
                send_line(number);
            }
        }
    }

    /// Publishes contents of one definition. Prints their versions.
    async fn publish(&self, registry: &RegistryLayer) {
        for number in 0..self.writes {
            let mut version = new_version("shared", number);
            version.value = Json::of(&format!("{} {number}", self.number)).unwrap();
            let published = registry.publish(version).await.unwrap();
            assert!(published.created);
            send_line(published.name.version);
        }
    }

    /// Publishes a definition of its own, and archives it and takes it back from time to time. Prints what it did.
    async fn publish_and_archive(&self, registry: &RegistryLayer) {
        let name = format!("a-{}", self.number);
        for number in 0..self.writes {
            let request = PublishAll::new(format!("{name}-{number}").parse().unwrap());
            let publication = registry.publish_all(request.version(new_version(&name, number))).await.unwrap();
            send_line(format!("published {} {}", publication.snapshot, publication.content.id));
            if number == self.writes / 2 {
                assert!(registry.archive(&definition(&name), None).await.unwrap());
                send_line(format!("archived {}", definition(&name)));
                assert!(registry.unarchive(&definition(&name), None).await.unwrap());
                send_line(format!("unarchived {}", definition(&name)));
            }
        }
    }
}

/// Takes a snapshot, and reads every later change until the end. Prints the revision of the position of the snapshot,
/// then those of the changes, and then that of the record.
async fn read_config(config: &ConfigLayer) {
    let snapshot = config.snapshot_config(None).await.unwrap();
    let mut record = snapshot.records.first().map(|record| record.revision);
    let mut position = snapshot.position;
    send_line(position.revision);
    loop {
        let mut entries = config.subscribe_config(position.clone()).await.unwrap().take(ENTRIES_PER_SUBSCRIPTION);
        while let Some(entry) = entries.next().await {
            let entry = entry.unwrap();
            position = entry.position;
            if entry.name.id.as_str() == END {
                send_line(format!("{record:?}"));
                return;
            }
            send_line(entry.revision);
            record = (entry.kind != ConfigEntryKind::Deleted).then_some(entry.revision);
        }
    }
}

/// Reads the feed of the registry from its beginning until the end, and prints it after a line that says so.
async fn read_publications(registry: &RegistryLayer) {
    send_line("from the beginning");
    let mut last: Option<Cursor> = None;
    loop {
        let start = last.clone().map_or(SubscriptionStart::First, SubscriptionStart::After);
        let mut changes = registry.subscribe_publications(start).await.unwrap().take(ENTRIES_PER_SUBSCRIPTION);
        while let Some(change) = changes.next().await {
            let change = change.unwrap();
            last = Some(change.cursor);
            match change.fact {
                RegistryFact::Published { id, .. } if id.as_str() == END => return,
                RegistryFact::Published { snapshot, id } => send_line(format!("published {snapshot} {id}")),
                RegistryFact::Archived(definition) => send_line(format!("archived {definition}")),
                RegistryFact::Unarchived(definition) => send_line(format!("unarchived {definition}")),
                other => panic!("{other:?}"),
            }
        }
    }
}
