//! `traces export`: writes a trace as OTLP/JSON.

use std::{fs::File, io::Write, path::PathBuf};

use agentstore::{Span, write_otlp};
use serde_json::json;

use super::{Ending, TraceNameArgs};
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Write the spans of a run as OTLP/JSON, for other programs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore traces export run-7 --out run-7.json\n  \
    agentstore traces export run-7 | curl -d @- -H 'Content-Type: application/json' http://localhost:4318/v1/traces")]
pub(super) struct Args {
    #[command(flatten)]
    name: TraceNameArgs,
    /// The file to write, which must not exist; standard output if not given
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let trace = args.name.load(&*session.traces()?).await?;
    let text = write_otlp(&trace.spans);
    let Some(path) = args.out else {
        out.print_line(text)?;
        return Ok(Ending::Success);
    };
    let cannot = |error| {
        let advice = "choose a file that does not exist yet, in a folder that exists";
        Failure::io(format!("`{}` cannot be written", path.display()), error).with_advice(advice)
    };
    let mut file = File::create_new(&path).map_err(cannot)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(cannot)?;
    let without_end = trace.spans.iter().filter(|span: &&Span| span.end_nanos.is_none()).count();
    if out.is_json() {
        out.print_document(&json!({ "name": trace.name, "spans": trace.spans.len(), "without_end": without_end }))?;
    } else {
        let count = with_noun(agentstore::length(trace.spans.len()), "span");
        let open = if without_end == 0 { String::new() } else { format!(", {without_end} of them without an end") };
        out.print_line(format!("wrote {count}{open} to {}", terminal_safe(&path.display().to_string())))?;
    }
    Ok(Ending::Success)
}
