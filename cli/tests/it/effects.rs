//! `effects`: what runs did outside of the store is listed and shown, and doubts are resolved.

use agentstore::{
    BegunEffect, Effect, EffectEnd, EffectIntent, EffectName, Json, NewEffect, NewThread, OpenOptions, TenantId,
};
use serde_json::json;

use crate::{
    helpers::{TestStore, value_at},
    postgres::on_files_and_postgres,
};

/// Begins three effects of the run `r` of the thread `t`: `charge` has an unknown outcome, `mail` is done, and `refund`
/// was only begun.
fn begin_effects(store: &TestStore) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (stores, tenant) = (OpenOptions::new().open(store.url()).await.unwrap(), TenantId::default_tenant());
        let thread = NewThread::new("t".parse().unwrap());
        let _thread = stores.threads(&tenant).unwrap().create_thread(thread).await.unwrap();
        let effects = stores.effects(&tenant).unwrap();
        let unknown = EffectEnd::Unknown("no answer after 30 s".to_owned());
        for (id, end) in [("charge", Some(unknown)), ("mail", Some(EffectEnd::Done(Json::null()))), ("refund", None)] {
            let name = EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), id.parse().unwrap()).unwrap();
            let intent = EffectIntent::new("payment".parse().unwrap(), Json::parse(r#"{"cents":500}"#).unwrap());
            let begun = effects.begin_effect(NewEffect::new(name, intent.in_step(2))).await.unwrap();
            let BegunEffect::Fresh(Effect { name, attempt, .. }) = begun else { panic!("{begun:?}") };
            if let Some(end) = end {
                effects.end_effect(agentstore::EndEffect::new(name, attempt, end)).await.unwrap();
            }
        }
        stores.close().await.unwrap();
    });
}

/// Returns the arguments with which Ada resolves the effect `charge`.
fn resolve_charge<'a>(how: &[&'a str]) -> Vec<&'a str> {
    [&["effects", "resolve", "t", "r", "charge", "--actor", "user:ada"], how].concat()
}

/// Returns the ids and statuses of the effects that a list has.
fn listed(store: &TestStore, args: &[&str]) -> Vec<String> {
    let list = store.json(&[&["effects", "list"], args].concat());
    let effects = value_at(&list, "/effects").as_array().unwrap().iter();
    effects
        .map(|effect| format!("{} {}", value_at(effect, "/name/id"), value_at(effect, "/status")).replace('"', ""))
        .collect()
}

/// Tests EF-5 for the command: effects are listed, those in doubt first, and shown.
#[test]
fn effects_are_listed_and_shown() {
    on_files_and_postgres(|store| {
        begin_effects(store);
        assert_eq!(listed(store, &[]), ["charge unknown", "refund intended", "mail done"]);
        assert_eq!(listed(store, &["--in-doubt"]), ["charge unknown", "refund intended"]);
        assert_eq!(listed(store, &["--thread", "t", "--run", "r", "--status", "done"]), ["mail done"]);
        assert_eq!(listed(store, &["--thread", "u"]), Vec::<String>::new());
        let response = store.run(&["effects", "list"]).expect_success().out;
        assert!(response.starts_with("thread run effect ") && response.contains("t r charge"), "{response}");
        assert!(response.contains("no answer after 30 s"), "{response}");
        assert!(store.run(&["effects", "list", "--thread", "u"]).expect_success().out.contains("no such effects"));

        let response = store.run(&["effects", "show", "t", "r", "charge"]).expect_success().out;
        let document = store.json(&["effects", "show", "t", "r", "charge"]);
        let key = value_at(&document, "/idempotency_key").as_str().unwrap();
        for part in [
            "unknown: it may have happened",
            "no answer after 30 s",
            "attempt          1, step 2",
            key,
            "\"cents\": 500",
        ] {
            assert!(response.contains(part), "{part}: {response}");
        }
        assert_eq!(value_at(&document, "/name"), &json!({"thread": "t", "run": "r", "id": "charge"}));
        assert_eq!((value_at(&document, "/kind"), value_at(&document, "/step")), (&json!("payment"), &json!(2)));
        let missing = store.run(&["effects", "show", "t", "r", "other"]);
        missing.expect_failure(1, &["effect `t/r/other` does not exist", "agentstore effects list"]);
    });
}

/// Tests EF-6 and AU-1 for the command: a person says what became of an effect, after a question, and the audit log
/// says who did.
#[test]
fn a_person_resolves_doubts() {
    on_files_and_postgres(|store| {
        begin_effects(store);
        let response = store.run_with_input(&resolve_charge(&["--retry"]), "n\n");
        assert_eq!(response.code, 1, "{response:?}");
        assert!(
            response.err.contains("perform it again?") && response.err.contains("nothing was done"),
            "{response:?}"
        );
        assert_eq!(listed(store, &["--in-doubt"]), ["charge unknown", "refund intended"]);
        let response = store.run_with_input(&resolve_charge(&["--retry"]), "y\n");
        assert_eq!(response.code, 0, "{response:?}");
        let out = &response.out;
        assert!(out.contains("it may have happened") && out.contains("is retry now, revision"), "{response:?}");

        let revision = value_at(&store.json(&["effects", "show", "t", "r", "charge"]), "/revision").to_string();
        let stale = store.run(&resolve_charge(&["--done", "1", "--yes", "--expect", "1"]));
        stale.expect_failure(1, &["conflict"]);
        let done = store.json(&resolve_charge(&["--done", r#"{"receipt":7.0}"#, "--yes", "--expect", &revision]));
        assert_eq!(
            (value_at(&done, "/status"), value_at(&done, "/outcome")),
            (&json!("done"), &json!({"receipt": 7.0}))
        );
        let again = store.run(&resolve_charge(&["--failed", "\"declined\"", "--yes"]));
        again.expect_failure(1, &["effect `t/r/charge` cannot go from done to failed"]);
        let failed =
            store.run_with_input(&["effects", "resolve", "t", "r", "refund", "--failed", "-", "--yes"], "\"no\"");
        assert!(failed.expect_success().out.contains("t r refund is failed now"));
        assert!(store.run(&["effects", "list", "--in-doubt"]).expect_success().out.contains("no effect is in doubt"));

        let records = store.json(&["audit", "list", "--actor", "user:ada"]);
        let records = value_at(&records, "/records").as_array().unwrap();
        assert_eq!(records.len(), 2);
        assert!(records.iter().all(|record| value_at(record, "/resource") == "effect/t/r/charge"), "{records:?}");
    });
}
