//! Tests of `file:PATH`, with its cargo feature and without it.

#[cfg(feature = "file")]
mod with_feature {
    use store_core::{Survives, TenantId, ThreadFilter, ThreadId};

    use crate::{Create, OpenOptions, open, tests::commit_hello};

    #[tokio::test]
    async fn a_file_store_has_every_contract_and_returns_its_log_files() {
        let folder = tempfile::tempdir().unwrap();
        let (url, tenant) = (format!("file:{}", folder.path().join("data").display()), TenantId::default_tenant());
        let stores = open(&url).await.unwrap();
        assert_eq!(stores.capabilities().survives, Survives::Power);
        assert_eq!(commit_hello(&stores).await.unwrap(), 1);
        let log = stores.log_file(&tenant, &ThreadId::new("t").unwrap()).unwrap().unwrap();
        assert!(std::fs::read_to_string(log).unwrap().contains(r#""text":"hi""#));
        stores.close().await.unwrap();
        let reader = OpenOptions::new().read_only().open(&url).await.unwrap();
        assert_eq!(reader.threads(&tenant).unwrap().count_threads(&ThreadFilter::default()).await.unwrap(), 1);
    }

    /// Tests CP-3: if both URLs lead to one folder, the store is opened once, with the capability `fenced`.
    #[tokio::test]
    async fn two_urls_of_the_same_folder_open_one_store() {
        use store_core::NewDispatch;

        let (folder, tenant) = (tempfile::tempdir().unwrap(), TenantId::default_tenant());
        let url = |path: &str| format!("file:{}", folder.path().join(path).display());
        let options = OpenOptions::new();
        let one_store = options.open_with_mailbox(&url("data"), &url("data/../data")).await.unwrap();
        assert!(one_store.capabilities().fenced);
        let work = vec![NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap())];
        one_store.mailbox(&tenant).unwrap().enqueue(work.clone()).await.unwrap().remove(0).unwrap();
        let two_stores = options.open_with_mailbox(&url("data"), &url("queue")).await.unwrap();
        assert!(!two_stores.capabilities().fenced);
        assert_eq!(two_stores.mailbox(&tenant).unwrap().count_dispatches(None).await.unwrap().queued, 0);
        let combined_with_itself = one_store.clone().with_mailbox(&one_store).unwrap();
        assert!(combined_with_itself.capabilities().fenced);
        assert_eq!(combined_with_itself.mailbox(&tenant).unwrap().count_dispatches(None).await.unwrap().queued, 1);
        let memory = options.open_with_mailbox("memory:", "memory:").await;
        #[cfg(feature = "memory")]
        assert!(memory.unwrap().capabilities().fenced);
        #[cfg(not(feature = "memory"))]
        assert!(memory.is_err());
        two_stores.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_missing_store_is_created_only_if_the_options_allow_it() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", folder.path().join("data").display());
        for options in [OpenOptions::new().with_create(Create::Never), OpenOptions::new().read_only()] {
            assert!(options.open(&url).await.is_err(), "{options:?}");
            assert!(!folder.path().join("data").exists(), "{options:?}");
        }
        open(&url).await.unwrap().close().await.unwrap();
        assert!(OpenOptions::new().with_create(Create::Never).open(&url).await.is_ok());
    }
}

#[cfg(not(feature = "file"))]
#[tokio::test]
async fn a_build_without_the_feature_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("file:data").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `file`"), "{message}");
}
