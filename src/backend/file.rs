//! Opens a file store.

use std::path::Path;

use store_core::Result;

use crate::{OpenOptions, Stores};

#[cfg(feature = "file")]
pub(crate) async fn open(path: &Path, options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_core::Error;
    use store_file::{Create, Durability, FileConfig, FileStore};

    let OpenOptions { durability, read_only, create, clock, ids, limits, progress, accept_lost_journal } =
        options.clone();
    let mut config =
        FileConfig::default().with_clock(clock).with_limits(limits).with_progress(progress).with_create(match create {
            crate::Create::Missing => Create::Missing,
            crate::Create::Never => Create::Never,
        });
    config.ids = ids;
    config.read_only = read_only;
    config.accept_lost_journal = accept_lost_journal;
    if let Some(durability) = durability {
        config.durability = match durability {
            crate::Durability::Sync => Durability::Sync,
            crate::Durability::Interval(interval) => Durability::Interval(interval),
            crate::Durability::None => Durability::None,
        };
    }
    // Opening may read many logs, so it runs on an OS thread of its own and does not block the runtime of the caller.
    let (sender, opened) = tokio::sync::oneshot::channel();
    let path = path.to_owned();
    let opening_thread = std::thread::Builder::new().name("agentstore-open".to_owned());
    let spawn_error = |source| Error::unavailable("the system cannot start another thread").with_source(source);
    opening_thread.spawn(move || sender.send(FileStore::open(path, config))).map_err(spawn_error)?;
    let store = opened
        .await
        .map_err(|receive_error| Error::unavailable("the opening panicked").with_source(receive_error))??;
    let stores = Stores::new(Arc::new(store.clone())).with_backend_name("file").with_clock(Arc::clone(&options.clock));
    Ok(stores.with_log_files(Arc::new(store)))
}

#[cfg(feature = "file")]
#[async_trait::async_trait]
impl crate::LogFiles for store_file::FileStore {
    fn log_file(
        &self,
        tenant: &store_core::TenantId,
        thread: &store_core::ThreadId,
    ) -> Result<Option<std::path::PathBuf>> {
        self.log_path(tenant, thread)
    }

    async fn compress_logs(
        &self,
        tenant: &store_core::TenantId,
        request: crate::CompressLogs,
        progress: &dyn store_core::Progress,
    ) -> Result<crate::CompressedLogs> {
        let crate::CompressLogs { idle, dry_run } = request;
        let request = store_file::CompressLogs::new(idle);
        let request = if dry_run { request.dry() } else { request };
        let done = Self::compress_logs(self, tenant, request, progress).await?;
        let store_file::CompressedLogs { logs, bytes_before, bytes_after, damaged, stopped, .. } = done;
        Ok(crate::CompressedLogs { logs, bytes_before, bytes_after, damaged, stopped })
    }
}

#[cfg(not(feature = "file"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_path: &Path, _options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`file:` (build with the cargo feature `file`)"))
}
