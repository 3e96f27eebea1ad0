//! `traces import`: stores spans that other programs have written as OTLP/JSON.

use std::{collections::BTreeMap, path::PathBuf};

use agentstore::{
    ErrorKind, MAX_PUT_SPANS, NewThread, OtlpImport, PutSpans, RunId, Span, ThreadId, TraceId, TraceName, read_otlp,
    span::conventions,
};
use serde_json::json;

use super::Ending;
use crate::{
    document_arg::DocumentArg,
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Store spans from OTLP/JSON; what was imported before stays as it is
///
/// All spans of one OpenTelemetry trace become the trace of one run. The run is the one that the spans name
/// (`agentstore.run.id`), or else the id of their trace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore traces import spans.json --thread t-42\n  \
    agentstore traces import spans.json --thread otel --create-thread\n  \
    agentstore traces export run-7 --store file:other | agentstore traces import - --json\n\n\
    A file may have one document, or one in each line, as the file exporter of the OpenTelemetry Collector writes. \
    What is not kept of a file is listed on standard error.")]
pub(super) struct Args {
    /// A file with OTLP/JSON; `-` for standard input
    file: PathBuf,
    /// The thread that the spans belong to; by default the one that they name (`gen_ai.conversation.id`)
    #[arg(long)]
    thread: Option<ThreadId>,
    /// The run that all spans belong to
    #[arg(long)]
    run: Option<RunId>,
    /// Create threads that do not exist
    #[arg(long)]
    create_thread: bool,
    #[arg(skip)]
    import: Option<OtlpImport>,
}

impl Args {
    pub(super) const fn access(&self) -> Access {
        if self.create_thread { Access::Create } else { Access::Write }
    }

    pub(super) fn read_document_args(&mut self) -> Result<()> {
        let is_stdin = self.file.as_os_str() == "-";
        let document = if is_stdin { DocumentArg::Stdin } else { DocumentArg::File(self.file.clone()) };
        let parse = |text: &str| match read_otlp(text) {
            Ok(import) if import.spans.is_empty() => Err("it has no spans".to_owned()),
            import => import.map_err(|error| error.to_string()),
        };
        self.import = Some(document.read("FILE", parse)?);
        Ok(())
    }

    /// Returns the trace that spans belong to.
    fn name_of(&self, trace: TraceId, spans: &[Span]) -> Result<TraceName> {
        let named = |key| spans.iter().find_map(|span| span.text(key));
        let run = match &self.run {
            Some(run) => run.clone(),
            None => RunId::new(named(conventions::RUN_ID).unwrap_or(&trace.to_string()))?,
        };
        let thread = match (&self.thread, named(conventions::CONVERSATION_ID)) {
            (Some(thread), _) => thread.clone(),
            (None, Some(thread)) => ThreadId::new(thread)?,
            (None, None) => {
                let problem =
                    format!("the spans of the trace {trace} name no thread (`{}`)", conventions::CONVERSATION_ID);
                return Err(Failure::Usage(format!("{problem}: name one with `--thread`")));
            }
        };
        Ok(TraceName::new(thread, run))
    }
}

pub(super) async fn run(mut args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let OtlpImport { spans, losses, .. } = args.import.take().unwrap_or_default();
    let mut by_trace: BTreeMap<TraceId, Vec<Span>> = BTreeMap::new();
    for span in spans {
        by_trace.entry(span.trace_id).or_default().push(span);
    }
    // All names are known before anything is written.
    let named: Vec<_> =
        by_trace.into_iter().map(|(trace, spans)| Ok((args.name_of(trace, &spans)?, spans))).collect::<Result<_>>()?;
    let traces = session.traces()?;
    let mut documents = Vec::new();
    for (name, spans) in named {
        if args.create_thread {
            create_thread(session, &name.thread).await?;
        }
        let (mut written, mut unchanged) = (0, 0);
        for part in spans.chunks(MAX_PUT_SPANS) {
            let outcome = traces.put_spans(PutSpans::new(name.clone(), part.iter().cloned())).await?;
            written += outcome.written;
            unchanged += outcome.unchanged;
        }
        if !out.is_json() {
            let known = if unchanged == 0 { String::new() } else { format!(", {unchanged} were there") };
            let run = terminal_safe(&format!("{} {}", name.thread, name.run));
            out.print_line(format!("{run}: {} stored{known}", with_noun(written, "span")))?;
        }
        documents.push(json!({ "name": name, "written": written, "unchanged": unchanged }));
    }
    if out.is_json() {
        out.print_document(&json!({ "traces": documents, "losses": losses }))?;
    } else {
        losses.iter().for_each(|loss| out.print_to_stderr(format!("not kept: {}", terminal_safe(loss))));
    }
    Ok(Ending::Success)
}

async fn create_thread(session: &Session, thread: &ThreadId) -> Result<()> {
    match session.threads()?.create_thread(NewThread::new(thread.clone())).await {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => Ok(created.map(drop)?),
    }
}
