//! Tests of what attempts do to the world outside of the store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use store_core::{
    BegunEffect, Effect, EffectEnd, EffectIntent, EffectName, EffectQuery, EffectStatus, ErrorKind, Json, Message,
    NewEffect, NewEntry, Requeue, Resolution, ResolveEffect, end_changes,
};

use super::{
    new_dispatch, options_without_delays, status_summary,
    test_bed::{TestBed, message_commit},
};
use crate::{Done, Failure, Work, Worker};

/// A receiver outside of the store, with the number of payments that it made for each key.
#[derive(Clone, Default)]
struct Bank {
    payments: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Bank {
    /// Pays, and returns a receipt. The same key again is another payment: the bank recognises nothing.
    fn pay(&self, effect: &Effect) -> Json {
        *self.payments.lock().unwrap().entry(effect.idempotency_key.to_string()).or_default() += 1;
        Json::of("receipt").unwrap()
    }

    fn has_paid(&self, effect: &Effect) -> bool {
        self.payments.lock().unwrap().contains_key(effect.idempotency_key.as_str())
    }

    /// Returns how often the bank paid for each key.
    fn counts(&self) -> Vec<u32> {
        self.payments.lock().unwrap().values().copied().collect()
    }
}

fn payment() -> EffectIntent {
    EffectIntent::new("payment".parse().unwrap(), Json::parse(r#"{"cents":500}"#).unwrap())
}

/// Creates the thread `t` and a dispatch `d` of its run `r`.
async fn give_work(bed: &TestBed, max_attempts: u32) {
    let _thread = bed.commits().commit(message_commit(&"t".parse().unwrap(), "pay")).await.unwrap();
    bed.enqueue([new_dispatch("t", "d").with_max_attempts(max_attempts)]).await;
}

/// Returns the effects of the tenant, each with its status.
async fn listed(bed: &TestBed) -> Vec<String> {
    let effects = bed.stores.effects(&bed.tenant).unwrap();
    let page = effects.list_effects(EffectQuery::default()).await.unwrap();
    page.items.iter().map(|effect| format!("{} {}", effect.name, effect.status)).collect()
}

fn worker(bed: &TestBed, handler: impl crate::Handler) -> Worker {
    Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap()
}

/// Tests EF-3: an effect is performed once, also if the work fails after it. Later attempts get its outcome.
pub(super) async fn an_effect_is_performed_once(bed: &TestBed) {
    give_work(bed, 3).await;
    let bank = Bank::default();
    let handler = {
        let bank = bank.clone();
        move |work: Work| {
            let bank = bank.clone();
            async move {
                let act = async |effect: Effect| Ok(EffectEnd::Done(bank.pay(&effect)));
                let paid = work.perform("charge".parse()?, payment(), act).await?;
                assert_eq!((paid.status, paid.outcome), (EffectStatus::Done, Some(Json::of("receipt")?)));
                if work.attempt() < 3 { Err(Failure::new("later")) } else { Ok(Done::ack()) }
            }
        }
    };
    let summary = worker(bed, handler).run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.acked), (2, 1), "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!((bank.counts(), listed(bed).await), (vec![1], vec!["t/r/charge done".to_owned()]));
}

/// Tests EF-6 and EF-7: after an attempt that ended before or after the payment, the worker asks the bank before it
/// calls the handler. The payment is made once, under one key.
pub(super) async fn a_reconciler_is_asked_before_the_handler_is_called(bed: &TestBed) {
    for has_paid in [false, true] {
        let (run, dispatch) = (format!("r-{has_paid}"), format!("d-{has_paid}"));
        let _thread = bed.commits().commit(message_commit(&"t".parse().unwrap(), "pay")).await.unwrap();
        let mut work = new_dispatch("t", &dispatch);
        work.run = run.parse().unwrap();
        bed.enqueue([work]).await;
        let (bank, asked) = (Bank::default(), Arc::new(AtomicU32::new(0)));
        let handler = {
            let (bank, asked) = (bank.clone(), Arc::clone(&asked));
            move |work: Work| {
                let (bank, asked) = (bank.clone(), Arc::clone(&asked));
                async move {
                    if work.attempt() == 1 {
                        let begun = work.effect("charge".parse()?, payment()).await?;
                        assert!(matches!(begun, BegunEffect::Fresh(_)));
                        if has_paid {
                            bank.pay(begun.effect());
                        }
                        return Err(Failure::new("the attempt ends here"));
                    }
                    assert_eq!((asked.load(SeqCst), work.effects_in_doubt()), (1, vec![]));
                    let act = async |effect: Effect| {
                        assert_eq!((has_paid, effect.attempt), (false, 2));
                        Ok(EffectEnd::Done(bank.pay(&effect)))
                    };
                    let paid = work.perform("charge".parse()?, payment(), act).await?;
                    assert_eq!(paid.status, EffectStatus::Done);
                    Ok(Done::ack())
                }
            }
        };
        let reconciler = {
            let (bank, asked) = (bank.clone(), Arc::clone(&asked));
            move |effect: Effect| {
                asked.fetch_add(1, SeqCst);
                let found = if bank.has_paid(&effect) { Resolution::Done(Json::null()) } else { Resolution::Retry };
                async move { Ok::<_, Failure>(Some(found)) }
            }
        };
        let worker = worker(bed, handler).with_reconciler("payment".parse().unwrap(), reconciler);
        let summary = worker.run_until_idle().await.unwrap();
        assert_eq!((summary.retried, summary.acked), (1, 1), "{:?}", bed.load_dispatch(&dispatch).await.last_error);
        assert_eq!((bank.counts(), asked.load(SeqCst)), (vec![1], 1));
    }
}

/// Tests EF-7: an effect that no reconciler resolves is handed to the handler. Until it is resolved, no other effect of
/// the run begins.
pub(super) async fn an_effect_in_doubt_is_handed_to_the_handler(bed: &TestBed) {
    give_work(bed, 3).await;
    let handler = |work: Work| async move {
        let charge = work.effect("charge".parse()?, payment()).await?;
        if work.attempt() == 1 {
            assert!(matches!(charge, BegunEffect::Fresh(_)) && work.effects_in_doubt().is_empty());
            // Effects of one attempt do not wait for each other.
            let mail = work.effect("mail".parse()?, payment()).await?;
            work.end_effect(mail.effect(), EffectEnd::Done(Json::null())).await?;
            return Err(Failure::new("the attempt ends here"));
        }
        let BegunEffect::InDoubt(found) = charge else { panic!("{charge:?}") };
        assert_eq!(work.effects_in_doubt(), std::slice::from_ref(&found));
        assert_eq!((found.attempt, found.claim.is_some_and(|claim| claim < work.claim_number())), (1, true));
        let refused = work.effect("refund".parse()?, payment()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidTransition);
        assert!(matches!(work.effect("mail".parse()?, payment()).await?, BegunEffect::Finished(_)));
        let resolved = work.resolve_effect(&found, Resolution::Done(Json::null())).await?;
        assert_eq!((resolved.status, work.effects_in_doubt()), (EffectStatus::Done, vec![]));
        assert_eq!(work.resolve_effect(&found, Resolution::Retry).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(matches!(work.effect("refund".parse()?, payment()).await?, BegunEffect::Fresh(_)));
        Ok(Done::ack())
    };
    let summary = worker(bed, handler).run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.acked), (1, 1), "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!(listed(bed).await, ["t/r/refund intended", "t/r/charge done", "t/r/mail done"]);
}

/// Tests EF-6 and EF-7: a payment that fails without an answer is listed in doubt, with the reason, and is not made
/// again. Once a person has resolved it, the work goes on.
pub(super) async fn a_person_ends_a_doubt(bed: &TestBed) {
    give_work(bed, 2).await;
    let bank = Bank::default();
    let handler = {
        let bank = bank.clone();
        move |work: Work| {
            let bank = bank.clone();
            async move {
                let act = async |effect: Effect| {
                    bank.pay(&effect);
                    Err(Failure::new("no answer"))
                };
                let paid = work.perform("charge".parse()?, payment(), act).await?;
                assert_eq!(paid.outcome, Some(Json::of("found by hand")?));
                Ok(Done::ack())
            }
        }
    };
    let summary = worker(bed, handler.clone()).run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.dead_lettered, bank.counts()), (1, 1, vec![1]));
    let error = bed.load_dispatch("d").await.last_error.unwrap();
    assert!(error.contains("effect `t/r/charge` cannot go from unknown to performed"), "{error}");
    let effects = bed.stores.effects(&bed.tenant).unwrap();
    let in_doubt = effects.list_effects(EffectQuery::default().in_doubt()).await.unwrap().items;
    assert_eq!((in_doubt.len(), in_doubt[0].reason.as_deref()), (1, Some("no answer")));
    let found = Resolution::Done(Json::of("found by hand").unwrap());
    effects.resolve_effect(ResolveEffect::new(in_doubt[0].name.clone(), found)).await.unwrap();
    bed.mailbox().requeue(Requeue::ids(["d".parse().unwrap()])).await.unwrap().remove(0).1.unwrap();
    assert_eq!(worker(bed, handler).run_until_idle().await.unwrap().acked, 1);
    assert_eq!(bank.counts(), [1]);
}

