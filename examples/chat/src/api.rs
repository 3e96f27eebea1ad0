//! Requests to the HTTP APIs of the providers.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    time::Duration,
};

use agentstore::Json;
use anyhow::{Context, Result, anyhow, bail, ensure};
use providers::Target;
use serde_json::Value;
use ureq::Agent;

use crate::event;

/// The maximum number of bytes that are read from the body of a refusal.
const MAX_REFUSAL_BYTES: u64 = 64 * 1024;

/// The URL of an API, and what a request to it needs besides the body.
pub(crate) struct Endpoint {
    provider: &'static str,
    /// The environment variable for the URL of the server.
    url_variable: &'static str,
    /// The URL of the server if the variable is not set.
    default_url: &'static str,
    /// The path below that URL. `{model}` stands for the model.
    path: &'static str,
    /// The environment variable for the key.
    key_variable: &'static str,
    /// The headers. `{key}` stands for the key.
    headers: &'static [(&'static str, &'static str)],
    /// The fields of each request that do not belong to the history.
    pub(crate) settings: &'static str,
}

static ENDPOINTS: [Endpoint; 4] = [
    Endpoint {
        provider: "anthropic",
        url_variable: "ANTHROPIC_BASE_URL",
        default_url: "https://api.anthropic.com",
        path: "/v1/messages",
        key_variable: "ANTHROPIC_API_KEY",
        headers: &[("x-api-key", "{key}"), ("anthropic-version", "2023-06-01")],
        settings: r#"{"stream":true}"#,
    },
    Endpoint {
        provider: "openai-chat",
        url_variable: "OPENAI_BASE_URL",
        default_url: "https://api.openai.com/v1",
        path: "/chat/completions",
        key_variable: "OPENAI_API_KEY",
        headers: &[("authorization", "Bearer {key}")],
        settings: r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
    },
    Endpoint {
        provider: "openai-responses",
        url_variable: "OPENAI_BASE_URL",
        default_url: "https://api.openai.com/v1",
        path: "/responses",
        key_variable: "OPENAI_API_KEY",
        headers: &[("authorization", "Bearer {key}")],
        settings: r#"{"stream":true}"#,
    },
    Endpoint {
        provider: "google",
        url_variable: "GEMINI_BASE_URL",
        default_url: "https://generativelanguage.googleapis.com",
        path: "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        key_variable: "GEMINI_API_KEY",
        headers: &[("x-goog-api-key", "{key}")],
        settings: "{}",
    },
];

/// Makes the client for all requests.
pub(crate) fn client() -> Agent {
    let config = Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(20)))
        // The body of a refusal says why the server refused. So no status may become an error before the body is read.
        .http_status_as_error(false)
        // The headers contain the key, which must not be sent to another server.
        .max_redirects(0);
    Agent::new_with_config(config.build())
}

/// Sends a request with this body, passes each event of the answer to `take`, and returns the list of all events once
/// the answer is complete. It blocks until then.
///
/// # Errors
/// An error of the server or of the connection. Its text never contains the key, even if the server repeats the key.
pub(crate) fn stream(
    client: &Agent,
    target: &Target,
    body: &Json,
    take: impl FnMut(Value) -> Result<()>,
) -> Result<Json> {
    let endpoint = Endpoint::of(target.provider.name())?;
    let key = env::var(endpoint.key_variable).unwrap_or_default();
    let key = key.trim();
    ensure!(!key.is_empty(), "set {} to your key", endpoint.key_variable);
    let events = endpoint.post(client, &target.model, key, body).and_then(|answer| endpoint.read(answer, take));
    events.map_err(|error| anyhow!("{}: {}", endpoint.provider, format!("{error:#}").replace(key, "[key]")))
}

impl Endpoint {
    /// # Errors
    /// The provider is not known.
    pub(crate) fn of(provider: &str) -> Result<&'static Self> {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.provider == provider);
        endpoint.with_context(|| format!("the chat has no URL for `{provider}`"))
    }

    fn post(&self, client: &Agent, model: &str, key: &str, body: &Json) -> Result<impl BufRead + use<>> {
        let server = env::var(self.url_variable).unwrap_or_else(|_| self.default_url.to_owned());
        let path = self.path.replace("{model}", model);
        let mut request = client.post(format!("{}{path}", server.trim_end_matches('/')));
        request = request.header("content-type", "application/json");
        for (name, value) in self.headers {
            request = request.header(*name, value.replace("{key}", key));
        }
        let answer = request.send(body.as_str()).context("the request failed")?;
        let (status, reader) = (answer.status(), answer.into_body().into_reader());
        if status.is_success() {
            return Ok(BufReader::new(reader));
        }
        let mut text = String::new();
        reader.take(MAX_REFUSAL_BYTES).read_to_string(&mut text).context("the refusal cannot be read")?;
        let refusal = serde_json::from_str(&text).ok().and_then(|body| event::error(&body));
        bail!("the server answered {status}: {}", refusal.as_deref().unwrap_or(text.trim()))
    }

    /// Reads server-sent events: lines with `data:`, with an empty line after each event.
    fn read(&self, answer: impl BufRead, mut take: impl FnMut(Value) -> Result<()>) -> Result<Json> {
        let (mut events, mut is_complete, mut data) = (Vec::new(), false, String::new());
        for line in answer.lines() {
            let line = line.context("the answer broke off")?;
            if let Some(part) = line.strip_prefix("data:") {
                data.push_str(part.trim_start());
                data.push('\n');
            }
            if !line.is_empty() {
                continue;
            }
            let data = std::mem::take(&mut data);
            if matches!(data.trim(), "" | "[DONE]") {
                continue;
            }
            let event = Json::parse(&data).context("an event is not JSON")?;
            // Half of a surrogate pair is valid in JSON, but not in a text that can be shown.
            let fields: Value = serde_json::from_str(&data).unwrap_or_default();
            if let Some(error) = event::error(&fields) {
                bail!("{error}");
            }
            is_complete |= event::completes_answer(self.provider, &fields);
            take(fields)?;
            events.push(event);
        }
        ensure!(is_complete, "the answer broke off");
        Ok(Json::of(&events)?)
    }
}
