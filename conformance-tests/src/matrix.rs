//! The capabilities, contracts and layers of stores, and a table that compares them.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use serde::Serialize;
use store_core::{
    Capabilities, EventDelivery, Processes, Result, Store, Survives, SystemClock, TenantId, TenantStores, TimeSource,
    layers::{
        LayerStore, blob::BlobLayer, erasure::ErasureLayer, stream_checkpoint::StreamCheckpointLayer, trace::TraceLayer,
    },
};

use crate::case::Contract;

/// The name of a layer, and a function that says whether it can be opened over the contracts of a store.
type Layer = (&'static str, fn(&TenantStores) -> bool);

const LAYERS: [Layer; 9] = [
    ("config, profiles, audit log", has_documents),
    ("registry", has_documents),
    ("replay log", has_documents),
    ("stream checkpoints", |stores| StreamCheckpointLayer::new(stores).is_ok()),
    ("effects", has_documents),
    ("blobs", |stores| BlobLayer::new(stores, Arc::new(SystemClock)).is_ok()),
    ("traces", |stores| TraceLayer::new(stores).is_ok()),
    ("datasets, evaluations", has_documents),
    ("erasure", |stores| ErasureLayer::new(stores.clone(), None).is_ok()),
];

fn has_documents(stores: &TenantStores) -> bool {
    LayerStore::new(stores).is_ok()
}

/// The capabilities, contracts and layers of one store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreSupport {
    /// The capabilities of the store.
    pub capabilities: Capabilities,
    /// The contracts of the store, in the order of [`Contract::ALL`].
    pub contracts: Vec<Contract>,
    /// The names of the layers that the store has.
    pub layers: Vec<&'static str>,
    /// Whether the store has a live channel. Without one it may still have wake-ups.
    pub live: bool,
}

impl StoreSupport {
    /// The capabilities, contracts and layers of an opened store.
    ///
    /// # Errors
    /// Those of [`Store::tenant`].
    pub fn of(store: &dyn Store) -> Result<Self> {
        let stores = store.tenant(&TenantId::default_tenant())?;
        let is_supported = |contract: &Contract| match contract {
            Contract::ThreadRunStore => stores.threads.is_some(),
            Contract::CommitCoordinator => stores.commits.is_some(),
            Contract::PendingStore => stores.pending.is_some(),
            Contract::EventStore => stores.events.is_some(),
            Contract::MailboxStore => stores.mailbox.is_some(),
            Contract::OutboxStore => stores.outbox.is_some(),
            Contract::LiveChannel => stores.live().is_some() || stores.wake_ups().is_some(),
            Contract::DocumentStore => stores.documents.is_some(),
            Contract::ObjectStore => stores.objects.is_some(),
        };
        let contracts = Contract::ALL.iter().copied().filter(is_supported).collect();
        let layers = LAYERS.iter().filter(|(_, is_supported)| is_supported(&stores)).map(|(name, _)| *name).collect();
        Ok(Self { capabilities: store.capabilities().clone(), contracts, layers, live: stores.live().is_some() })
    }

    /// The rows of the comparison: the name of each property, and its value for this store.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String)> {
        let yes_or_no = |is_true: bool| if is_true { "yes" } else { "no" };
        let capabilities = &self.capabilities;
        let survives = match capabilities.survives {
            Survives::Nothing => "nothing",
            Survives::Process => "a killed process",
            Survives::Power => "a power cut",
        };
        let processes = match capabilities.processes {
            Processes::One => "one",
            Processes::Many => "any number",
        };
        let time = match capabilities.time {
            TimeSource::Injected => "the process",
            TimeSource::Server => "the server",
            TimeSource::Host => "the host",
        };
        let delivery = match capabilities.delivery {
            Some(EventDelivery::Push) => "at once",
            Some(EventDelivery::Poll) => "by polling",
            None => "no",
        };
        let capability_rows = [
            ("acknowledged data survives", survives.to_owned()),
            ("processes that can write at once", processes.to_owned()),
            ("clock that gives store time", time.to_owned()),
            ("largest record", format_size(capabilities.max_record_bytes)),
            ("commits check claims", yes_or_no(capabilities.fenced).to_owned()),
            ("subscriptions get new events", delivery.to_owned()),
        ];
        let support_text = |contract: &Contract| match contract {
            Contract::LiveChannel if !self.live && self.contracts.contains(contract) => "wake-ups only",
            contract => yes_or_no(self.contracts.contains(contract)),
        };
        let contracts =
            Contract::ALL.iter().map(|contract| (format!("`{contract:?}`"), support_text(contract).to_owned()));
        let layers = LAYERS.iter().map(|(name, _)| (*name, yes_or_no(self.layers.contains(name)).to_owned()));
        let layers = layers.map(|(name, value)| (name.to_owned(), value));
        let capabilities = capability_rows.into_iter().map(|(name, value)| (name.to_owned(), value));
        capabilities.chain(contracts).chain(layers).collect()
    }
}

impl fmt::Display for StoreSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|(name, value)| writeln!(f, "{:<32}{value}", name.trim_matches('`')))
    }
}

/// A number of bytes, in the largest unit in which it is a whole number.
fn format_size(bytes: u64) -> String {
    let units = [(20, "MiB"), (10, "KiB")];
    let largest_unit = units.into_iter().find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    largest_unit.map_or_else(|| format!("{bytes} B"), |(bits, unit)| format!("{} {unit}", bytes >> bits))
}

/// A table in Markdown that compares several stores.
#[must_use]
pub fn comparison_table(stores: &[(&str, StoreSupport)]) -> String {
    let mut table = String::from("| |");
    let cells: Vec<_> = stores.iter().map(|(_, support)| support.rows()).collect();
    stores.iter().for_each(|(name, _)| _ = write!(table, " `{name}` |"));
    table += "\n|---|";
    table += &"---|".repeat(stores.len());
    for (at, (name, _)) in cells.first().into_iter().flatten().enumerate() {
        _ = write!(table, "\n| {name} |");
        let values = cells.iter().filter_map(|rows| rows.get(at));
        values.for_each(|(_, value)| _ = write!(table, " {value} |"));
    }
    table.push('\n');
    table
}
