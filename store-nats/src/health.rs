//! The state of a store: the versions, the settings of its streams, their replicas, the leader's clock, and the storage
//! that the account may use.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use store_core::{
    Clock as _, Result, SystemClock, Timestamp,
    health::{ClockReading, Finding, StoreHealth},
};

use crate::{
    config::NatsConfig,
    connection::{Connection, Replica, StreamInfo},
    error::RequestKind,
    log::Log,
    streams::unsafe_stream_settings,
};

/// What the server reports about the account.
#[derive(Deserialize)]
struct AccountInfo {
    #[serde(default)]
    storage: u64,
    #[serde(default)]
    limits: AccountLimits,
}

#[derive(Deserialize, Default)]
struct AccountLimits {
    /// Negative if there is no limit.
    #[serde(default)]
    max_storage: i64,
}

pub(crate) async fn health(log: &Arc<Log>, config: &NatsConfig) -> Result<StoreHealth> {
    log.catch_up().await?;
    of_servers(&log.connection, config, &|| log.now()).await
}

/// Reads the state of the servers and of the streams with the prefix of `config`. `now` returns the time of the store
/// after the leader has reported its own.
pub(crate) async fn of_servers(
    connection: &Connection,
    config: &NatsConfig,
    now: &(dyn Fn() -> Result<Timestamp> + Send + Sync),
) -> Result<StoreHealth> {
    let names = &connection.names;
    let server = connection.client.server_info();
    let mut health = StoreHealth::new()
        .with("library", env!("CARGO_PKG_VERSION"))
        .with("server", server.version)
        .with("cluster", server.cluster.unwrap_or_else(|| "none".to_owned()))
        .with("max_payload", server.max_payload.to_string())
        .with("assume_sync", config.assume_sync.to_string());
    let mut replicas = u64::MAX;
    for stream in [names.data_stream(), names.log_stream()] {
        let asked_at = SystemClock.now();
        // The answer contains the time of the leader.
        let (_, info) = connection.stream_info(&stream).await??;
        health = health.with_clock(ClockReading::new(asked_at, now()?, SystemClock.now()));
        let count = info.config.get("num_replicas").and_then(Value::as_u64).unwrap_or_default();
        replicas = replicas.min(count);
        health = add_stream(health, &stream, &info, count);
    }
    health = health.finding(check_sync(replicas, config));
    let account = connection.call_api::<AccountInfo>("INFO", &Value::Null, RequestKind::Read).await?;
    let free = account.ok().and_then(|account| free_bytes(&account));
    Ok(health.with_free_bytes(free))
}

fn add_stream(health: StoreHealth, stream: &str, info: &StreamInfo, replicas: u64) -> StoreHealth {
    let setting = |name: &str| info.config.get(name).map_or_else(|| "not set".to_owned(), ToString::to_string);
    let mut health = health.with(format!("{stream}: bytes"), info.bytes().to_string());
    for name in ["storage", "discard", "retention", "max_age", "max_msgs_per_subject", "max_bytes"] {
        health = health.with(format!("{stream}: {name}"), setting(name).trim_matches('"'));
    }
    health = health.with(format!("{stream}: replicas"), replicas.to_string());
    for name in unsafe_stream_settings(&info.config) {
        health = health.finding(Finding::problem(
            name,
            format!(
                "the stream `{stream}` has `{name}` = {}: the servers may drop or lose what they accepted",
                setting(name)
            ),
            format!("set it as agentstore does when it creates a stream, with `nats stream edit {stream}`"),
        ));
    }
    if info.config.get("max_bytes").and_then(Value::as_i64).is_some_and(|max| max > 0) {
        let text = format!("the stream `{stream}` has a limit on its bytes: above it, every write is refused");
        health = health.finding(Finding::note("max_bytes", text, "raise the limit before the stream reaches it"));
    }
    info.replicas().iter().filter_map(|replica| check_replica(stream, replica)).fold(health, StoreHealth::finding)
}

fn check_replica(stream: &str, replica: &Replica) -> Option<Finding> {
    let about = |what| format!("the replica of `{stream}` on the server `{}` {what}", replica.name);
    if replica.offline {
        let text = about("is offline: if one more server fails, the store may stop");
        return Some(Finding::problem("replicas", text, "start the server again, or replace it"));
    }
    let advice = "if it does not catch up soon, look at the disk and the network of that server";
    (!replica.current).then(|| Finding::note("replicas", about("is behind the leader"), advice))
}

fn check_sync(replicas: u64, config: &NatsConfig) -> Option<Finding> {
    if config.assume_sync {
        return None;
    }
    if replicas <= 1 {
        let text = "one server stores each message, and does not sync it as far as is known: a power cut loses \
            acknowledged work";
        let advice = "set `sync_interval: always` on the server and add `assume_sync=true` to the URL, or use \
            `replicas=3`";
        return Some(Finding::problem("sync_interval", text, advice));
    }
    let text = "the servers do not sync each message as far as is known: a power cut of most of them loses \
        acknowledged work";
    Some(Finding::note("sync_interval", text, "keep the servers in different places, or set `sync_interval: always`"))
}

fn free_bytes(account: &AccountInfo) -> Option<u64> {
    let max = u64::try_from(account.limits.max_storage).ok().filter(|max| *max > 0)?;
    Some(max.saturating_sub(account.storage))
}

#[cfg(test)]
mod tests {
    use store_core::health::Severity;

    use super::{AccountInfo, check_replica, check_sync, free_bytes};
    use crate::{config::NatsConfig, connection::Replica};

    #[test]
    fn servers_that_may_not_sync_are_found() {
        let severity =
            |url: &str, replicas| check_sync(replicas, &NatsConfig::new(url).unwrap()).map(|finding| finding.severity);
        assert_eq!(severity("nats://one/?allow_unsafe=true", 1), Some(Severity::Problem));
        assert_eq!(severity("nats://one", 3), Some(Severity::Note));
        assert_eq!(severity("nats://one/?assume_sync=true", 1), None);
    }

    #[test]
    fn replicas_that_are_missing_or_behind_are_found() {
        let severity = |text: &str| {
            let replica: Replica = serde_json::from_str(text).unwrap();
            check_replica("s", &replica).map(|finding| finding.severity)
        };
        assert_eq!(severity(r#"{"name":"b","current":true}"#), None);
        assert_eq!(severity(r#"{"name":"b","current":false,"lag":7}"#), Some(Severity::Note));
        assert_eq!(severity(r#"{"name":"b","current":false,"offline":true}"#), Some(Severity::Problem));
    }

    #[test]
    fn the_limit_of_the_account_is_the_space() {
        let free = |text: &str| free_bytes(&serde_json::from_str::<AccountInfo>(text).unwrap());
        assert_eq!(free(r#"{"storage":5,"limits":{"max_storage":-1}}"#), None);
        assert_eq!(free(r#"{"storage":5,"limits":{"max_storage":12}}"#), Some(7));
        assert_eq!(free(r#"{"storage":15,"limits":{"max_storage":12}}"#), Some(0));
        assert_eq!(free("{}"), None);
    }
}
