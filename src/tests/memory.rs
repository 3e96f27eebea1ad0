//! Tests of `memory:`, with its cargo feature and without it.

#[cfg(feature = "memory")]
mod with_feature {
    use store_core::{ErrorKind, Survives, TenantId, ThreadId};

    use crate::{
        Create, Durability, OpenOptions, open,
        tests::{commit_hello, refusal},
    };

    #[tokio::test]
    async fn a_memory_store_has_every_contract_and_keeps_nothing() {
        let (stores, tenant) = (open("memory:").await.unwrap(), TenantId::default_tenant());
        assert_eq!(stores.capabilities().survives, Survives::Nothing);
        assert_eq!(commit_hello(&stores).await.unwrap(), 1);
        let id = ThreadId::new("t").unwrap();
        assert!(stores.threads(&tenant).unwrap().load_thread(&id).await.unwrap().is_some());
        assert_eq!(stores.log_file(&tenant, &id).unwrap(), None);
    }

    #[tokio::test]
    async fn unsupported_options_are_refused() {
        for options in [
            OpenOptions::new().with_durability(Durability::Sync),
            OpenOptions::new().read_only(),
            OpenOptions::new().with_create(Create::Never),
        ] {
            let (kind, message) = refusal(options.open("memory:").await);
            assert_eq!(kind, ErrorKind::Unsupported);
            assert!(message.contains("file:PATH"), "{message}");
        }
    }
}

#[cfg(not(feature = "memory"))]
#[tokio::test]
async fn a_build_without_the_feature_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("memory:").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `memory`"), "{message}");
}
