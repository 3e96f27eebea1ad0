//! What was received of an answer, and how the answer goes on after it broke off.

use agentstore::{
    Block, BlockKind, CallInFlight, IdSource, Json, Message, PartialAnswer, Recovery, Role, ToolUse, UuidSource,
};
use serde_json::Value;

use crate::event::{self, CallEvent};

/// What the model is asked after an answer that broke off.
const CONTINUE: &str = "Your last answer broke off. Continue it exactly where it stopped, and repeat nothing.";
/// The stop reason of an answer that broke off.
const BROKEN_OFF: &str = "broken off";

/// Adds what an event says to the answer. Returns whether the answer has changed.
pub(crate) fn add(answer: &mut PartialAnswer, provider: &str, event: &Value) -> bool {
    let (text, calls) = (event::text(provider, event), event::calls(provider, event));
    let is_changed = !text.is_empty() || !calls.is_empty();
    answer.text.push_str(&text);
    for call_event in calls {
        match call_event {
            CallEvent::Begin { id, name } => {
                finish_call(answer);
                answer.call_in_flight = Some(CallInFlight::new(id, name));
            }
            CallEvent::Arguments(part) => {
                if let Some(call) = &mut answer.call_in_flight {
                    call.arguments.push_str(&part);
                }
            }
            CallEvent::End => finish_call(answer),
            CallEvent::Whole { id, name, arguments } => {
                answer.call_in_flight = None;
                let id = id.unwrap_or_else(|| UuidSource.next_id());
                answer.finished_calls.push(call(id, name, arguments));
            }
        }
    }
    is_changed
}

/// The arguments of the call in flight were received in full.
fn finish_call(answer: &mut PartialAnswer) {
    if let Some(CallInFlight { id, name, arguments, .. }) = answer.call_in_flight.take() {
        answer.finished_calls.push(call(id, name, arguments));
    }
}

fn call(id: String, name: String, arguments: String) -> ToolUse {
    let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
    match Json::parse(&arguments) {
        Ok(input) => ToolUse::new(id, name, input),
        // The tool refuses arguments that are not JSON, and the model sees what it has sent.
        Err(_) => {
            let mut call = ToolUse::new(id, name, Json::null());
            call.raw = Some(arguments);
            call
        }
    }
}

/// Returns the messages that an answer that broke off leaves in the log (SC-5). The next step goes on after them: it
/// executes calls that were received in full, or asks the model to continue the text. They are none if nothing useful
/// was received.
pub(crate) fn messages(answer: PartialAnswer) -> Vec<Message> {
    match answer.recovery() {
        Recovery::StartAgain => Vec::new(),
        // A call that was not received in full is dropped.
        Recovery::Continue { text } | Recovery::CutBeforeCall { text, .. } => {
            vec![broken_off(vec![Block::text(text)]), Message::user(CONTINUE)]
        }
        Recovery::UseCalls { text, calls } => {
            let text = (!text.trim().is_empty()).then(|| Block::text(text));
            let calls = calls.into_iter().map(|call| Block::new(BlockKind::ToolUse(call)));
            vec![broken_off(text.into_iter().chain(calls).collect())]
        }
    }
}

fn broken_off(blocks: Vec<Block>) -> Message {
    let mut message = Message::new(Role::Assistant, blocks);
    message.stop = Some(BROKEN_OFF.to_owned());
    message
}

#[cfg(test)]
mod tests {
    use agentstore::PartialAnswer;
    use serde_json::Value;

    use super::add;

    /// Adds events, and describes the answer: text, finished calls, the call in flight.
    fn check(provider: &str, events: &[&str], expected: &str) {
        let mut answer = PartialAnswer::new(1);
        for event in events {
            add(&mut answer, provider, &serde_json::from_str::<Value>(event).unwrap());
        }
        let finished: Vec<_> =
            answer.finished_calls.iter().map(|call| format!("{}={}{}", call.id, call.name, call.input)).collect();
        let in_flight = answer.call_in_flight.map(|call| format!("{}={}{}", call.id, call.name, call.arguments));
        assert_eq!(format!("{:?} {finished:?} {in_flight:?}", answer.text), expected, "{provider}");
    }

    #[test]
    fn calls_are_collected_from_the_events_of_each_provider() {
        let begin =
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"add"}}"#;
        let part =
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#;
        let rest =
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#;
        let end = r#"{"type":"content_block_stop","index":1}"#;
        check("anthropic", &[begin, part], r#""" [] Some("c=add{\"a\"")"#);
        check("anthropic", &[begin, part, rest, end], r#""" ["c=add{\"a\":1}"] None"#);
        check("anthropic", &[begin, end], r#""" ["c=add{}"] None"#);

        let begin = |index: u8| {
            format!(
                r#"{{"choices":[{{"delta":{{"content":"x","tool_calls":[{{"index":{index},"id":"c{index}","function":{{"name":"add","arguments":""}}}}]}}}}]}}"#
            )
        };
        let part = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#;
        let end = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
        check("openai-chat", &[&begin(0), part, &begin(1)], r#""xx" ["c0=add{}"] Some("c1=add")"#);
        check("openai-chat", &[&begin(0), part, end], r#""x" ["c0=add{}"] None"#);

        let item = r#""item":{"type":"function_call","call_id":"c","name":"add","arguments":"{\"a\":1}"}"#;
        let begin = format!(r#"{{"type":"response.output_item.added",{item}}}"#);
        let part = r#"{"type":"response.function_call_arguments.delta","delta":"{"}"#;
        let end = format!(r#"{{"type":"response.output_item.done",{item}}}"#);
        check("openai-responses", &[&begin, part], r#""" [] Some("c=add{")"#);
        check("openai-responses", &[&begin, part, &end], r#""" ["c=add{\"a\":1}"] None"#);

        let whole = r#"{"candidates":[{"content":{"parts":[{"text":"x"},{"functionCall":{"id":"c","name":"add","args":{"a":1}}}]}}]}"#;
        check("google", &[whole], r#""x" ["c=add{\"a\":1}"] None"#);
    }
}
