//! The check of the bytes of blobs (BL-8).

use futures_util::StreamExt;
use sha2::{Digest, Sha256};

use super::{
    record::{BlobHash, StoredBlob},
    rules,
};
use crate::{
    document::{Document, DocumentStore},
    error::{ErrorKind, Result},
    ext::DocumentStoreExt,
    id::TenantId,
    inspect::{Finding, FindingKind, Note},
    layers::load_in_parts,
    limits::length,
    object::{ObjectKey, ObjectStore},
    page::{Page, PageRequest},
    progress::Progress,
    store::TenantStores,
};

/// The number of blobs and objects that are looked at together.
const BATCH: u32 = 200;

/// What a check of the bytes of blobs read and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BlobCheckResult {
    /// The number of objects read.
    pub objects: u64,
    /// Blobs whose bytes are missing or differ from what was put.
    pub findings: Vec<Finding>,
    /// Objects that no blob needs, and blobs whose bytes are kept in another store.
    pub notes: Vec<Note>,
    /// Whether the progress has stopped the check before its end.
    pub stopped: bool,
}

/// Reads the bytes of all blobs of a tenant, and compares them with the hash and the length that were put (BL-8). A
/// backend that keeps objects calls this when it verifies a store.
///
/// `place_of` says where an object is, for people: a file, for example. After each mebibyte the progress is told how
/// many pieces of work are done: `done` and the number of objects that were read. Blobs may be put and removed
/// meanwhile. Memory does not grow with the lengths of blobs.
///
/// # Errors
/// Any error of reading that is not damage. A tenant that is deleted meanwhile has no blobs.
pub async fn check_blobs(
    stores: &TenantStores,
    tenant: &TenantId,
    place_of: impl Fn(&ObjectKey) -> String + Send + Sync,
    (progress, done): (&dyn Progress, u64),
) -> Result<BlobCheckResult> {
    let (Some(documents), Some(objects)) = (&stores.documents, &stores.objects) else {
        return Ok(BlobCheckResult::default());
    };
    let (documents, objects) = (&**documents, &**objects);
    let mut check = Check { documents, objects, tenant, place_of, progress, done, result: BlobCheckResult::default() };
    match check.run().await {
        Err(error) if error.kind() == ErrorKind::Closed => {}
        // The check of the documents themselves says where the damage is.
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let note =
                Note::new(format!("blobs of tenant {tenant}"), format!("they were not read to the end: {error}"));
            check.result.notes.push(note);
        }
        checked => checked?,
    }
    Ok(check.result)
}

struct Check<'a, P> {
    documents: &'a dyn DocumentStore,
    objects: &'a dyn ObjectStore,
    tenant: &'a TenantId,
    place_of: P,
    progress: &'a dyn Progress,
    /// The number of pieces of work that were done before this check.
    done: u64,
    result: BlobCheckResult,
}

/// What is wrong with the bytes of a blob.
type Wrong = (FindingKind, String);

