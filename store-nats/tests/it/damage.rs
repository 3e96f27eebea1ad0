//! Messages that cannot be read (MB-55).

use store_core::{ErrorKind, Limits};

use crate::{
    fixture::{Place, server},
    given::{enqueue, mailbox, request, work},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_cannot_be_read_keeps_no_claim_from_others() {
    let place = Place::new(Limits::default()).await.unwrap();
    let store = place.store().await.unwrap();
    let mailbox = mailbox(&*store);
    for thread in ["first", "damaged", "other"] {
        enqueue(&*mailbox, work(thread)).await.unwrap();
    }
    let first = request().of_thread("first".parse().unwrap());
    let held = mailbox.claim(first).await.unwrap().claimed.remove(0);
    let (prefix, incarnation) = (place.0.config().prefix(), held.number.incarnation);
    let subject = format!("{prefix}.log.thread.tdefault.{incarnation}.tdamaged");
    let client = async_nats::connect(server()).await.unwrap();
    client.request(subject, r#"{"v":1,"by":"somebody","rows":[7]}"#.into()).await.unwrap();
    let claims = mailbox.claim(request().up_to(5)).await.unwrap();
    let claimed: Vec<_> = claims.claimed.iter().map(|held| held.dispatch.thread.as_str()).collect();
    assert_eq!(claimed, ["other"]);
    let unreadable: Vec<_> = claims.unreadable.iter().map(|of| (of.thread.as_str(), of.error.kind())).collect();
    assert_eq!(unreadable, [("damaged", ErrorKind::Corrupt)]);
    // Nobody decides about it, whoever opens the store.
    let beside = place.store().await.unwrap();
    for store in [&store, &beside] {
        let refused = enqueue(&*crate::given::mailbox(&**store), work("damaged")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
}
