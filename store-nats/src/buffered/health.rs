//! The state of a buffer and of the store behind it.

use store_core::{
    Result, Store,
    health::{Finding, StoreHealth},
};

use super::{shared::Shared, store::BufferStatus};
use crate::health;

/// The age in milliseconds above which a waiting write is noted: many times the flush interval.
const NOTED_AGE_MS: u64 = 60_000;

/// Returns the health of the inner store, with the facts and findings about the buffer and its servers.
pub(crate) async fn health(inner: &dyn Store, shared: &Shared, status: BufferStatus) -> Result<StoreHealth> {
    let mut health = inner.health().await?;
    let connection = &shared.stream.connection;
    let servers = health::of_servers(connection, &shared.config.servers, &|| connection.clock.now()).await?;
    health.free_bytes = [health.free_bytes, servers.free_bytes].into_iter().flatten().min();
    for fact in servers.facts {
        health = health.with(format!("buffer: {}", fact.name), fact.value);
    }
    for mut finding in servers.findings {
        finding.about = format!("buffer: {}", finding.about);
        health = health.finding(finding);
    }
    let health = health
        .with("buffer", &status.buffer)
        .with("buffer: waiting writes", status.waiting.to_string())
        .with("buffer: waiting bytes", status.waiting_bytes.to_string())
        .with("buffer: writes in quarantine", status.quarantined.to_string())
        .with("buffer: oldest waiting", status.oldest_ms.map_or_else(|| "none".to_owned(), |ms| format!("{ms} ms")));
    Ok(check_lag(&status).into_iter().fold(health, StoreHealth::finding))
}

fn check_lag(status: &BufferStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    if status.quarantined > 0 {
        let text = format!(
            "{} acknowledged writes are in quarantine, because the inner store refused them: their threads accept no \
             writes",
            status.quarantined
        );
        let advice =
            "look at them with `agentstore buffer quarantine list`, mend the cause, then retry or discard them";
        findings.push(Finding::problem("buffer: quarantine", text, advice));
    }
    if let Some(error) = &status.last_error {
        let text = format!("the inner store takes no writes from the buffer: {error}");
        let advice = "mend the inner store; what was acknowledged waits in the stream until then";
        findings.push(Finding::problem("buffer", text, advice));
    } else if let Some(age) = status.oldest_ms.filter(|age| *age > NOTED_AGE_MS) {
        let text = format!("{} writes wait to be applied, the oldest for {} s", status.waiting, age / 1_000);
        findings.push(Finding::note("buffer", text, "look for load on the inner store, or raise `batch`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use store_core::health::Severity;

    use super::{BufferStatus, check_lag};

    /// Tests NB-7 and NB-10.
    #[test]
    fn writes_that_wait_for_long_and_failed_flushes_are_found() {
        let severity = |oldest_ms, error: Option<&str>, quarantined| {
            let last_error = error.map(str::to_owned);
            let status = BufferStatus { waiting: 3, oldest_ms, last_error, quarantined, ..BufferStatus::default() };
            check_lag(&status).first().map(|finding| finding.severity)
        };
        assert_eq!(severity(None, None, 0), None);
        assert_eq!(severity(Some(60_000), None, 0), None);
        assert_eq!(severity(Some(60_001), None, 0), Some(Severity::Note));
        assert_eq!(severity(Some(1), Some("away"), 0), Some(Severity::Problem));
        assert_eq!(severity(None, None, 1), Some(Severity::Problem));
    }
}
