//! The names of OpenTelemetry's semantic conventions for generative AI that this crate writes, and its own names.
//!
//! [`SCHEMA_URL`] says which version of the conventions they belong to. Spans that were put may have any other names
//! and any version.

/// The schema of the conventions that derived spans follow. It is an identifier, with the version at its end.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/1.42.0";
/// The name of the instrumentation scope of derived spans.
pub const SCOPE_NAME: &str = "agentstore";

/// What a span is about: `invoke_agent`, `chat`, `generate_content`, `execute_tool`.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The provider of a model.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The conversation; in derived spans the id of the thread.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The id of an agent.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// The name of an agent, for people.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The model that a request names.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id of an answer.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Why the model stopped.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// All input tokens, those from a cache and those written to one included.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// All output tokens, reasoning included.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Input tokens that were read from a cache.
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Input tokens that were written to a cache.
pub const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// Output tokens that are reasoning.
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
/// The name of a tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The id of a tool call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The class of an error.
pub const ERROR_TYPE: &str = "error.type";
/// The class of an error of which nothing else is known.
pub const OTHER_ERROR: &str = "_OTHER";

/// The entries that a span is about: their ids. Not part of the conventions.
pub const ENTRY_IDS: &str = "agentstore.entry.ids";
/// The run that a span belongs to. Not part of the conventions.
pub const RUN_ID: &str = "agentstore.run.id";
/// The status of a run, or its outcome if it is done. Not part of the conventions.
pub const RUN_STATUS: &str = "agentstore.run.status";
/// The number of steps of a run. Not part of the conventions.
pub const RUN_STEPS: &str = "agentstore.run.steps";
/// The step of a run. Not part of the conventions.
pub const RUN_STEP: &str = "agentstore.run.step";

/// Returns the name that the conventions have for a provider; its own name if they have none.
#[must_use]
pub fn provider_name(provider: &str) -> &str {
    match provider {
        "amazon-bedrock" | "bedrock" => "aws.bedrock",
        "azure" | "azure-openai" => "azure.ai.openai",
        "gemini" => "gcp.gemini",
        "google" => "gcp.gen_ai",
        "google-vertex" | "vertex" | "vertexai" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// Returns the operation of a call to a model through an API of a provider.
#[must_use]
pub fn operation_of_api(api: Option<&str>) -> &'static str {
    match api {
        Some("google-generative-ai" | "generate-content") => "generate_content",
        _ => "chat",
    }
}
