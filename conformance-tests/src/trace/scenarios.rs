//! Scenarios of the semantic conventions for generative AI, as OTLP/JSON.

macro_rules! scenarios {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("scenarios/", $name, ".json")))),*]
    };
}

/// Scenarios of OpenTelemetry's conventions for generative AI, each with its name and its spans as OTLP/JSON. The
/// scenarios are those of the conventions' examples and reference implementations; all texts in them were written here.
pub static OTLP_SCENARIOS: &[(&str, &str)] = scenarios! {
    "agent_transfer"
    "built_in_tools"
    "chat"
    "chat_with_content"
    "embeddings_and_retrieval"
    "evaluation_result"
    "failed_calls"
    "memory"
    "multimodal_chat"
    "reasoning"
    "remote_agent"
    "several_choices"
    "system_instructions"
    "tool_calls"
    "workflow"
};
