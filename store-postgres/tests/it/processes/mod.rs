//! Several processes use the documents and the layers of one schema at the same time (DO-4, CF-3, CF-6, EF-2, RG-4,
//! RG-12).

mod child;
mod erasure;

use std::collections::BTreeSet;

use conformance_tests::TestLength;
use store_core::{
    DocumentExpect, DocumentStoreExt, Json, Limits, NewThread, PublishAll, RegistryLayer, RegistryWriter, Store,
    TenantId,
    layers::{
        LayerStore,
        config::{ConfigLayer, ConfigName, ConfigStoreExt},
    },
};
use store_postgres::PostgresStore;
use test_servers::Process;

use self::child::{Child, Task};
use crate::fixture::SchemaGuard;

/// The number of processes that write.
const WRITERS: usize = 4;

/// A store in the process of the test, and the processes that use the same schema.
struct Parent {
    test_schema: SchemaGuard,
    store: PostgresStore,
    layer_store: LayerStore,
    /// How often each process writes.
    writes: usize,
}

impl Parent {
    async fn new() -> Self {
        let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
        let store = test_schema.open().await.unwrap();
        let layer_store = LayerStore::new(&store.tenant(&TenantId::default_tenant()).unwrap()).unwrap();
        Self { test_schema, store, layer_store, writes: TestLength::pick_by_env(15, 30, 300) }
    }

    /// Starts processes with the same task, and waits until they are ready. Then they wait for a sign.
    fn start(&self, task: Task, count: usize) -> Vec<Process> {
        let schema = self.test_schema.config().schema();
        let mut processes: Vec<_> =
            (0..count).map(|number| Child { task, number, writes: self.writes }.start(schema)).collect();
        for process in &mut processes {
            assert_eq!(process.next_line().unwrap(), "open");
        }
        processes
    }

    /// Lets writers write at the same time, and returns what they printed, each writer by itself.
    fn write(&self, task: Task) -> Vec<Vec<String>> {
        let mut writers = self.start(task, WRITERS);
        writers.iter_mut().for_each(Process::let_continue);
        writers.into_iter().map(Process::end).collect()
    }

    /// Begins to read in two processes, lets writers write, and begins to read in a third process meanwhile. Once all
    /// readers have begun and all writers have ended, `write_end` writes what readers end at. Returns what the writers
    /// printed, and what the readers printed.
    async fn write_and_read(
        &self,
        write: Task,
        read: Task,
        write_end: impl Future<Output = ()>,
    ) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let mut readers = self.start(read, 2);
        let mut writers = self.start(write, WRITERS);
        readers.iter_mut().chain(&mut writers).for_each(Process::let_continue);
        let mut late_readers = self.start(read, 1);
        late_readers.iter_mut().for_each(Process::let_continue);
        readers.extend(late_readers);
        let written = writers.into_iter().map(Process::end).collect();
        let first_lines: Vec<_> = readers.iter_mut().map(|reader| reader.next_line().unwrap()).collect();
        write_end.await;
        let read = first_lines.into_iter().zip(readers).map(|(first, reader)| [vec![first], reader.end()].concat());
        (written, read.collect())
    }

    async fn close(self) {
        self.store.close().await.unwrap();
    }
}

/// Tests DO-4: of the processes that expect one revision of a document, one writes. Each counts in the same document,
/// and nothing that was counted is lost.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_processes_writes_over_a_revision() {
    let parent = Parent::new().await;
    let replaced: Vec<_> = parent.write(Task::Count).concat();
    let writes = WRITERS * parent.writes;
    assert_eq!(replaced.len(), writes);
    assert_eq!(replaced.iter().collect::<BTreeSet<_>>().len(), writes, "a revision was replaced twice: {replaced:?}");
    let counter = parent.layer_store.documents.load_document(&child::counter()).await.unwrap().unwrap();
    assert_eq!(counter.value.as_str(), writes.to_string());
    parent.close().await;
}

