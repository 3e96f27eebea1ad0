//! The check of one log, and of what the index says of it.

mod compare;
mod replay;
mod thread;

use store_core::{
    Result,
    inspect::{Finding, FindingKind, RepairStatus},
};

use self::replay::{Log, Replayed};
use super::{Inspected, Part, is_in_use, root::FIRST_LINE};
use crate::{
    codec::{LogRow, Rows},
    decoded::own_header,
    error,
    facts::Facts,
    fold::Owner,
    log::{Header, Known, Position, Tail, check_version, classify, read_header},
    names::{Part as LogPart, log_path},
    shared::{Shared, objection},
    vfs::Open,
};

/// Checks a log, and with `repair` writes again what the index says of it.
///
/// The writer goes on during the first look, which may find something because of that. Then a second look is taken,
/// during which the writer waits.
pub(super) fn check_log(inspected: &Inspected, known: &(u64, LogRow)) -> Result<Part> {
    match look(inspected, known, false) {
        Ok((part, _)) if part.findings.is_empty() => return Ok(part),
        _ => {}
    }
    let mut exclusive = inspected.shared.exclusive();
    let (part, is_changed) = look(inspected, known, inspected.repair)?;
    if is_changed {
        exclusive.remembered.forget(&(known.1.tenant.clone(), known.1.thread.clone(), LogPart::of(known.1.generation)));
    }
    Ok(part)
}

/// What is found in a log, and whether the index was changed.
fn look(inspected: &Inspected, known: &(u64, LogRow), repair: bool) -> Result<(Part, bool)> {
    let Inspected { shared, facts, .. } = inspected;
    let (log, known) = known;
    let mut part = Part::default();
    // It may have been written, or deleted, since the list of logs was made.
    let is_known = known.end != Position::default();
    let Some(row) = shared.index.log_row(*log)?.or_else(|| (!is_known).then(|| known.clone())) else {
        return Ok((part, false));
    };
    let owner = Owner::of(*log, &row);
    let mut check = Check { shared, facts, owner, row, part: &mut part };
    let mut is_changed = false;
    if let Some(replayed) = check.log()? {
        let differs = check.compare(&replayed)?;
        let of_index = |finding: &Finding| finding.repair == RepairStatus::CanBeRebuilt;
        if repair && (differs || check.part.findings.iter().any(of_index)) {
            check.write(&replayed)?;
            is_changed = true;
            for finding in part.findings.iter_mut().filter(|finding| of_index(finding)) {
                finding.repair = RepairStatus::Rebuilt;
            }
        }
    }
    Ok((part, is_changed))
}

struct Check<'a> {
    shared: &'a Shared,
    facts: &'a Facts,
    owner: Owner,
    row: LogRow,
    part: &'a mut Part,
}

impl Check<'_> {
    fn find(&mut self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        let finding = Finding::new(kind, place, detail).of_thread(&self.owner.tenant, &self.owner.thread);
        self.part.findings.push(finding);
    }

    /// Reads the log from its beginning. Returns what it gives, if all of it is good and only the store changed it.
    fn log(&mut self) -> Result<Option<Replayed>> {
        let read = self.read();
        if let Some(damaged) = read.as_ref().err().and_then(error::damage) {
            self.find(FindingKind::Damaged, damaged.place(), "the bytes differ from what was written");
            return Ok(None);
        }
        read
    }

    fn read(&mut self) -> Result<Option<Replayed>> {
        let Owner { tenant, thread, generation, .. } = &self.owner;
        let path = log_path(tenant, thread, *generation)?;
        let fail = |source| error::io(&path, source);
        let in_use = is_in_use(self.shared)?;
        let file = match self.shared.vfs.open(&path, Open::Read) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                if !in_use {
                    self.find(FindingKind::MissingLog, path.as_str(), "the log does not exist");
                }
                return Ok(None);
            }
            opened => opened.map_err(fail)?,
        };
        let len = file.len().map_err(fail)?;
        // What a holder wrote since is not part of what was opened.
        let len = if in_use { len.min(self.row.end.offset) } else { len };
        let start = match read_header(&*file).map_err(fail)? {
            Header::Bad => {
                self.find(FindingKind::Damaged, format!("{path}:0"), FIRST_LINE);
                return Ok(None);
            }
            Header::Good(line, start) => match check_version(&path, line.as_bytes()) {
                Ok(()) => start,
                Err(error) => {
                    self.find(FindingKind::Damaged, format!("{path}:0"), error.to_string());
                    return Ok(None);
                }
            },
        };
        if own_header(&*file, &path).map_err(fail)?.is_none() {
            self.find(FindingKind::ForeignChange, format!("{path}:0"), "its first line names another thread");
            return Ok(None);
        }
        let log = Log { path: &path, file: &*file, start, len };
        let replayed = self.replay(&log)?;
        let is_good = self.judge(&log, &replayed)?;
        Ok(is_good.then_some(replayed))
    }

    /// Names what is wrong, each thing once: damage of the log first, then foreign changes of it, then the index.
    /// Whether the index follows from the log.
    fn judge(&mut self, log: &Log<'_>, replayed: &Replayed) -> Result<bool> {
        let Log { path, file, len, .. } = *log;
        let (end, known) = (replayed.end, self.row.end);
        if let Some((offset, _, why)) = &replayed.misfit {
            self.part.findings.extend(self.alone(log, replayed)?);
            if self.part.findings.is_empty() {
                self.find(FindingKind::Damaged, format!("{path}:{offset}"), why.as_str());
            }
        }
        let fail = |source| error::io(path, source);
        let judged = Known { acknowledged: known.offset, last_batch: u64::MAX };
        match classify(file, end.offset, len, judged).map_err(fail)? {
            Tail::Corrupt { offset } => {
                self.find(FindingKind::Damaged, format!("{path}:{offset}"), "the bytes differ from what was written");
                return Ok(false);
            }
            Tail::Torn { from, acknowledged: true, .. } if len >= known.offset => {
                self.find(FindingKind::Damaged, format!("{path}:{from}"), "the bytes differ from what was written");
                return Ok(false);
            }
            Tail::Torn { from, bytes, acknowledged: false } => {
                let kind = if self.shared.opening.unclean { FindingKind::TornTail } else { FindingKind::ForeignChange };
                self.find(kind, format!("{path}:{from}"), format!("{bytes} bytes follow its last commit"));
                if kind == FindingKind::ForeignChange {
                    return Ok(false);
                }
            }
            Tail::Torn { .. } | Tail::Clean => {}
        }
        if replayed.misfit.is_some() {
            return Ok(false);
        }
        if end != known && !replayed.goes_on {
            self.part.findings.extend(self.alone(log, replayed)?);
            if self.part.findings.is_empty() {
                let header = read_header(file).map_err(fail)?;
                let found = objection(&self.row, file, &header).map_err(fail)?;
                self.find(FindingKind::ForeignChange, path.as_str(), found.unwrap_or_default());
            }
            return Ok(false);
        }
        if end != known {
            let detail = match known.offset {
                0 => "the index does not cover this log".to_owned(),
                _ => format!("the index does not cover the last {} bytes of this log", end.offset - known.offset),
            };
            self.find(FindingKind::StaleIndex, format!("{path}:{}", known.offset), detail);
            self.part.findings.extend(self.alone(log, replayed)?);
            return Ok(true);
        }
        // It was compared just now.
        self.shared.mark_checked(self.owner.log);
        if self.owner.generation > 0 {
            self.thread(log, replayed)?;
        }
        Ok(true)
    }
}
