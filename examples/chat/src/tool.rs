//! The tool that models can call: `add`.

use agentstore::{Block, BlockKind, ToolResult, ToolUse};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

const NAME: &str = "add";

/// The arguments of the tool.
#[derive(Deserialize)]
struct Arguments {
    a: f64,
    b: f64,
}

/// Returns the field `tools` of a request, in the form of the API.
pub(crate) fn declaration(provider: &str) -> Value {
    let description = "Adds two numbers.";
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    match provider {
        "anthropic" => json!([{"name": NAME, "description": description, "input_schema": parameters}]),
        "openai-chat" => {
            let function = json!({"name": NAME, "description": description, "parameters": parameters});
            json!([{"type": "function", "function": function}])
        }
        "openai-responses" => json!([{
            "type": "function", "name": NAME, "description": description, "parameters": parameters, "strict": false,
        }]),
        _ => {
            let function = json!({"name": NAME, "description": description, "parameters": parameters});
            json!([{"functionDeclarations": [function]}])
        }
    }
}

/// Runs a call, and returns its result. A call that cannot be run has a result, too: it tells the model why.
pub(crate) fn run(call: &ToolUse) -> ToolResult {
    let output = add(call);
    let is_error = output.is_err();
    let text = output.unwrap_or_else(|error| error.to_string());
    let mut result = ToolResult::new(&call.id, vec![Block::text(text)]);
    result.is_error = is_error.then_some(true);
    result
}

fn add(call: &ToolUse) -> Result<String> {
    ensure!(call.name == NAME, "there is no tool `{}`", call.name);
    let arguments: Arguments = call.input.to().context("`add` takes two numbers, `a` and `b`")?;
    Ok((arguments.a + arguments.b).to_string())
}

/// Returns the text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    let texts = result.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}