/// Tests EF-1 and EF-7: what certainly did not happen is tried again by the next attempt, with the same key. What the
/// receiver refuses is not.
pub(super) async fn what_did_not_happen_is_tried_again(bed: &TestBed) {
    give_work(bed, 3).await;
    let keys = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let keys = Arc::clone(&keys);
        move |work: Work| {
            let keys = Arc::clone(&keys);
            async move {
                let attempt = work.attempt();
                let act = async |effect: Effect| {
                    keys.lock().unwrap().push(effect.idempotency_key.to_string());
                    Ok(if attempt == 1 { EffectEnd::Retry } else { EffectEnd::Failed(Json::of("declined")?) })
                };
                let paid = work.perform("charge".parse()?, payment(), act).await?;
                assert_eq!((attempt >= 2, paid.status, paid.attempt), (true, EffectStatus::Failed, 2));
                if attempt == 2 { Err(Failure::new("later")) } else { Ok(Done::ack()) }
            }
        }
    };
    let summary = worker(bed, handler).run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.acked), (2, 1), "{:?}", bed.load_dispatch("d").await.last_error);
    let keys = keys.lock().unwrap();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

/// Tests EF-3: the commit that carries the result of an effect ends it in the same step, under the claim.
pub(super) async fn a_commit_ends_an_effect(bed: &TestBed) {
    give_work(bed, 2).await;
    let handler = |work: Work| async move {
        match work.effect("charge".parse()?, payment()).await? {
            BegunEffect::Fresh(effect) => {
                let answer = NewEntry::new(Message::assistant("paid"));
                let end = end_changes(&effect, EffectEnd::Done(Json::null()))?;
                let commit = work.new_commit().with_key(work.key("charge")?).entry(answer).with_documents(end);
                let _receipt = work.commits()?.commit(commit).await?;
                Err(Failure::new("the attempt ends here"))
            }
            BegunEffect::Finished(_) => Ok(Done::ack()),
            BegunEffect::InDoubt(effect) => panic!("{effect:?}"),
        }
    };
    let summary = worker(bed, handler).run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.acked), (1, 1), "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!((bed.entry_count("t").await, listed(bed).await), (2, vec!["t/r/charge done".to_owned()]));
}

