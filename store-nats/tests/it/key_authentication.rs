//! Clients that prove their identity by signing the server's challenge (NA-8). They sign with an NKey, or with the key
//! of a user for whom an account has signed a JWT. The secrets that are refused have `canary` in their texts or in the
//! names of their files, and no error may show this word.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use nkeys::{KeyPair, KeyPairType};
use serde_json::{Value, json};
use test_servers::Nats;

use crate::access::{expect_refused, expect_works_after_restart};

/// Returns a key pair of this kind. The same number always gives the same key pair.
fn key_pair(kind: KeyPairType, number: u8) -> KeyPair {
    KeyPair::new_from_raw(kind, [number; 32]).unwrap()
}

/// A folder for files with secrets.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("agentstore-nats-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write_file(&self, name: &str, text: &str) -> String {
        let file = self.0.join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nkey_signs_every_connection() {
    let (known, unknown) = (key_pair(KeyPairType::User, 1), key_pair(KeyPairType::User, 2));
    let mut server =
        Nats::start(&format!("authorization {{ users: [ {{ nkey: {} }} ] }}", known.public_key())).unwrap();
    let (host, folder) = (server.url(), Folder::new("nkey"));
    let [known, unknown] =
        [("known", known), ("canary", unknown)].map(|(name, key)| folder.write_file(name, &key.seed().unwrap()));
    expect_works_after_restart(&mut server, &format!("{host}?nkey={known}")).await;
    expect_refused(&format!("{host}?nkey={unknown}")).await;
    expect_refused(&format!("{host}?nkey={}", folder.write_file("no-key", "canary"))).await;
    expect_refused(&format!("{host}?nkey={}", folder.0.join("missing").display())).await;
}

/// Returns a token in which `issuer` makes statements about `subject`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, statements: &Value) -> String {
    let part = |value: &Value| BASE64.encode(value.to_string());
    let header = part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let claims = json!({
        "jti": "test", "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": "test",
        "nats": statements,
    });
    let signed = format!("{header}.{}", part(&claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64.encode(signature))
}

/// Returns the limits of an account, all of them unlimited.
fn unlimited_account_limits() -> Value {
    let names = ["subs", "data", "payload", "imports", "exports", "conn", "leaf"];
    let jetstream = ["mem_storage", "disk_storage", "streams", "consumer"];
    let limits = names.iter().chain(&jetstream).map(|name| ((*name).to_owned(), json!(-1)));
    Value::Object(limits.chain([("wildcards".to_owned(), json!(true))]).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_credentials_is_used_for_every_connection() {
    let operator = key_pair(KeyPairType::Operator, 1);
    let [account, system, unknown_account] = [1, 2, 3].map(|number| key_pair(KeyPairType::Account, number));
    let user = key_pair(KeyPairType::User, 1);
    let account_jwt = |account: &KeyPair, limits: Value| {
        jwt(&operator, account, &json!({ "type": "account", "version": 2, "limits": limits }))
    };
    let user_statements = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    // The system account must have no JetStream.
    let mut no_streams = unlimited_account_limits();
    for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
        no_streams[name] = json!(0);
    }
    let settings = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}\n",
        jwt(&operator, &operator, &json!({ "type": "operator", "version": 2 })),
        system.public_key(),
        account.public_key(),
        account_jwt(&account, unlimited_account_limits()),
        system.public_key(),
        account_jwt(&system, no_streams),
    );
    let mut server = Nats::start(&settings).unwrap();
    let (host, folder) = (server.url(), Folder::new("creds"));
    let credentials_file = |name: &str, issuer: &KeyPair| {
        let (jwt, seed) = (jwt(issuer, &user, &user_statements), user.seed().unwrap());
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        folder.write_file(name, &text)
    };
    expect_works_after_restart(&mut server, &format!("{host}?creds={}", credentials_file("user.creds", &account)))
        .await;
    // Credentials of an account that the operator does not know are refused, and so are missing credentials.
    expect_refused(&format!("{host}?creds={}", credentials_file("canary.creds", &unknown_account))).await;
    expect_refused(&host).await;
}
