//! Tests of `sqlite:PATH`, with its cargo feature and without it.

#[cfg(feature = "sqlite-mailbox")]
mod with_feature {
    use std::time::Duration;

    use store_core::{ErrorKind, NewDispatch, Processes, Survives, TenantId};

    use crate::{Create, Durability, OpenOptions, open, tests::refusal};

    fn url(folder: &tempfile::TempDir) -> String {
        format!("sqlite:{}", folder.path().join("mailbox.db").display())
    }

    #[tokio::test]
    async fn the_store_has_a_mailbox_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (stores, tenant) = (open(&url(&folder)).await.unwrap(), TenantId::default_tenant());
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
        assert!(stores.tenant(&tenant).unwrap().wake_ups().is_some());
        stores.close().await.unwrap();
    }

    #[tokio::test]
    async fn unsupported_options_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for options in [
            OpenOptions::new().with_durability(Durability::None),
            OpenOptions::new().with_durability(Durability::Interval(Duration::from_secs(1))),
            OpenOptions::new().read_only(),
        ] {
            let (kind, _) = refusal(options.open(&url(&folder)).await);
            assert_eq!(kind, ErrorKind::Unsupported, "{options:?}");
        }
        let never = OpenOptions::new().with_create(Create::Never);
        assert_eq!(refusal(never.open(&url(&folder)).await).0, ErrorKind::SchemaMismatch);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        open(&url(&folder)).await.unwrap().close().await.unwrap();
        never.with_durability(Durability::Sync).open(&url(&folder)).await.unwrap().close().await.unwrap();
    }
}

#[cfg(not(feature = "sqlite-mailbox"))]
#[tokio::test]
async fn a_build_without_the_feature_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("sqlite:mailbox.db").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `sqlite-mailbox`"), "{message}");
}