/// Tests EF-2 and WK-6: once a new attempt has begun, an earlier one begins and ends no effect.
pub(super) async fn an_earlier_attempt_begins_no_effect(bed: &TestBed) {
    give_work(bed, 5).await;
    let lease = std::time::Duration::from_millis(300);
    let earlier = bed.claim_as_other_worker(lease).await.unwrap();
    let effects = bed.stores.effects(&bed.tenant).unwrap();
    let name = |id: &str| EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), id.parse().unwrap()).unwrap();
    let begun = effects.begin_effect(NewEffect::new(name("charge"), payment()).fenced(earlier.fence())).await.unwrap();
    bed.advance(lease).await;
    let handler = {
        let (effects, fence) = (Arc::clone(&effects), earlier.fence());
        let charge = begun.effect().clone();
        move |work: Work| {
            let (effects, fence, charge) = (Arc::clone(&effects), fence.clone(), charge.clone());
            async move {
                assert_eq!(work.effects_in_doubt(), std::slice::from_ref(&charge));
                let late = NewEffect::new(name("mail"), payment()).fenced(fence.clone());
                let done = EffectEnd::Done(Json::null());
                let late_end = store_core::EndEffect::new(charge.name.clone(), 1, done).fenced(fence);
                for error in [effects.begin_effect(late).await.err(), effects.end_effect(late_end).await.err()] {
                    let kind = error.expect("the write was not refused").kind();
                    assert!(matches!(kind, ErrorKind::ClaimLost | ErrorKind::StaleEpoch), "{kind:?}");
                }
                work.resolve_effect(&charge, Resolution::Retry).await?;
                Ok::<_, Failure>(Done::ack())
            }
        }
    };
    assert_eq!(worker(bed, handler).run_until_idle().await.unwrap().acked, 1);
    assert_eq!(listed(bed).await, ["t/r/charge retry"]);
    assert_eq!(status_summary(&bed.load_dispatch("d").await), ("acked", 1, vec!["lease_expired", "acked"]));
}

