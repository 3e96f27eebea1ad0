//! `traces list`: lists traces, newest first.

use agentstore::{AgentId, ThreadId, TraceQuery, TraceSummary};
use serde_json::json;

use super::{
    Ending,
    draw::{duration_text, tokens_text},
};
use crate::{
    args::{Since, parse_since},
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List traces, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore traces list --thread t-42\n  \
    agentstore traces list --errors --since 1d\n  \
    agentstore traces list --agent coder --json | jq -r .traces[].name.run\n\n\
    A trace is listed for each run, and for other runs for which spans were imported. `--errors` finds runs that \
    failed and spans that were put with an error; a failed tool call of a run that went on is only in the trace.")]
pub(super) struct Args {
    /// Only traces of this thread
    #[arg(long)]
    thread: Option<ThreadId>,
    /// Only traces of this agent
    #[arg(long)]
    agent: Option<AgentId>,
    /// Only traces since this time: an age such as `7d`, a date, or a time such as `2026-11-30T09:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// Only traces before this time
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    until: Option<Since>,
    /// Only traces with an error
    #[arg(long)]
    errors: bool,
    /// The greatest number of traces to list; all if not given
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
}

impl Args {
    fn query(&self) -> TraceQuery {
        let mut query = TraceQuery::default();
        query.thread = self.thread.clone();
        query.agent = self.agent.clone();
        query.from = self.since.map(Since::time);
        query.before = self.until.map(Since::time);
        query.errors = self.errors;
        query
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (traces, query) = (session.traces()?, args.query());
    let (mut found, mut left) = (Vec::new(), args.limit);
    if left > 0 {
        let load = async |page| traces.list_traces(query.clone().with_page(page)).await;
        pages::for_each(load, |trace| {
            found.push(trace);
            left -= 1;
            Ok(left > 0)
        })
        .await?;
    }
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "traces")?;
        found.iter().try_for_each(|trace| list.item(trace))?;
        list.end()?;
    } else if found.is_empty() {
        out.print_line("there are no such traces")?;
    } else {
        print(&found, out)?;
    }
    Ok(Ending::Success)
}

fn print(traces: &[TraceSummary], out: &mut Output) -> Result<()> {
    let row = |trace: &TraceSummary| {
        let nanos = trace
            .ended_at
            .map(|end| end.as_millis().saturating_sub(trace.started_at.as_millis()).saturating_mul(1_000_000));
        let error = if trace.has_error { "error" } else { "" };
        let phase = trace.phase.map(|phase| phase.to_string()).unwrap_or_default();
        let tokens = trace.tokens.as_ref();
        let input = tokens.map(|tokens| tokens.context_size().saturating_sub(tokens.output));
        vec![
            terminal_safe(&format!("{} {}", trace.name.thread, trace.name.run)),
            trace.agent.clone().unwrap_or_default(),
            text::format_minute(trace.started_at),
            duration_text(nanos),
            if phase.is_empty() || error.is_empty() { format!("{phase}{error}") } else { format!("{phase}, {error}") },
            trace.put_spans.to_string(),
            tokens_text(input, tokens.map(|tokens| tokens.output)),
        ]
    };
    let rows: Vec<_> = traces.iter().map(row).collect();
    out.print_list(&["thread run", "agent", "began", "took", "status", "put", "tokens"], &rows)
}
