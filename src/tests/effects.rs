//! Tests of effects whose store loses answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use async_trait::async_trait;
use store_core::{
    BegunEffect, Document, DocumentQuery, DocumentRef, DocumentStore, EffectEnd, EffectIntent, EffectLayer, EffectName,
    EffectStore, EndEffect, Error, ErrorKind, Json, LayerStore, NewEffect, NewThread, Page, Resolution, ResolveEffect,
    Result, TenantId, WriteDocuments, WrittenDocuments,
};

/// Documents of a store whose next write has an unknown outcome.
struct LosesAnswer {
    inner: Arc<dyn DocumentStore>,
    /// Whether the outcome of the next write is unknown.
    is_next: AtomicBool,
    /// Whether such a write takes effect.
    takes_effect: bool,
}

#[async_trait]
impl DocumentStore for LosesAnswer {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        self.inner.load_documents(documents).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.inner.list_documents(query).await
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        if !self.is_next.swap(false, SeqCst) {
            return self.inner.write_documents(request).await;
        }
        if self.takes_effect {
            let _written = self.inner.write_documents(request).await?;
        }
        Err(Error::commit_unknown(None))
    }
}

async fn bed(takes_effect: bool) -> (EffectLayer, Arc<LosesAnswer>, NewEffect) {
    let stores = crate::open("memory:").await.unwrap().tenant(&TenantId::default_tenant()).unwrap();
    let _thread = stores.threads.as_ref().unwrap().create_thread(NewThread::new("t".parse().unwrap())).await.unwrap();
    let LayerStore { documents, events } = LayerStore::new(&stores).unwrap();
    let documents = Arc::new(LosesAnswer { inner: documents, is_next: AtomicBool::new(false), takes_effect });
    let intent = EffectIntent::new("payment".parse().unwrap(), Json::null());
    let name = EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), "charge".parse().unwrap()).unwrap();
    let shared: Arc<dyn DocumentStore> = Arc::<LosesAnswer>::clone(&documents);
    (EffectLayer::new(LayerStore { documents: shared, events }), documents, NewEffect::new(name, intent))
}

/// Tests EF-1 and EF-2: if the answer to the write is lost, the caller finds its own write, and is told that the effect
/// is new, also after a retry. If there is no such write, it gets the error.
#[tokio::test]
async fn a_lost_answer_leaves_no_effect_in_doubt_that_was_not_performed() {
    let (effects, documents, new) = bed(true).await;
    for attempt in 1..3 {
        documents.is_next.store(true, SeqCst);
        let begun = effects.begin_effect(new.clone()).await.unwrap();
        assert!(matches!(begun, BegunEffect::Fresh(_)), "{begun:?}");
        assert_eq!(effects.load_effect(&new.name).await.unwrap().as_ref(), Some(begun.effect()));
        assert_eq!(begun.effect().attempt, attempt);
        assert!(matches!(effects.begin_effect(new.clone()).await.unwrap(), BegunEffect::InDoubt(_)));
        effects.resolve_effect(ResolveEffect::new(new.name.clone(), Resolution::Retry)).await.unwrap();
    }
    let (effects, documents, new) = bed(false).await;
    documents.is_next.store(true, SeqCst);
    assert_eq!(effects.begin_effect(new.clone()).await.unwrap_err().kind(), ErrorKind::CommitUnknown);
    assert!(matches!(effects.begin_effect(new).await.unwrap(), BegunEffect::Fresh(_)));
}

/// Tests EF-3 and EF-4: after an unknown outcome, the end of an effect is repeated, and has one effect.
#[tokio::test]
async fn an_end_with_an_unknown_outcome_is_repeated() {
    for takes_effect in [true, false] {
        let (effects, documents, new) = bed(takes_effect).await;
        let begun = effects.begin_effect(new.clone()).await.unwrap();
        let end = EndEffect::new(new.name, begun.effect().attempt, EffectEnd::Done(Json::null()));
        documents.is_next.store(true, SeqCst);
        assert_eq!(effects.end_effect(end.clone()).await.unwrap_err().kind(), ErrorKind::CommitUnknown);
        let ended = effects.end_effect(end.clone()).await.unwrap();
        assert_eq!(effects.end_effect(end).await.unwrap(), ended);
    }
}
