//! Rewrites step by step, on the simulated disk: what a rewrite leaves when it is cut short, on a full disk, and beside
//! damage. Each opening makes the index anew.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{
    CollectionId, Document, DocumentChange, DocumentKey, DocumentQuery, DocumentStore, ErrorKind, IgnoreProgress, Json,
    KeySegment, PageRequest, Store, TenantId, WriteDocuments,
    inspect::{Finding, FindingKind, RepairStatus},
};

use super::{Rewrite, all};
use crate::{
    FileConfig, FileStore,
    codec::{DocumentRow, LogRow, Rows},
    index::Changes,
    mutex::guard,
    names::log_path,
    purge, table,
    vfs::{FilePath, Open, Vfs, sim::SimDisk},
    writer::How,
};

/// A store with a collection that is not rewritten in the background.
struct Place {
    disk: SimDisk,
    store: FileStore,
    tenant: TenantId,
    collection: CollectionId,
}

impl Place {
    fn on(disk: SimDisk) -> Self {
        let store = FileStore::open_on(Arc::new(disk.clone()), FileConfig::default()).unwrap();
        // As if another thread were at work, which takes what is wanted.
        *guard(&store.shared().behind) = Some(BTreeSet::new());
        Self { disk, store, tenant: TenantId::default_tenant(), collection: "notes".parse().unwrap() }
    }

    /// A collection of which little exists: 40 documents were put 20 times.
    async fn filled() -> Self {
        let place = Self::on(SimDisk::new());
        place.fill(0).await;
        place
    }

    /// Puts the documents from a number on, 20 times.
    async fn fill(&self, from: u64) {
        for round in 0..20 {
            let value = format!("\"{}\"", "x".repeat(300 + round));
            self.write((from..40).map(|number| put(number, &value))).await;
        }
    }

    async fn opened_again(self) -> Self {
        self.store.close().await.unwrap();
        Self::on(self.disk)
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.store.tenant(&self.tenant).unwrap().documents.unwrap()
    }

    async fn write(&self, changes: impl IntoIterator<Item = DocumentChange>) {
        self.documents().write_documents(WriteDocuments::new(changes)).await.map(drop).unwrap();
    }

    /// What a load of each of the documents gives.
    async fn loaded(&self) -> Vec<Result<Option<Document>, ErrorKind>> {
        let mut all = Vec::new();
        for number in 0..40 {
            let found = self.documents().load_documents(&[key(number).into()]).await;
            all.push(found.map(|mut found| found.remove(0)).map_err(|error| error.kind()));
        }
        all
    }

    /// Checks that there is one log, that the documents are these, and that a verification finds the damaged ones.
    async fn check_damaged(&self, expected: &[Result<Option<Document>, ErrorKind>]) {
        assert_eq!((self.logs().len(), self.loaded().await), (1, expected.to_vec()));
        let findings = self.verify().await;
        let is_damaged = |number: &u64| expected[usize::try_from(*number).unwrap()].is_err();
        for (finding, number) in findings.iter().zip((0..40).filter(is_damaged)) {
            assert_eq!((finding.kind, finding.repair), (FindingKind::Damaged, RepairStatus::NeedsBackup));
            assert!(finding.detail.contains(&key(number).to_string()), "{finding:?}");
        }
        assert_eq!(findings.len(), (0..40).filter(is_damaged).count(), "{findings:?}");
    }

    async fn list(&self) -> Vec<Document> {
        let query = DocumentQuery::new(self.collection.clone()).with_page(PageRequest::first(1_000));
        self.documents().list_documents(query).await.unwrap().items
    }

