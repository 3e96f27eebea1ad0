//! A server with the HTTP APIs of all four providers. It refuses a request whose history they would refuse.
//!
//! Its model calls the tool if the question is `add A B`. If the question is `explain A B`, it says so before.
//! Otherwise it repeats the question. If it is asked to continue, it sends what the last answer lacked.

mod anthropic;
mod google;
mod openai_chat;
mod openai_responses;

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

/// The key that the server accepts.
pub(crate) const KEY: &str = "right-key-2718281828";

/// The beginning of the question with which the chat lets a model continue.
pub(crate) const CONTINUE: &str = "Your last answer broke off.";

/// How the server handles a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Normal,
    /// It sends the answer up to a point, and then nothing until the client disconnects.
    HangAt(Point),
    /// It sends a part of the answer, and closes the connection.
    Break,
    /// It sends a part of the answer, and then an error.
    Overload,
    /// It refuses the request with 429.
    Refuse,
    /// It answers with a redirect.
    Redirect,
}

/// A point in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before the text, and before the call.
    Begin,
    /// After the second piece of the text.
    Text,
    /// After the first part of the arguments of the call.
    Call,
    /// After the call, before the end of the answer.
    WholeCall,
}

/// The end of the conversation, which the model has to answer.
enum LastInput {
    Question(String),
    /// The outputs of the tools.
    Results(Vec<String>),
}

/// What the model answers.
struct Answer {
    model: String,
    /// A number that no other answer has.
    number: usize,
    text: String,
    /// The arguments of the call, if there is one.
    call_arguments: Option<Value>,
}

/// The part of an answer that later requests have to repeat unchanged.
#[derive(Clone)]
struct IssuedPart {
    model: String,
    value: Value,
}

/// What differs between the APIs.
struct Api {
    path: &'static str,
    key_header: &'static str,
    /// Checks a request, and returns the end of its conversation. The arguments are the body, the model, and what all
    /// models have issued so far.
    check: fn(&Value, &str, &[IssuedPart]) -> Result<LastInput, String>,
    /// Returns the events of an answer, and the part of it that later requests have to repeat.
    reply: fn(&Answer) -> (Vec<Value>, Value),
    /// Returns the event for an error inside a stream.
    error: fn(&str) -> Value,
}

static APIS: [Api; 4] = [
    Api {
        path: "/v1/messages",
        key_header: "x-api-key",
        check: anthropic::check,
        reply: anthropic::reply,
        error: |text| json!({"type": "error", "error": {"type": "overloaded_error", "message": text}}),
    },
    Api {
        path: "/chat/completions",
        key_header: "authorization",
        check: openai_chat::check,
        reply: openai_chat::reply,
        error: |text| json!({"error": {"message": text, "type": "server_error"}}),
    },
    Api {
        path: "/responses",
        key_header: "authorization",
        check: openai_responses::check,
        reply: openai_responses::reply,
        error: |text| json!({"type": "error", "code": "server_error", "message": text}),
    },
    Api {
        path: ":streamGenerateContent?alt=sse",
        key_header: "x-goog-api-key",
        check: google::check,
        reply: google::reply,
        error: |text| json!({"error": {"code": 503, "message": text, "status": "UNAVAILABLE"}}),
    },
];

/// The text of an answer that broke off, with the arguments of its call.
type BrokenAnswer = (String, Option<Value>);

#[derive(Default)]
struct State {
    /// The last answer that broke off.
    broken_answer: Option<BrokenAnswer>,
    /// How the next requests are handled.
    modes: VecDeque<Mode>,
    requests: Vec<Value>,
    issued: Vec<IssuedPart>,
    violations: Vec<String>,
}

