//! `file:PATH`, with its cargo feature and without.

#[cfg(feature = "file")]
mod with {
    use store_core::{Survives, TenantId, ThreadFilter, ThreadId};

    use crate::{Create, OpenOptions, open, tests::say_hello};

    #[tokio::test]
    async fn it_gives_every_contract_and_names_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let (url, tenant) = (format!("file:{}", folder.path().join("data").display()), TenantId::default_tenant());
        let stores = open(&url).await.unwrap();
        assert_eq!(stores.capabilities().survives, Survives::Power);
        assert_eq!(say_hello(&stores).await.unwrap(), 1);
        let log = stores.log_file(&tenant, &ThreadId::new("t").unwrap()).unwrap().unwrap();
        assert!(std::fs::read_to_string(log).unwrap().contains(r#""text":"hi""#));
        stores.close().await.unwrap();
        let reader = OpenOptions::new().read_only().open(&url).await.unwrap();
        assert_eq!(reader.threads(&tenant).unwrap().count_threads(&ThreadFilter::default()).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn what_is_not_there_is_made_only_if_wanted() {
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
async fn a_build_without_it_says_what_to_do() {
    let (kind, message) = super::refusal(crate::open("file:data").await);
    assert_eq!(kind, store_core::ErrorKind::Unsupported);
    assert!(message.contains("cargo feature `file`"), "{message}");
}
