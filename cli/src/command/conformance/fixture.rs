//! How the suite opens stores: of the kind that was named, each in a new folder beside the named one.

use std::{io, path::Path, sync::Arc, time::Duration};

use agentstore::{
    Capabilities, Clock, Detail, Error, Limits, ManualClock, OpenOptions, Result, Store, StoreUrl, SystemClock,
};
use async_trait::async_trait;
use conformance_tests::{Fixture, Gap, Lack, Need, Opened};
use tempfile::TempDir;

/// A kind of store, in a place.
pub(super) struct Live {
    url: StoreUrl,
    capabilities: Capabilities,
}

/// A store of one case, and what must live as long.
struct Place {
    url: StoreUrl,
    limits: Limits,
    clock: ManualClock,
    /// Removed with the place.
    _folder: Option<TempDir>,
}

impl Live {
    /// Stores of this kind; one is opened to see what they give.
    pub(super) async fn new(url: StoreUrl) -> Result<Self> {
        let place = Place::new(&url, Limits::default())?;
        let store = place.open().await?;
        let capabilities = store.capabilities().clone();
        store.close().await?;
        Ok(Self { url, capabilities })
    }
}

impl Place {
    fn new(url: &StoreUrl, limits: Limits) -> Result<Self> {
        let (folder, url) = match url {
            StoreUrl::File(path) => {
                let folder = beside(path).map_err(|error| {
                    Error::unavailable(format!("no folder can be made beside `{}`", path.display())).with_source(error)
                })?;
                let url = StoreUrl::File(folder.path().join("store"));
                (Some(folder), url)
            }
            other => (None, other.clone()),
        };
        // From now on its time moves only when a case moves it.
        let clock = ManualClock::new(SystemClock.now());
        Ok(Self { url, limits, clock, _folder: folder })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        let options = OpenOptions::new().with_clock(Arc::new(self.clock.clone())).with_limits(self.limits.clone());
        Ok(options.open_url(&self.url).await?.into_store())
    }
}

/// A new folder in the one that holds `path`, so that both are on one medium.
fn beside(path: &Path) -> io::Result<TempDir> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    TempDir::with_prefix_in(".agentstore-conformance-", parent)
}

fn place(opened: &Opened) -> Result<&Place> {
    opened.guard().ok_or_else(lacking)
}

fn lacking() -> Error {
    Error::new(Detail::Unsupported { operation: "what the fixture says it lacks" })
}

#[async_trait]
impl Fixture for Live {
    fn name(&self) -> String {
        match &self.url {
            StoreUrl::File(path) => format!("file, beside {}", path.display()),
            other => other.to_string(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn lack(&self, need: Need) -> Option<Lack> {
        let lasting = self.url.outlives_process();
        match need {
            Need::Reopen | Need::Damage if !lasting => Some(Lack::Unsupported("the store ends with its last handle")),
            Need::Beside if !lasting => Some(Lack::Unsupported("each opening makes a store of its own")),
            Need::Damage => Some(Lack::NotRun("the command changes no stored bytes")),
            _ => None,
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<Opened> {
        let place = Place::new(&self.url, limits)?;
        Ok(Opened::new(place.open().await?, place))
    }

    async fn reopen(&self, opened: Opened) -> Result<Opened> {
        let Opened { store, guard } = opened;
        store.close().await?;
        drop(store);
        let place = guard.downcast::<Place>().map_err(|_| lacking())?;
        Ok(Opened::new(place.open().await?, *place))
    }

    async fn open_beside(&self, opened: &Opened) -> Result<Arc<dyn Store>> {
        place(opened)?.open().await
    }

    async fn advance(&self, opened: &Opened, by: Duration) {
        if let Ok(place) = place(opened) {
            place.clock.advance(by);
        }
    }

    async fn set_back(&self, opened: &Opened, by: Duration) {
        if let Ok(place) = place(opened) {
            place.clock.set(place.clock.now().saturating_sub(by));
        }
    }

    async fn damage(&self, _opened: Opened, _seed: u64) -> Result<Opened> {
        Err(lacking())
    }
}