/// A running server.
pub(crate) struct FakeServer {
    url: String,
    state: Arc<Mutex<State>>,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let served = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&served);
                // A client that was killed ends its connection with an error.
                thread::spawn(move || drop(serve(stream.unwrap(), &state)));
            }
        });
        Self { url, state }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sets how the next requests are handled. Later requests are handled as usual.
    pub(crate) fn set_next_modes(&self, modes: impl IntoIterator<Item = Mode>) {
        self.state.lock().unwrap().modes.extend(modes);
    }

    /// Returns the bodies of all requests that had the right key.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Returns the part of each answer that later requests have to repeat, in the order of the answers.
    pub(crate) fn issued(&self) -> Vec<Value> {
        self.state.lock().unwrap().issued.iter().map(|issued| issued.value.clone()).collect()
    }

    /// Returns the texts of the messages in the last request, which must be a request to Anthropic.
    pub(crate) fn last_texts(&self) -> Vec<String> {
        let requests = self.requests();
        requests.last().unwrap()["messages"].as_array().unwrap().iter().map(|it| text(&it["content"])).collect()
    }

    #[track_caller]
    pub(crate) fn expect_no_violations(&self) {
        assert_eq!(self.state.lock().unwrap().violations, [] as [&str; 0]);
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let request = Request::read(&mut reader)?;
    let Request { path, body, .. } = &request;
    let api = APIS.iter().find(|api| path.ends_with(api.path)).unwrap();
    let given_key = request.header(api.key_header).trim_start_matches("Bearer ");
    if given_key != KEY {
        return refuse(&stream, "401 Unauthorized", &format!("incorrect key: {given_key}"));
    }
    let (mode, number) = {
        let mut state = state.lock().unwrap();
        state.requests.push(body.clone());
        (state.modes.pop_front().unwrap_or(Mode::Normal), state.requests.len())
    };
    match mode {
        Mode::Refuse => return refuse(&stream, "429 Too Many Requests", "slow down"),
        Mode::Redirect => {
            let status_and_headers =
                format!("307 Temporary Redirect\r\nlocation: http://{}{path}", request.header("host"));
            return refuse(&stream, &status_and_headers, "it moved");
        }
        Mode::Normal | Mode::HangAt(_) | Mode::Break | Mode::Overload => {}
    }
    let (model, issued) = (request.model(), state.lock().unwrap().issued.clone());
    let broken_answer = state.lock().unwrap().broken_answer.clone();
    let checked = (api.check)(body, &model, &issued).and_then(|last_input| match last_input {
        LastInput::Question(text) if text.starts_with(CONTINUE) => rest_of(broken_answer, &last_assistant_text(body)),
        last_input => Ok(answer(last_input)),
    });
    let (text, call_arguments) = match checked {
        Ok(answer) => answer,
        Err(violation) => {
            state.lock().unwrap().violations.push(format!("{path}: {violation}: {body}"));
            return refuse(&stream, "400 Bad Request", &violation);
        }
    };
    if mode != Mode::Normal {
        state.lock().unwrap().broken_answer = Some((text.clone(), call_arguments.clone()));
    }
    let answer = Answer { model: model.clone(), number, text, call_arguments };
    let (events, value) = (api.reply)(&answer);
    if mode == Mode::Normal {
        state.lock().unwrap().issued.push(IssuedPart { model, value });
    }
    send(stream, api, part_of(events, &answer, mode), mode)
}

