//! Tests how much memory the first pass of an import over a file needs for each line.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that point")]

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use sessions::{ImportOptions, import};
use store_core::{Store, TenantId};
use store_memory::{MemoryConfig, MemoryStore};

/// The environment variable that tells a child process of this test which format to measure.
const FORMAT_VARIABLE: &str = "AGENTSTORE_MEMORY_TEST_FORMAT";

const LINES: usize = 30_000;

/// The maximum memory for each line, in bytes. Between 35 and 70 are needed: for the id, for its place in a table, for
/// the end of the line, and for the calls while the tree is made.
const BYTES_PER_LINE: usize = 100;

/// The memory that a file of any length needs, in bytes.
const FIXED_BYTES: usize = 8 << 20;

/// The peak memory of this process so far, in bytes.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn uuid(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-{:012x}", number.wrapping_mul(0x9e37_79b9))
}

fn agent_core_line(at: usize, parent: &str) -> String {
    let id = uuid(at);
    format!(r#"{{"id":"{id}","parentId":{parent},"type":"user","role":"user","content":"x","timestamp":{at}}}"#)
}

fn claude_code_line(at: usize, parent: &str) -> String {
    let id = uuid(at);
    let message = match at % 3 {
        0 => r#"{"role":"user","content":"x"}"#.to_owned(),
        1 => format!(
            r#"{{"role":"assistant","id":"msg_{at}","content":[{{"type":"tool_use","id":"toolu_{at}","name":"n","input":{{}}}}]}}"#
        ),
        _ => format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{}","content":"x"}}]}}"#,
            at - 1
        ),
    };
    let kind = if at % 3 == 1 { "assistant" } else { "user" };
    format!(
        r#"{{"parentUuid":{parent},"sessionId":"s","type":"{kind}","message":{message},"uuid":"{id}","timestamp":"2026-01-05T10:00:00.000Z"}}"#
    )
}

fn pi_line(at: usize, parent: &str) -> String {
    let id = uuid(at);
    let time = "2026-01-05T10:00:00.000Z";
    let message = r#"{"role":"user","content":"x"}"#;
    format!(r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"{time}","message":{message}}}"#)
}

fn kimi_cli_line(at: usize, _parent: &str) -> String {
    match at % 4 {
        0 => format!(r#"{{"role":"_checkpoint","id":{}}}"#, at / 4),
        1 => r#"{"role":"user","content":"x"}"#.to_owned(),
        2 => format!(
            r#"{{"role":"assistant","content":"x","tool_calls":[{{"type":"function","id":"call_{at}","function":{{"name":"n","arguments":"{{}}"}}}}]}}"#
        ),
        _ => format!(r#"{{"role":"tool","content":"x","tool_call_id":"call_{}"}}"#, at - 1),
    }
}

/// Writes a file whose last line makes a strict import refuse it, so that nothing is written to the store.
fn write_file(path: &Path, format: &str) {
    let (header, line): (_, fn(usize, &str) -> String) = match format {
        "pi" => (r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-05T10:00:00.000Z"}"#, pi_line),
        "agent-core" => ("", agent_core_line),
        "kimi-cli" => ("", kimi_cli_line),
        _ => ("", claude_code_line),
    };
    let mut file = BufWriter::new(File::create(path).unwrap());
    writeln!(file, "{header}").unwrap();
    let mut parent = "null".to_owned();
    for at in 0..LINES {
        writeln!(file, "{}", line(at, &parent)).unwrap();
        parent = format!("\"{}\"", uuid(at));
    }
    writeln!(file, "broken").unwrap();
    file.flush().unwrap();
}

/// Imports a file, and checks how much memory the process has needed for it.
async fn measure(format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.jsonl");
    write_file(&path, format);
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
    let before = peak_memory();
    let options = ImportOptions::default().strict().with_format(format.parse().unwrap());
    let report = import(&*commits, &path, &options).await.unwrap().remove(0);
    assert!(!report.is_imported() && report.lines > LINES as u64, "{:?}", report.issues);
    let needed = peak_memory() - before;
    assert!(needed < LINES * BYTES_PER_LINE + FIXED_BYTES, "{format}: {} bytes for each line", needed / LINES);
}

#[tokio::test]
async fn the_first_pass_keeps_few_bytes_of_each_line() {
    if let Ok(format) = std::env::var(FORMAT_VARIABLE) {
        return measure(&format).await;
    }
    // Each format is measured in a process of its own, because the peak of a process never falls.
    for format in ["pi", "agent-core", "claude-code", "kimi-cli"] {
        let test = "the_first_pass_keeps_few_bytes_of_each_line";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FORMAT_VARIABLE, format)
            .status();
        assert!(status.unwrap().success(), "{format}");
    }
}