/// Tests EF-7: while a reconciler fails, the attempts fail, and no handler is called.
pub(super) async fn a_reconciler_that_fails_keeps_the_handler_from_acting(bed: &TestBed) {
    give_work(bed, 5).await;
    let calls = Arc::new(AtomicU32::new(0));
    let handler = {
        let calls = Arc::clone(&calls);
        move |work: Work| {
            let calls = Arc::clone(&calls);
            async move {
                calls.fetch_add(1, SeqCst);
                match work.effect("charge".parse()?, payment()).await? {
                    BegunEffect::Fresh(_) => Err(Failure::new("the attempt ends here")),
                    BegunEffect::Finished(_) => panic!("it is not known"),
                    BegunEffect::InDoubt(effect) => {
                        assert_eq!(work.effects_in_doubt(), [effect]);
                        Ok(Done::ack())
                    }
                }
            }
        }
    };
    let asked = Arc::new(AtomicU32::new(0));
    let reconciler = move |_: Effect| {
        let number = asked.fetch_add(1, SeqCst);
        async move { if number < 2 { Err(Failure::new("no answer")) } else { Ok(None) } }
    };
    let worker = worker(bed, handler).with_reconciler("payment".parse().unwrap(), reconciler);
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.retried, summary.acked), (3, 1), "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!((calls.load(SeqCst), listed(bed).await), (2, vec!["t/r/charge intended".to_owned()]));
}

/// Tests WK-9 and EF-5: maintenance removes old effects that ended, and none in doubt.
pub(super) async fn maintenance_removes_old_effects(bed: &TestBed) {
    let _thread = bed.commits().commit(message_commit(&"t".parse().unwrap(), "pay")).await.unwrap();
    let effects = bed.stores.effects(&bed.tenant).unwrap();
    for id in ["a", "b"] {
        let name = EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), id.parse().unwrap()).unwrap();
        let begun = effects.begin_effect(NewEffect::new(name, payment())).await.unwrap();
        if id == "a" {
            let done = EffectEnd::Done(Json::null());
            let end = store_core::EndEffect::new(begun.effect().name.clone(), 1, done);
            effects.end_effect(end).await.unwrap();
        }
    }
    let hour = std::time::Duration::from_hours(1);
    bed.advance(hour * 2).await;
    let mut retention = crate::Retention::default();
    for (age, dry, removed) in [(None, false, 0), (Some(hour), true, 1), (Some(hour), false, 1), (Some(hour), false, 0)]
    {
        retention.effects = age;
        let maintenance = crate::Maintenance::new(&bed.stores, &bed.tenant).unwrap().with_retention(retention.clone());
        let maintenance = if dry { maintenance.dry() } else { maintenance };
        assert_eq!(maintenance.run_once().await.unwrap().effects, removed, "{age:?} {dry}");
    }
    assert_eq!(listed(bed).await, ["t/r/b intended"]);
}
