//! Tests of `nats://…`, with its cargo feature and without it.

#[cfg(feature = "nats")]
mod with_feature {
    use std::time::Duration;

    use store_core::{ErrorKind, IdSource, NewDispatch, Processes, Survives, TenantId, UuidSource};
    use store_nats::{NatsConfig, TestPrefix};

    use crate::{Create, Durability, OpenOptions, open, tests::refusal};

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
