//! The two streams of a store: how they are created, and which settings are refused because accepted messages could be
//! lost (NA-3, NA-5).

use serde_json::{Value, json};
use store_core::{Detail, Error, Outcome, Result, SchemaRemedy, StoreIdentity, Survives};
use tokio::time::{Instant, sleep};

use crate::{
    codec::StoreMetadata,
    config::{Create, NatsConfig},
    connection::{Connection, RETRY_DELAY, StreamInfo},
    error::RequestKind,
    server_names::LogSubject,
};

/// What an opening learns from the streams.
pub(crate) struct OpenedStreams {
    pub(crate) meta: StoreMetadata,
    pub(crate) identity: StoreIdentity,
    pub(crate) survives: Survives,
}

/// Creates missing streams, and checks existing ones.
pub(crate) async fn open(connection: &Connection, config: &NatsConfig) -> Result<OpenedStreams> {
    let names = &connection.names;
    let (mut replicas, mut created_at) = (u64::MAX, String::new());
    for (name, subjects) in
        [(names.log_stream(), names.all_log_subjects()), (names.data_stream(), names.all_data_subjects())]
    {
        let info = ensure_stream(connection, config, &name, &subjects).await?;
        check_usable(&info.config, &name, &subjects)?;
        if !config.allow_unsafe {
            check_durability(&info.config)?;
        }
        replicas = replicas.min(info.config.get("num_replicas").and_then(Value::as_u64).unwrap_or_default());
        created_at = format!("{created_at} {}", info.created);
    }
    // Clients cannot read whether servers sync. A single server that does not sync may lose accepted messages.
    if replicas <= 1 && !config.assume_sync && !config.allow_unsafe {
        return Err(unsafe_setting("sync_interval", "assume_sync"));
    }
    let survives = if config.assume_sync { Survives::Power } else { Survives::Process };
    let meta = load_or_create_meta(connection).await?;
    let identity = meta.cursor_key.identity(&format!("nats {} {created_at}", config.prefix));
    Ok(OpenedStreams { meta, identity, survives })
}

