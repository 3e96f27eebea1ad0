//! `doctor`: checks the stores of all parts, and says what is wrong with them or worth knowing.

use agentstore::{
    PartCheck, StoresCheck,
    health::{Finding, Lag, Severity},
};

use super::Ending;
use crate::{
    failure::Result,
    json_merge::merge_objects,
    output::Output,
    session::Session,
    text::{format_duration, terminal_safe, with_noun},
};

/// Check the stores of all parts: versions, settings, speed, clocks, space and waiting work; nothing is changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore doctor --store postgres://db/work --mailbox 'nats://queue.example/'\n  \
    agentstore doctor --json | jq '.parts[].findings'\n\n\
    A problem is wrong, and a note is worth knowing; both come with advice. The exit code is 1 if there is a problem. \
    `agentstore verify` checks the stored data itself."
)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let check = session.stores().check(session.tenant()).await?;
    if out.is_json() {
        out.print_document(&merge_objects(&session.header(), &check)?)?;
    } else {
        print(&check, session, out)?;
    }
    Ok(if check.is_healthy() { Ending::Success } else { Ending::Problem })
}

fn print(check: &StoresCheck, session: &Session, out: &mut Output) -> Result<()> {
    out.print_line(out.style(session.header().line()).dim())?;
    for part in &check.parts {
        let place = part.url.as_deref().unwrap_or(part.backend);
        out.print_line(format!("{} {}", out.style(part.part).bold(), terminal_safe(place)))?;
        let facts: Vec<_> = part.facts.iter().map(|fact| format!("{} {}", fact.name, fact.value)).collect();
        for line in [facts.join(", "), measures(part).join(", ")].iter().filter(|line| !line.is_empty()) {
            out.print_line(format!("  {}", terminal_safe(line)))?;
        }
        part.findings.iter().try_for_each(|finding| print_finding(finding, out))?;
    }
    check.findings.iter().try_for_each(|finding| print_finding(finding, out))?;
    let findings = || check.parts.iter().flat_map(|part| &part.findings).chain(&check.findings);
    let count = |severity| findings().filter(|finding| finding.severity == severity).count() as u64;
    let result = match count(Severity::Problem) {
        0 => out.style("nothing is wrong".to_owned()).green(),
        problems => out.style(with_noun(problems, "problem")).red(),
    };
    let notes = match count(Severity::Note) {
        0 => String::new(),
        notes => format!(", {}", with_noun(notes, "note")),
    };
    out.print_line(format!("{result}{notes}"))
}

/// Returns what was measured.
fn measures(part: &PartCheck) -> Vec<String> {
    let lag = |name: &str, lag: Lag| {
        let oldest = lag.oldest_ms.map(|ms| format!(", the oldest for {}", format_duration(ms / 1_000)));
        format!("{name}: {} waiting{}", lag.waiting, oldest.unwrap_or_default())
    };
    let measures = [
        part.read_us.map(|micros| format!("a read takes {}.{} ms", micros / 1_000, micros % 1_000 / 100)),
        part.clock_offset_ms.map(|offset| format!("clock {offset:+} ms")),
        part.free_bytes.map(|free| format!("{} MiB free", free >> 20)),
        part.mailbox_lag.map(|it| lag("mailbox", it)),
        part.outbox_lag.map(|it| lag("outbox", it)),
    ];
    measures.into_iter().flatten().collect()
}

fn print_finding(finding: &Finding, out: &mut Output) -> Result<()> {
    let name = match finding.severity {
        Severity::Problem => out.style("problem").red().bold(),
        Severity::Note => out.style("note").bold(),
    };
    out.print_line(format!("  {name} {}: {}", terminal_safe(&finding.about), terminal_safe(&finding.text)))?;
    out.print_line(format!("    {}", terminal_safe(&finding.advice)))
}
