//! Compares the cost of calls on documents in a store with many documents and in one with few (PR-15, DO-6). Also
//! compares how soon a watcher in the same process gets a change of config.

use std::time::Duration;

use anyhow::{Context, Result};
use benches::{AllowedGrowth, Row, Samples, timed};
use futures_util::StreamExt;
use store_core::{
    CollectionId, Direction, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, Json, KeySegment, PageRequest,
    SegmentId, WriteDocuments,
    layers::{
        LayerStore,
        config::{ConfigLayer, ConfigName, ConfigStore, ConfigStoreExt, ConfigUpdate, ConfigWatch},
    },
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, measuring_order},
};

/// The number of documents in the small store.
const SMALL_COUNT: u64 = 100;
/// The number of documents that [`fill`] puts with one call.
const BATCH_SIZE: u64 = 1_000;
/// The number of documents in a page.
const PAGE_SIZE: u32 = 50;
/// The namespace of the watched config record.
const NAMESPACE: &str = "watched";

/// A store with documents, and a watcher.
struct FilledStore {
    measured_store: MeasuredStore,
    layer_store: LayerStore,
    watch: ConfigWatch,
    documents: u64,
}

/// The measured operations. Each sample measures them in this order.
const STEPS: [&str; 5] = [
    "load a document",
    "first page of documents",
    "last page of documents",
    "put a document",
    "deliver a change of config",
];
/// The number of steps that only read.
const READING_STEPS: usize = 3;

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let mut stores = [
        fill(backend, &folder.path().join("small"), SMALL_COUNT).await?,
        fill(backend, &folder.path().join("large"), options.documents).await?,
    ];
    // With syncs, only writes take another time.
    let first_step = if backend == Backend::FileSync { READING_STEPS } else { 0 };
    let mut rows: Vec<_> = STEPS.into_iter().skip(first_step).map(|step| (step, Samples::default())).collect();
    for sample in 0..backend.sample_count(options.samples) {
        for (step, samples) in &mut rows {
            for is_large in measuring_order(sample) {
                let [small, large] = &mut stores;
                let store = if is_large { large } else { small };
                samples.add(is_large, store.measure_step(step, sample as u64).await?);
            }
        }
    }
    for store in stores {
        store.measured_store.store.close().await?;
    }
    Ok(rows.into_iter().map(|(step, samples)| samples.row(step, backend.name(), AllowedGrowth::Flat)).collect())
}

async fn fill(backend: Backend, path: &std::path::Path, documents: u64) -> Result<FilledStore> {
    let measured_store = MeasuredStore::open_to_fill(backend, path).await?;
    let layer_store = measured_store.layer_store()?;
    for first in (0..documents).step_by(usize::try_from(BATCH_SIZE)?) {
        let batch = (first..documents.min(first + BATCH_SIZE)).map(put).collect::<Result<Vec<_>>>()?;
        layer_store.documents.write_documents(WriteDocuments::new(batch)).await?;
    }
    drop(layer_store);
    let measured_store = measured_store.reopen_for_measurement(backend, path).await?;
    let layer_store = measured_store.layer_store()?;
    let mut watch = ConfigLayer::new(layer_store.clone()).watch_config(&SegmentId::new(NAMESPACE)?).await?;
    let present = watch.next().await.context("the watch ended")??;
    anyhow::ensure!(present == ConfigUpdate::Present(Vec::new()), "there is config already");
    Ok(FilledStore { measured_store, layer_store, watch, documents })
}

fn key(number: u64) -> Result<DocumentKey> {
    Ok(DocumentKey::new(CollectionId::new("bench")?, [KeySegment::Number(number)])?)
}

fn put(number: u64) -> Result<DocumentChange> {
    let value = Json::parse(r#"{"name":"read_file","description":"Reads a file of the project","enabled":true}"#)?;
    Ok(DocumentChange::put(key(number)?, value))
}

impl FilledStore {
    async fn measure_step(&mut self, step: &str, sample: u64) -> Result<Duration> {
        let documents = &self.layer_store.documents;
        // Documents in different places of the collection.
        let number = sample * 7_919 % self.documents;
        let page = |direction| {
            let query = DocumentQuery::new(CollectionId::new("bench")?).with_direction(direction);
            anyhow::Ok(query.with_page(PageRequest::first(PAGE_SIZE)))
        };
        match step {
            "load a document" => {
                let name = [key(number)?.into()];
                let (took, found) = timed(documents.load_documents(&name)).await;
                anyhow::ensure!(found?.iter().all(Option::is_some), "the document does not exist");
                Ok(took)
            }
            "first page of documents" | "last page of documents" => {
                let direction =
                    if step == "first page of documents" { Direction::Forward } else { Direction::Backward };
                let (took, found) = timed(documents.list_documents(page(direction)?)).await;
                anyhow::ensure!(found?.items.len() == PAGE_SIZE as usize, "the page is not full");
                Ok(took)
            }
            "put a document" => {
                let request = WriteDocuments::new([put(number)?.expecting(DocumentExpect::Present)]);
                let (took, written) = timed(documents.write_documents(request)).await;
                written.map(|_| took).map_err(Into::into)
            }
            _ => {
                let (config, name) = (ConfigLayer::new(self.layer_store.clone()), ConfigName::new(NAMESPACE, "r")?);
                let _record = config.put_config(name, Json::of(&sample)?, DocumentExpect::Any).await?;
                let (took, update) = timed(self.watch.next()).await;
                let _change = update.context("the watch ended")??;
                Ok(took)
            }
        }
    }
}