/// Returns the leader's report on a stream. If the stream does not exist, creates it.
pub(crate) async fn ensure_stream(
    connection: &Connection,
    config: &NatsConfig,
    name: &str,
    subjects: &str,
) -> Result<StreamInfo> {
    let settings = json!({
        "name": name,
        "subjects": [subjects],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": config.replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": -1,
        "allow_direct": false,
    });
    let started_at = Instant::now();
    loop {
        match connection.stream_info(name).await? {
            Ok((_, info)) => return Ok(info),
            Err(refusal) if refusal.is_not_found() && config.create == Create::Never => {
                return Err(Error::schema_mismatch("none", "streams created by agentstore", SchemaRemedy::Create));
            }
            Err(refusal) if refusal.is_not_found() => {}
            Err(refusal) => return Err(refusal.into()),
        }
        let error = match connection
            .call_api::<Value>(&format!("STREAM.CREATE.{name}"), &settings, RequestKind::Change)
            .await
        {
            // Another process may have created the stream at the same time, or not all servers know it yet.
            Ok(Ok(_)) => Error::unavailable("the stream was created, but cannot be found"),
            Ok(Err(refusal)) if refusal.is_stream_name_in_use() => {
                Error::unavailable("the stream exists, but cannot be found")
            }
            Ok(Err(refusal)) if refusal.is_cluster_starting() => refusal.into(),
            Ok(Err(refusal)) => return Err(refusal.into()),
            Err(error) if error.is_retryable() || error.outcome() == Outcome::Unknown => error,
            Err(error) => return Err(error),
        };
        if started_at.elapsed() > connection.answer_timeout {
            return Err(error);
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Refuses a stream of another application with the same name, and a stream that refuses writes or removals.
fn check_usable(config: &Value, name: &str, subjects: &str) -> Result<()> {
    let is_set = |name: &str| config.get(name).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
    let unusable_setting =
        ["mirror", "sources", "sealed", "deny_delete", "deny_purge", "no_ack"].into_iter().find(|name| is_set(name));
    let found = match (config.get("subjects") == Some(&json!([subjects])), unusable_setting) {
        (true, None) => return Ok(()),
        (true, Some(setting)) => format!("a stream `{name}` with `{setting}`"),
        (false, _) => format!("a stream `{name}` with other subjects"),
    };
    Err(Error::schema_mismatch(found, "streams created by agentstore", SchemaRemedy::Release))
}

/// Refuses a stream that may drop or lose accepted messages.
fn check_durability(config: &Value) -> Result<()> {
    match unsafe_stream_settings(config).next() {
        Some(setting) => Err(unsafe_setting(setting, "allow_unsafe")),
        None => Ok(()),
    }
}

/// Returns the settings with which a stream may drop or lose accepted messages. A missing setting counts as unsafe,
/// except the maximum age and settings that older servers do not have.
pub(crate) fn unsafe_stream_settings(config: &Value) -> impl Iterator<Item = &'static str> {
    let has_value = |name: &str, value: &str| config.get(name).and_then(Value::as_str) == Some(value);
    let number = |name: &str| config.get(name).and_then(Value::as_i64);
    let checks: [(&'static str, bool); 7] = [
        ("storage", has_value("storage", "file")),
        ("discard", has_value("discard", "new")),
        ("retention", has_value("retention", "limits")),
        // Without this setting there is no maximum age.
        ("max_age", number("max_age").is_none_or(|age| age == 0)),
        ("max_msgs_per_subject", number("max_msgs_per_subject").is_some_and(|max_messages| max_messages <= 0)),
        ("allow_msg_ttl", config.get("allow_msg_ttl").is_none_or(|allowed| *allowed == Value::Bool(false))),
        ("persist_mode", !has_value("persist_mode", "async")),
    ];
    checks.into_iter().filter(|(_, is_safe)| !is_safe).map(|(setting, _)| setting)
}

fn unsafe_setting(setting: &'static str, option: &'static str) -> Error {
    Error::new(Detail::UnsafeDurability { setting: setting.into(), option: option.into() })
}

/// Returns the data shared by all processes that have the store open. The first opening of the store creates it.
async fn load_or_create_meta(connection: &Connection) -> Result<StoreMetadata> {
    let (stream, subject) = (connection.names.log_stream(), connection.names.subject_text(&LogSubject::Meta));
    let started_at = Instant::now();
    let text = loop {
        if let Some((_, text)) = connection.load_last(&stream, &subject).await? {
            break text;
        }
        if started_at.elapsed() > connection.answer_timeout {
            return Err(Error::unavailable("the streams were removed, or another application uses their names"));
        }
        match connection.write_if_last(subject.clone(), 0, StoreMetadata::generate()?).await {
            // The next round shows whether the data was written.
            Err(error) if error.outcome() != Outcome::Unknown => return Err(error),
            _ => {}
        }
    };
    StoreMetadata::parse(&text).map_err(|error| {
        let (found, supported) = (format!("a store whose settings cannot be read: {error}"), "version 1".to_owned());
        Error::schema_mismatch(found, supported, SchemaRemedy::Release)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use store_core::Detail;

    use super::check_durability;

    fn settings_with(name: &str, value: Value) -> Value {
        let mut config = json!({
            "storage": "file", "discard": "new", "retention": "limits", "max_age": 0, "max_msgs_per_subject": -1,
        });
        config[name] = value;
        config
    }

    #[test]
    fn stream_settings_that_may_lose_data_are_refused() {
        assert!(check_durability(&settings_with("name", json!("x"))).is_ok());
        for (name, value) in [
            ("storage", json!("memory")),
            ("storage", Value::Null),
            ("discard", json!("old")),
            ("retention", json!("workqueue")),
            ("max_age", json!(1)),
            ("max_msgs_per_subject", json!(1)),
            ("allow_msg_ttl", json!(true)),
            ("persist_mode", json!("async")),
        ] {
            let error = check_durability(&settings_with(name, value)).unwrap_err();
            let Detail::UnsafeDurability { setting, .. } = error.detail() else { panic!("{error}") };
            assert_eq!(setting, name);
        }
    }
}