/// Tests CF-3: of the processes that put or delete a config record with one revision, one succeeds. So each change
/// was made to the record as the change before had left it.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_processes_changes_a_config_record() {
    let parent = Parent::new().await;
    let mut changes: Vec<(usize, String, String)> = Vec::new();
    for line in parent.write(Task::ChangeConfig).concat() {
        let words: Vec<_> = line.split(' ').collect();
        changes.push((words[0].parse().unwrap(), words[1].to_owned(), words[2].to_owned()));
    }
    changes.sort();
    assert_eq!(changes.len(), WRITERS * parent.writes);
    let mut left = "absent".to_owned();
    for (at, (revision, kind, found)) in changes.iter().enumerate() {
        assert_eq!((*revision, found), (at + 1, &left), "{kind}");
        left = if kind == "deleted" { "absent".to_owned() } else { revision.to_string() };
    }
    parent.close().await;
}

/// Tests CF-6: processes that take a snapshot and subscribe from its position get every later change of other
/// processes once, in order, also if they subscribe again on the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_and_its_subscription_miss_no_change_of_other_processes() {
    let parent = Parent::new().await;
    let config = ConfigLayer::new(parent.layer_store.clone());
    let end = async {
        let name = ConfigName::new("config", child::END).unwrap();
        let _record = config.put_config(name, Json::null(), DocumentExpect::Any).await.unwrap();
    };
    let (_, read) = parent.write_and_read(Task::ChangeConfig, Task::ReadConfig, end).await;
    let last = WRITERS * parent.writes;
    assert_eq!(read.len(), 3);
    for lines in &read {
        // The first line is the position of the snapshot.
        let first: usize = lines[0].parse().unwrap();
        let expected: Vec<_> = (first..=last).map(|revision| revision.to_string()).collect();
        assert_eq!(lines[..lines.len() - 1], expected);
        assert_eq!(lines.last(), read[0].last(), "readers do not have the same record");
    }
    parent.close().await;
}

/// Tests EF-2: of the processes that begin one effect at the same time, one is told that it is new.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_processes_performs_an_effect() {
    let parent = Parent::new().await;
    let threads = parent.store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
    let _thread = threads.create_thread(NewThread::new("t".parse().unwrap())).await.unwrap();
    let mut performed: Vec<usize> =
        parent.write(Task::BeginEffects).concat().iter().map(|number| number.parse().unwrap()).collect();
    performed.sort_unstable();
    assert_eq!(performed, (0..parent.writes).collect::<Vec<_>>());
    parent.close().await;
}

/// Tests RG-4: processes publish different contents of one definition. Each gets a version of its own, and none is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn contents_of_several_processes_get_different_versions() {
    let parent = Parent::new().await;
    let mut versions: Vec<usize> =
        parent.write(Task::Publish).concat().iter().map(|version| version.parse().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=WRITERS * parent.writes).collect::<Vec<_>>());
    parent.close().await;
}

/// Tests RG-12: each process gets every publication and archival of the other processes once, in one order.
#[tokio::test(flavor = "multi_thread")]
async fn publications_come_once_in_order_to_every_process() {
    let parent = Parent::new().await;
    let registry = RegistryLayer::new(parent.layer_store.clone());
    let end = async {
        let request = PublishAll::new(child::END.parse().unwrap()).version(child::new_version("end", 0));
        let _publication = registry.publish_all(request).await.unwrap();
    };
    let (written, read) = parent.write_and_read(Task::PublishAndArchive, Task::ReadPublications, end).await;
    assert_eq!(read.len(), 3);
    let feed = &read[0][1..];
    for lines in &read {
        assert_eq!(lines[1..], *feed);
    }
    assert_eq!(feed.len(), written.iter().map(Vec::len).sum::<usize>());
    let snapshots = feed.iter().filter_map(|line| line.strip_prefix("published ")?.split(' ').next()?.parse().ok());
    assert_eq!(snapshots.collect::<Vec<usize>>(), (1..=WRITERS * parent.writes).collect::<Vec<_>>());
    for lines in written {
        let own: Vec<_> = feed.iter().filter(|line| lines.contains(line)).cloned().collect();
        assert_eq!(own, lines);
    }
    parent.close().await;
}