/// The events that are sent in a mode.
fn part_of(mut events: Vec<Value>, answer: &Answer, mode: Mode) -> Vec<Value> {
    let find = |from: usize, texts: &[&str]| {
        let has_text = |event: &Value| texts.iter().any(|text| event.to_string().contains(text));
        events[from..].iter().position(has_text).map_or(events.len(), |at| from + at)
    };
    let first_piece = json!(pieces(&answer.text).next().unwrap_or("(no text)")).to_string();
    let (text, call) = (find(0, &[&first_piece]), find(0, &[r#""name":"add""#]));
    let ends = ["content_block_stop", r#""finish_reason":"tool_calls""#, "output_item.done", "functionCall"];
    let count = match mode {
        Mode::Normal => events.len(),
        Mode::HangAt(Point::Begin) => text.min(call),
        Mode::HangAt(Point::Call) => call + 2,
        Mode::HangAt(Point::WholeCall) => find(call, &ends) + 1,
        // After the second piece of the text.
        _ => text + 2,
    };
    events.truncate(count);
    events
}

/// What an answer lacked that broke off after a part of its text.
fn rest_of(broken_answer: Option<BrokenAnswer>, part: &str) -> Result<(String, Option<Value>), String> {
    let (text, call_arguments) = broken_answer.ok_or("no answer broke off")?;
    let rest = text.strip_prefix(part).filter(|_| !part.is_empty());
    Ok((rest.ok_or("it does not have the part that was sent")?.to_owned(), call_arguments))
}

/// The text of the last message of the model in a request.
fn last_assistant_text(body: &Value) -> String {
    let lists = ["messages", "input", "contents"].map(|name| items(&body[name]));
    let is_assistant = |message: &&Value| message["role"] == "assistant" || message["role"] == "model";
    let last = lists.into_iter().flatten().rfind(is_assistant);
    last.map(|last| text(&last["content"]) + &text(&last["parts"])).unwrap_or_default()
}

struct Request {
    path: String,
    /// The names are in lower case.
    headers: Vec<(String, String)>,
    body: Value,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> std::io::Result<Self> {
        let mut lines = reader.by_ref().lines();
        let path = lines.next().unwrap()?.split(' ').nth(1).unwrap().to_owned();
        let mut request = Self { path, headers: Vec::new(), body: Value::Null };
        for line in lines {
            let line = line?;
            let Some((name, value)) = line.split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut body = vec![0; request.header("content-length").parse().unwrap()];
        reader.read_exact(&mut body)?;
        request.body = serde_json::from_slice(&body)?;
        Ok(request)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns the model, which is in the body or in the path.
    fn model(&self) -> String {
        let model_in_path = self.path.split("/models/").nth(1).and_then(|rest| rest.split(':').next());
        self.body["model"].as_str().or(model_in_path).unwrap_or_default().to_owned()
    }
}

fn refuse(mut stream: &TcpStream, status_and_headers: &str, text: &str) -> std::io::Result<()> {
    let body = json!({"error": {"message": text}}).to_string();
    write!(stream, "HTTP/1.1 {status_and_headers}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// The text of an answer, and the arguments of its call.
fn answer(last_input: LastInput) -> (String, Option<Value>) {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    match last_input {
        LastInput::Results(results) => (format!("The sum is {}.", results.join(" and ")), None),
        LastInput::Question(text) => match text.split(' ').collect::<Vec<_>>().as_slice() {
            ["add", a, b] => (String::new(), Some(json!({"a": number(a), "b": number(b)}))),
            ["explain", a, b] => (format!("I add {a} and {b}."), Some(json!({"a": number(a), "b": number(b)}))),
            _ => (format!("You said: {text}"), None),
        },
    }
}

/// Sends the events as the mode says.
fn send(mut stream: TcpStream, api: &Api, mut events: Vec<Value>, mode: Mode) -> std::io::Result<()> {
    if mode == Mode::Overload {
        events.push((api.error)("overloaded for now"));
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\n\n")?;
    for event in events {
        if let Some(kind) = event["type"].as_str() {
            writeln!(stream, "event: {kind}")?;
        }
        write!(stream, "data: {event}\n\n")?;
    }
    match mode {
        Mode::Normal if api.path == "/chat/completions" => stream.write_all(b"data: [DONE]\n\n"),
        Mode::HangAt(_) => stream.read(&mut [0]).map(|_| ()),
        _ => Ok(()),
    }
}

/// Splits a text into the pieces that are streamed.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(' ')
}

/// Returns the text of a content, which is a text or a list of parts.
fn text(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().map_or_else(|| parts.collect(), str::to_owned)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn require(is_met: bool, violation_text: &str) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(violation_text.to_owned()) }
}

/// Returns whether the model has issued a value.
fn is_issued(issued: &[IssuedPart], model: &str, value: &Value) -> bool {
    issued.iter().any(|issued| issued.model == model && issued.value == *value)
}
