//! Tests of `postgres://…`, with its cargo feature and without it.

#[cfg(feature = "postgres")]
mod with_feature {
    use store_core::{ErrorKind, IdSource, Survives, TenantId, ThreadFilter, UuidSource};

    use crate::{
        Create, Durability, OpenOptions, Stores,
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

    /// Returns the URL with another address of the same server: a link to the folder of its socket, or a name.
    #[cfg(feature = "memory")]
    fn with_other_address(url: &str, link: &std::path::Path) -> String {
        let socket = url.split(['?', '&']).find_map(|parameter| parameter.strip_prefix("host="));
        match socket.filter(|socket| socket.starts_with('/')) {
            Some(socket) => {
                std::os::unix::fs::symlink(socket, link).unwrap();
                url.replace(socket, &link.display().to_string())
            }
            None if url.contains("127.0.0.1") => url.replace("127.0.0.1", "localhost"),
            None => url.replacen("localhost", "127.0.0.1", 1),
        }
    }

    /// Tests CP-3 and PR-23: two names of one server are one store, with the capability `fenced`. Another schema is
    /// another store, also if it is a copy with the same key.
    #[cfg(feature = "memory")]
    #[tokio::test]
    async fn two_names_of_one_server_are_one_store() {
        let (url, tenant) = (url_of_new_schema(), TenantId::default_tenant());
        let stores = OpenOptions::new().open(&url).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let renamed = with_other_address(&url, &folder.path().join("socket"));
        assert_ne!(url, renamed);
        let [left, right] = [&url, &renamed].map(|url| url.parse::<crate::StoreUrl>().unwrap());
        assert!(!left.is_same_store(&right));
        let fenced = Stores::builder(&url).mailbox(&renamed).open().await.unwrap();
        assert!(fenced.capabilities().fenced);
        let work = store_core::NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap());
        fenced.mailbox(&tenant).unwrap().enqueue(vec![work]).await.unwrap().remove(0).unwrap();
        let queued =
            async |stores: &Stores| stores.mailbox(&tenant).unwrap().count_dispatches(None).await.unwrap().queued;
        assert_eq!(queued(&stores).await, 1);
        assert!(Stores::builder(&stores).mailbox(&fenced).open().await.unwrap().capabilities().fenced);
        let other_url = url_of_new_schema();
        let other = Stores::builder(&url).mailbox(&other_url).open().await.unwrap();
        assert!(!other.capabilities().fenced);
        assert_eq!(queued(&other).await, 0);
        for url in [url, other_url] {
            let config = store_postgres::PostgresConfig::new(&url).unwrap();
            store_postgres::TestSchema::from_config(config).remove().await.unwrap();
        }
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
