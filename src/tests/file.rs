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
