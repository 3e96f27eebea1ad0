//! Tests of `postgres://…`, with its cargo feature and without it.

#[cfg(feature = "postgres")]
mod with_feature {
    use store_core::{ErrorKind, IdSource, Survives, TenantId, ThreadFilter, UuidSource};

    use crate::{
        Create, Durability, OpenOptions,
        tests::{commit_hello, refusal},
    };

    /// Returns a URL with a schema that does not exist yet.
    fn url_of_new_schema() -> String {
        let server = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
        let separator = if server.contains('?') { '&' } else { '?' };
        format!("{server}{separator}allow_unsafe=true&schema=test_{}", UuidSource.next_id().replace('-', ""))
    }

    #[tokio::test]
    async fn a_postgres_store_has_every_contract_and_a_read_only_mode() {
        let (url, tenant) = (url_of_new_schema(), TenantId::default_tenant());
        let options = OpenOptions::new();
        for options_without_creation in [options.clone().with_create(Create::Never), options.clone().read_only()] {
            let (kind, message) = refusal(options_without_creation.open(&url).await);
            assert_eq!(kind, ErrorKind::SchemaMismatch);
            assert!(message.contains("agentstore migrate"), "{message}");
        }
        let stores = options.open(&url).await.unwrap();
        assert_ne!(stores.capabilities().survives, Survives::Nothing);
        assert_eq!(commit_hello(&stores).await.unwrap(), 1);
        let reader = options.read_only().open(&url).await.unwrap();
        assert_eq!(reader.threads(&tenant).unwrap().count_threads(&ThreadFilter::default()).await.unwrap(), 1);
        assert_eq!(commit_hello(&reader).await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(
            reader.mailbox(&tenant).unwrap().list_ready_threads(Default::default()).await.unwrap().items.is_empty()
        );
        let config = store_postgres::PostgresConfig::new(&url).unwrap();
        store_postgres::TestSchema::from_config(config).remove().await.unwrap();
    }

    #[tokio::test]
    async fn unsupported_options_are_refused() {
        let (kind, message) =
            refusal(OpenOptions::new().with_durability(Durability::None).open(&url_of_new_schema()).await);
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(message.contains("file:PATH"), "{message}");
    }
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_build_without_the_feature_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("postgres://localhost/x").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `postgres`"), "{message}");
}
