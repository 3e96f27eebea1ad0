//! Short ids of audit records: the last characters of an id, in lists and on the command line.
//!
//! A generated id begins with the time, so records that are written together have ids that begin alike. Their ends
//! differ.

use std::collections::BTreeMap;

use agentstore::{AuditQuery, AuditRecord, AuditStore, Error, EventId, PageRequest};

use crate::failure::{Failure, Result};

/// How many characters of an id are shown: the last group of a UUID.
const SHOWN_CHARS: usize = 12;
/// How many characters a part of an id has at least, so that a mistake does not name a record.
const MIN_CHARS: usize = 4;
/// How many records with the same part of an id are named in an error.
const NAMED_RECORDS: usize = 5;

/// Returns the end of an id, with which lists show it.
pub(super) fn short_id(id: &EventId) -> &str {
    let text = id.as_str();
    let start = text.char_indices().rev().nth(SHOWN_CHARS - 1).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or(text)
}

/// Returns the short ids of records; a whole id if another of the records has the same end.
pub(super) fn short_ids(records: &[AuditRecord]) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry(short_id(&record.id)).or_insert(0_u32) += 1;
    }
    let shown = |id| if counts.get(short_id(id)) == Some(&1) { short_id(id) } else { id.as_str() };
    records.iter().map(|record| shown(&record.id).to_owned()).collect()
}

/// Loads the record with an id, or else the only record whose id ends or begins with this text. To find the latter, all
/// records are read.
pub(super) async fn load_record(text: &EventId, audit: &dyn AuditStore) -> Result<AuditRecord> {
    if let Some(record) = audit.load_audit(text).await? {
        return Ok(record);
    }
    let part = text.as_str();
    if part.chars().count() < MIN_CHARS {
        let advice = format!("give the whole id of the record, or at least {MIN_CHARS} characters of its end");
        return Err(Failure::from(Error::not_found("audit record", part)).with_advice(advice));
    }
    let mut found = find_records(part, audit).await?;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Error::not_found("audit record", part).into()),
        (Some(record), true) => Ok(record),
        (Some(last), false) => {
            found.push(last);
            let ids: Vec<_> = found.iter().take(NAMED_RECORDS).map(|record| format!("`{}`", record.id)).collect();
            let more = if found.len() > NAMED_RECORDS { " and of others" } else { "" };
            let reason = format!("`{part}` is a part of the ids {}{more}", ids.join(", "));
            Err(Failure::from(Error::invalid("audit record", reason)).with_advice("give more characters of the id"))
        }
    }
}

/// Returns records whose ids end or begin with a text: all of them, or one more than an error names.
async fn find_records(part: &str, audit: &dyn AuditStore) -> Result<Vec<AuditRecord>> {
    let (mut found, mut page) = (Vec::new(), Some(PageRequest::first(agentstore::MAX_PAGE)));
    while let Some(request) = page.take() {
        let records = audit.list_audit(AuditQuery::new().with_page(request.clone())).await?;
        let has_part =
            |record: &AuditRecord| record.id.as_str().ends_with(part) || record.id.as_str().starts_with(part);
        found.extend(records.items.into_iter().filter(has_part));
        page = records.next.filter(|_| found.len() <= NAMED_RECORDS).map(|cursor| request.after(cursor));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::short_id;

    #[test]
    fn a_short_id_is_the_end_of_an_id() {
        let short = |id: &str| short_id(&id.parse().unwrap()).to_owned();
        assert_eq!(short("01a22b90-8de2-7308-bc81-f23f570f4b45"), "f23f570f4b45");
        assert_eq!(short("event-7"), "event-7");
        assert_eq!(short("ééééééééééééé"), "éééééééééééé");
    }
}
