//! An empty store on PostgreSQL.

use anyhow::Result;
use store_core::{IdSource, UuidSource};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};

/// Calls `measure` with the name of a new schema and with a store in it, and removes the schema afterwards.
///
/// # Errors
/// The errors of `measure` and of the server.
pub fn in_new_schema(url: &str, measure: impl AsyncFnOnce(&str, &PostgresStore) -> Result<()>) -> Result<()> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let name = format!("bench_{}", UuidSource.next_id().replace('-', ""));
    let config = PostgresConfig::new(&format!("{url}{separator}schema={name}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let store = PostgresStore::open(config.clone()).await?;
        measure(&name, &store).await
    });
    runtime.block_on(TestSchema::from_config(config).remove())?;
    result
}
