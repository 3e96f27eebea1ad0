//! The store of a test, and what it has.

use std::collections::BTreeSet;

use agentstore::{
    Effect, EffectQuery, IdSource, MAX_PAGE, OpenOptions, PageRequest, Stores, TenantId, UuidSource,
    postgres::{PostgresConfig, TestSchema},
};
use tempfile::TempDir;

/// A store that is removed after the test.
pub(crate) struct TestStore {
    pub(crate) url: String,
    place: Place,
}

enum Place {
    Folder(TempDir),
    Schema(Box<TestSchema>),
}

impl TestStore {
    pub(crate) fn on_files() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", folder.path().join("store").display());
        Self { url, place: Place::Folder(folder) }
    }

    pub(crate) fn on_postgres() -> Self {
        let server_url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
        let separator = if server_url.contains('?') { '&' } else { '?' };
        let schema = format!("test_{}", UuidSource.next_id().replace('-', ""));
        let url = format!("{server_url}{separator}allow_unsafe=true&schema={schema}");
        let schema = TestSchema::from_config(PostgresConfig::new(&url).unwrap());
        Self { url, place: Place::Schema(Box::new(schema)) }
    }

    pub(crate) async fn open(&self) -> Stores {
        OpenOptions::new().open(&self.url).await.unwrap()
    }

    pub(crate) async fn remove(self) {
        match self.place {
            Place::Folder(folder) => folder.close().unwrap(),
            Place::Schema(schema) => schema.remove().await.unwrap(),
        }
    }
}

/// Lists effects, as `agentstore effects list` does.
pub(crate) async fn list_effects(stores: &Stores, query: EffectQuery) -> Vec<Effect> {
    let effects = stores.effects(&TenantId::default_tenant()).unwrap();
    let (mut found, mut page) = (Vec::new(), PageRequest::first(MAX_PAGE));
    loop {
        let listed = effects.list_effects(query.clone().with_page(page.clone())).await.unwrap();
        found.extend(listed.items);
        let Some(next) = listed.next else { return found };
        page = page.after(next);
    }
}

/// Returns the orders whose charges are listed in doubt.
pub(crate) async fn orders_in_doubt(stores: &Stores) -> BTreeSet<String> {
    let listed = list_effects(stores, EffectQuery::default().in_doubt()).await;
    listed.iter().map(|effect| effect.name.thread().to_string()).collect()
}