impl<P: Fn(&ObjectKey) -> String + Send + Sync> Check<'_, P> {
    async fn run(&mut self) -> Result<()> {
        let has_objects = !self.objects.list_objects(PageRequest::first(1)).await?.items.is_empty();
        let (mut blobs, mut next) = (0, Some(PageRequest::first(BATCH)));
        while let Some(page) = next.take() {
            let page = self.documents.list_documents(rules::blobs_query()?.with_page(page)).await?;
            blobs += length(page.items.len());
            if has_objects {
                for document in &page.items {
                    self.check_blob(document).await?;
                    if self.result.stopped {
                        return Ok(());
                    }
                }
            }
            next = following(page);
        }
        match (blobs, has_objects) {
            (0, true) => {
                let detail = "no blob of this store needs the objects: blobs of another store do, or interrupted calls \
                              left them";
                self.result.notes.push(Note::new(format!("objects of tenant {}", self.tenant), detail));
                Ok(())
            }
            (1.., false) => {
                let detail =
                    format!("this store has no bytes of {blobs} blobs: another store keeps them, or they are lost");
                self.result.notes.push(Note::new(format!("blobs of tenant {}", self.tenant), detail));
                Ok(())
            }
            _ => self.note_leftovers().await,
        }
    }

    async fn check_blob(&mut self, document: &Document) -> Result<()> {
        let hash = rules::hash_in(document)?;
        let Ok((stored, key)) = StoredBlob::from_document(document).and_then(|stored| {
            let key = stored.object()?;
            Ok((stored, key))
        }) else {
            let detail = "its document is not what the blobs write there".to_owned();
            self.find((FindingKind::Damaged, detail), format!("blob {hash}"));
            return Ok(());
        };
        let Some(wrong) = self.compare(&hash, &stored, &key).await? else { return Ok(()) };
        // A collection may have removed the blob meanwhile.
        let newest = self.documents.load_document(&document.to_ref()).await?;
        if newest.is_some_and(|newest| newest.revision == document.revision) {
            let place = (self.place_of)(&key);
            self.find(wrong, place);
        }
        Ok(())
    }

    /// Reads an object, and returns what is wrong with it.
    async fn compare(&mut self, hash: &BlobHash, stored: &StoredBlob, key: &ObjectKey) -> Result<Option<Wrong>> {
        let missing = |detail: &str| Ok(Some((FindingKind::DanglingReference, format!("blob {hash}: {detail}"))));
        let Some(mut stream) = self.objects.open_object(key, 0..u64::MAX).await? else {
            return missing("its bytes do not exist");
        };
        let (mut digest, mut bytes) = (Sha256::new(), 0);
        while let Some(part) = stream.next().await {
            match part {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    return Ok(Some((FindingKind::Damaged, format!("blob {hash}: {error}"))));
                }
                part => {
                    let part = part?;
                    digest.update(&part);
                    bytes += length(part.len());
                }
            }
            self.advance();
            if self.result.stopped {
                return Ok(None);
            }
        }
        self.result.objects += 1;
        self.advance();
        if bytes != stored.bytes {
            let detail = format!("blob {hash}: there are {bytes} bytes, and {} were put", stored.bytes);
            return Ok(Some((FindingKind::Damaged, detail)));
        }
        let is_same = BlobHash::finish(digest) == *hash;
        Ok((!is_same).then(|| (FindingKind::Damaged, format!("blob {hash}: its bytes differ from what was put"))))
    }

    /// Notes the objects that belong to no blob.
    async fn note_leftovers(&mut self) -> Result<()> {
        let mut next = Some(PageRequest::first(BATCH));
        while let Some(page) = next.take() {
            let page = self.objects.list_objects(page).await?;
            let mut names = Vec::new();
            for object in &page.items {
                names.extend(object.key.hash().map(|hash| rules::blob_document(&hash)).transpose()?);
            }
            let loaded = if names.is_empty() { Vec::new() } else { load_in_parts(self.documents, &names).await? };
            let needed = loaded.iter().flatten().filter_map(|document| StoredBlob::from_document(document).ok());
            let needed: Vec<String> = needed.map(|stored| stored.object).collect();
            for object in &page.items {
                if !needed.iter().any(|key| key == object.key.as_str()) {
                    let detail = "no blob needs it: an interrupted call left it, or a call is about to record it; \
                                  collections remove what is left";
                    self.result.notes.push(Note::new((self.place_of)(&object.key), detail));
                }
            }
            next = following(page);
        }
        Ok(())
    }

    fn advance(&mut self) {
        self.result.stopped |= !self.progress.advance(self.done + self.result.objects, None);
    }

    fn find(&mut self, (kind, detail): Wrong, place: String) {
        self.result.findings.push(Finding::new(kind, place, detail).of_tenant(self.tenant));
    }
}

/// Returns the request for the page after this one.
fn following<T>(page: Page<T>) -> Option<PageRequest> {
    page.next.map(|cursor| PageRequest::first(BATCH).after(cursor))
}
