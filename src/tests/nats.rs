//! Tests of `nats://…`, with its cargo feature and without it.

#[cfg(feature = "nats")]
mod with_feature {
    use std::time::Duration;

    use store_core::{ErrorKind, IdSource, NewDispatch, NewThread, Processes, Store, Survives, TenantId, UuidSource};
    use store_nats::{BufferConfig, NatsConfig, TestPrefix};

    use crate::{Create, Durability, OpenOptions, Stores, open, tests::refusal};

    /// Returns a URL with a prefix that has no streams yet.
    fn url_of_new_prefix(parameters: &str) -> String {
        let server = std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap();
        format!("{server}?prefix=test-{}{parameters}", UuidSource.next_id())
    }

    #[tokio::test]
    async fn the_store_has_a_mailbox_and_nothing_else() {
        let (url, tenant) = (url_of_new_prefix("&assume_sync=true"), TenantId::default_tenant());
        let stores = OpenOptions::new().with_durability(Durability::Sync).open(&url).await.unwrap();
        let capabilities = stores.capabilities();
        assert_eq!(
            (capabilities.survives, capabilities.processes, capabilities.fenced),
            (Survives::Power, Processes::Many, false)
        );
        let work = NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap());
        let answers = stores.mailbox(&tenant).unwrap().enqueue(vec![work]).await.unwrap();
        assert_eq!(answers.len(), 1);
        let error = stores.threads(&tenant).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let parts = stores.tenant(&tenant).unwrap();
        assert!(parts.wake_ups.is_some() && parts.live.is_some());
        stores.close().await.unwrap();
        TestPrefix::from_config(NatsConfig::new(&url).unwrap()).remove().await.unwrap();
    }

    #[tokio::test]
    async fn unsupported_options_are_refused() {
        let unsafe_url = url_of_new_prefix("&allow_unsafe=true");
        for options in [
            OpenOptions::new().with_durability(Durability::None),
            OpenOptions::new().with_durability(Durability::Interval(Duration::from_secs(1))),
            // The URL does not say that the server syncs.
            OpenOptions::new().with_durability(Durability::Sync),
            OpenOptions::new().read_only(),
        ] {
            let (kind, _) = refusal(options.open(&unsafe_url).await);
            assert_eq!(kind, ErrorKind::Unsupported, "{options:?}");
        }
        let never = OpenOptions::new().with_create(Create::Never);
        assert_eq!(refusal(never.open(&unsafe_url).await).0, ErrorKind::SchemaMismatch);
        assert_eq!(refusal(open(&url_of_new_prefix("")).await).0, ErrorKind::UnsafeDurability);
        open(&unsafe_url).await.unwrap().close().await.unwrap();
        never.open(&unsafe_url).await.unwrap().close().await.unwrap();
        TestPrefix::from_config(NatsConfig::new(&unsafe_url).unwrap()).remove().await.unwrap();
    }

    /// Tests NB-10 and CP-3: the buffer makes no other store of its inner store, and everything is in its reach.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_is_opened_behind_a_write_buffer() {
        let servers = url_of_new_prefix("&assume_sync=true");
        let stores = Stores::builder("memory:").buffer(&servers).open().await.unwrap();
        assert_eq!(stores.backend(), "nats+memory");
        let buffer = stores.write_buffer().unwrap();
        assert_eq!(Some(buffer.get_ref().identity()), Some(stores.store().identity()));
        let thread = NewThread::new("t".parse().unwrap());
        stores.threads(&TenantId::default_tenant()).unwrap().create_thread(thread).await.unwrap();
        buffer.drain().await.unwrap();
        let inner = buffer.get_ref().tenant(&TenantId::default_tenant()).unwrap();
        assert!(inner.threads.unwrap().load_thread(&"t".parse().unwrap()).await.unwrap().is_some());
        // A copy has no records to read or to write here.
        assert!(stores.store().tenant(&TenantId::default_tenant()).unwrap().records.is_none());
        let check = stores.check(&TenantId::default_tenant()).await.unwrap();
        let facts: Vec<_> = check.parts[0].facts.iter().map(|fact| fact.name.as_str()).collect();
        assert!(facts.contains(&"buffer: waiting writes") && facts.contains(&"buffer: server"), "{facts:?}");
        assert!(check.is_healthy(), "{check:?}");
        stores.close().await.unwrap();
        let config = BufferConfig::new(NatsConfig::new(&servers).unwrap()).unwrap();
        TestPrefix::from_config(config.servers).remove().await.unwrap();
    }

    #[tokio::test]
    async fn a_buffer_that_cannot_stand_there_is_refused() {
        let servers = url_of_new_prefix("");
        let opened = open("memory:").await.unwrap();
        let (kind, _) = refusal(Stores::builder(&opened).buffer(&servers).open().await);
        assert_eq!(kind, ErrorKind::Invalid);
        let (kind, message) = refusal(Stores::builder("memory:").buffer("postgres://db/work").open().await);
        assert_eq!((kind, message.contains("nats://")), (ErrorKind::Invalid, true), "{message}");
        for inner in ["file:x", "sqlite:x", "nats://one"] {
            let (kind, message) = refusal(Stores::builder(inner).buffer(&servers).open().await);
            assert_eq!((kind, message.contains("write buffer")), (ErrorKind::Unsupported, true), "{message}");
        }
        let url = format!("nats+memory:?buffer={servers}");
        assert_eq!(refusal(OpenOptions::new().read_only().open(&url).await).0, ErrorKind::Unsupported);
    }

    #[tokio::test]
    async fn no_message_shows_a_secret() {
        for url in ["nats://ada:canary@127.0.0.1:1/", "nats://ada:canary@127.0.0.1:1/?colour=canary"] {
            let error = open(url).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        }
    }
}

#[cfg(not(feature = "nats"))]
#[tokio::test]
async fn a_build_without_the_feature_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("nats://localhost").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `nats`"), "{message}");
}