    fn rewrite(&self) -> Rewrite<'_> {
        Rewrite { shared: self.store.shared(), tenant: &self.tenant, collection: &self.collection }
    }

    fn begin(&self) -> Option<u64> {
        let rewrite = self.rewrite();
        rewrite.step(How::AsAsked, |round| rewrite.begin(round)).unwrap()
    }

    /// Moves everything, and takes the old log out of the index. The log waits for its purge.
    fn rewrite_without_purge(&self) {
        let (rewrite, old) = (self.rewrite(), self.begin().unwrap());
        let mut from = None;
        while let Some(last) = rewrite.step(How::AsAsked, |round| rewrite.move_some(round, old, from.take())).unwrap() {
            from = Some(last);
        }
        assert!(rewrite.step(How::Frees, |round| rewrite.retire(round, old)).unwrap().is_some());
    }

    fn rewrite_all(&self) {
        all(self.store.shared(), &self.tenant).unwrap();
    }

    /// The names of the logs of the collection.
    fn logs(&self) -> Vec<String> {
        let folder = self.path(&self.row(0).1).parent();
        let files = self.disk.list(&folder).unwrap().into_iter().map(|file| file.name);
        files.filter(|name| name.starts_with("_documents_")).collect()
    }

    /// The place of a document in the index, and the row of its log.
    fn row(&self, number: u64) -> (DocumentRow, LogRow) {
        let index = &self.store.shared().index;
        let row = index.document_row(&self.index_key(number)).unwrap().unwrap();
        (row, index.log_row(row.log).unwrap().unwrap())
    }

    fn index_key(&self, number: u64) -> crate::index::Key {
        table::document(&self.tenant, &key(number).into(), 0)
    }

    fn path(&self, log: &LogRow) -> FilePath {
        log_path(&log.tenant, &log.thread, log.generation).unwrap()
    }

    /// Changes a bit of the line of a document.
    fn damage(&self, number: u64) {
        let (row, log) = self.row(number);
        let file = self.disk.open(&self.path(&log), Open::Write).unwrap();
        file.write_at(b"?", row.span.offset + u64::from(row.span.len) / 2).unwrap();
    }

    fn reserve(&self) -> u64 {
        self.disk.open(&FilePath::new("reserve").unwrap(), Open::Read).map_or(0, |file| file.len().unwrap())
    }

    async fn verify(&self) -> Vec<Finding> {
        self.store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings
    }

    async fn repair(&self) -> Vec<Finding> {
        self.store.inspector().unwrap().repair(false, &IgnoreProgress).await.unwrap().findings
    }
}

fn key(number: u64) -> DocumentKey {
    DocumentKey::new("notes".parse().unwrap(), [KeySegment::Number(number)]).unwrap()
}

fn put(number: u64, value: &str) -> DocumentChange {
    DocumentChange::put(key(number), Json::parse(value).unwrap())
}

fn statuses(findings: &[Finding]) -> Vec<(FindingKind, RepairStatus)> {
    findings.iter().map(|finding| (finding.kind, finding.repair)).collect()
}

/// A verification and a repair look at both logs of a collection: a document that the index lacks may be in the older
/// one, or may have been deleted in the newer one.
#[tokio::test]
async fn repair_sees_both_logs_of_a_rewrite_vf_5() {
    let place = Place::filled().await;
    let index = &place.store.shared().index;
    let stale = index.get(place.index_key(1).as_bytes()).unwrap().unwrap();
    assert!(place.begin().is_some());
    place.write([DocumentChange::delete(key(1)), put(2, "2")]).await;
    let expected = place.list().await;
    assert_eq!((expected.len(), place.logs().len(), place.verify().await), (39, 2, vec![]));
    let mut changes = Changes::default();
    changes.delete(place.index_key(3));
    changes.put(place.index_key(1), stale);
    index.apply(&changes).unwrap();
    assert_ne!(place.list().await, expected);
    assert_eq!(statuses(&place.verify().await), [(FindingKind::StaleIndex, RepairStatus::CanBeRebuilt)]);
    assert_eq!(statuses(&place.repair().await), [(FindingKind::StaleIndex, RepairStatus::Rebuilt)]);
    assert_eq!((place.list().await, place.verify().await), (expected.clone(), vec![]));
    place.rewrite_all();
    assert_eq!((place.list().await, place.logs().len()), (expected, 1));
}

/// A repair finds a collection again that the index does not know at all.
#[tokio::test]
async fn repair_restores_a_collection_that_the_index_lacks_vf_5() {
    let place = Place::filled().await;
    assert!(place.begin().is_some());
    let expected = place.list().await;
    let mut changes = Changes::default();
    changes.delete(table::collection(&place.tenant, &place.collection));
    (0..40).for_each(|number| changes.delete(place.index_key(number)));
    place.store.shared().index.apply(&changes).unwrap();
    assert_eq!(place.list().await, []);
    assert_eq!(statuses(&place.repair().await), [(FindingKind::StaleIndex, RepairStatus::Rebuilt)]);
    assert_eq!((place.list().await, place.verify().await), (expected, vec![]));
}

/// A damaged line does not keep the other documents from being moved. The document stays damaged, a verification
/// reports it, and a put or a deletion ends that.
#[tokio::test]
async fn a_rewrite_ends_beside_a_damaged_document_fi_4() {
    let place = Place::filled().await;
    assert!(place.begin().is_some());
    place.damage(5);
    place.damage(6);
    let expected = place.loaded().await;
    assert!(expected[5] == Err(ErrorKind::Corrupt) && expected[6] == Err(ErrorKind::Corrupt));
    place.rewrite_all();
    place.check_damaged(&expected).await;
    let place = place.opened_again().await;
    place.check_damaged(&expected).await;
    place.write([DocumentChange::delete(key(6))]).await;
    // The next rewrite takes what is damaged along.
    place.fill(7).await;
    let expected = place.loaded().await;
    assert!(expected[5] == Err(ErrorKind::Corrupt) && expected[6] == Ok(None));
    place.rewrite_all();
    place.check_damaged(&expected).await;
    place.write([put(5, "5")]).await;
    assert_eq!((place.verify().await, place.list().await.len()), (vec![], 39));
}

/// A log that is missing is no damage of its documents: nothing is given up.
#[tokio::test]
async fn a_rewrite_of_a_missing_log_moves_nothing() {
    let place = Place::filled().await;
    assert!(place.begin().is_some());
    let (row, log) = place.row(5);
    place.disk.unlink(&place.path(&log)).unwrap();
    place.store.shared().files.forget(&place.path(&log));
    assert_eq!(all(place.store.shared(), &place.tenant).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(place.row(5), (row, log));
}

/// On a full disk a rewrite is put off and leaves the reserve alone, wherever it is. With space it goes on.
#[tokio::test]
async fn a_rewrite_on_a_full_disk_is_put_off_fi_7() {
    for is_begun in [false, true] {
        let place = Place::filled().await;
        let expected = place.list().await;
        if is_begun {
            assert!(place.begin().is_some());
        }
        let logs = place.logs();
        place.disk.set_full(true);
        let reserve = place.reserve();
        assert!(reserve > 0);
        place.rewrite_all();
        assert_eq!((place.reserve(), place.logs(), place.list().await), (reserve, logs, expected.clone()));
        place.disk.set_full(false);
        place.rewrite_all();
        assert_eq!((place.logs().len(), place.list().await), (1, expected));
    }
}

/// A rewrite begins when the old log of the one before is gone. Otherwise documents that were deleted in between would
/// come back with an index that is made anew.
#[tokio::test]
async fn a_rewrite_waits_for_the_purge_of_an_older_log_do_10() {
    let place = Place::filled().await;
    place.rewrite_without_purge();
    place.write([DocumentChange::delete(key(7))]).await;
    place.fill(10).await;
    let expected = place.list().await;
    assert_eq!((place.logs().len(), place.begin()), (2, None));
    assert_eq!(purge::left_behind(place.store.shared(), None).unwrap().len(), 1);
    place.rewrite_all();
    let logs = place.logs();
    assert!(logs.len() == 1 && logs[0].starts_with("_documents_2_"), "{logs:?}");
    assert_eq!(place.list().await, expected);
    let place = place.opened_again().await;
    assert_eq!((place.list().await, place.verify().await), (expected, vec![]));
}
