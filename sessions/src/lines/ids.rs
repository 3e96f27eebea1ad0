//! Entry ids of lines. If possible, an id is taken from the source. A line gets the same id in every import of the same
//! bytes.

use std::collections::{HashMap, HashSet};

use store_core::EntryId;

use super::source_ids::{SourceIds, generated_line};
use crate::{compact::to_u32, provenance::ReimportedLine, session::StoredEntries};

/// The entry ids of all lines.
#[derive(Debug)]
pub(crate) struct LineIds<'a> {
    source_ids: &'a SourceIds,
    /// The ids of lines that do not have their usual id. The usual id is the id that the line contains, or `L` and the
    /// number of the line if it contains none.
    unusual_ids: HashMap<u32, EntryId>,
}

impl<'a> LineIds<'a> {
    /// Assigns an id to every line that is not blank. The ids differ from each other, and from those of entries that
    /// the import did not write.
    pub(crate) fn assign(source_ids: &'a SourceIds, stored: &StoredEntries, reimported: &[ReimportedLine]) -> Self {
        let mut ids = Self { source_ids, unusual_ids: HashMap::new() };
        let foreign: HashSet<_> = stored.foreign_entries.iter().map(EntryId::as_str).collect();
        let mut unusual_lines = source_ids.unusual_lines();
        unusual_lines.extend(reimported.iter().map(|reimported| to_u32(reimported.line)));
        unusual_lines.extend(foreign.iter().flat_map(|id| usual_lines(source_ids, id)));
        unusual_lines.sort_unstable();
        unusual_lines.dedup();
        let mut made_ids = HashSet::new();
        for line in unusual_lines.into_iter().filter(|line| !source_ids.is_skipped(*line)) {
            let source_id = source_ids.of_line(line);
            let reimports: Vec<_> = reimported.iter().filter(|reimported| reimported.line == u64::from(line)).collect();
            let is_taken =
                |id: &str| foreign.contains(id) || made_ids.contains(id) || ids.is_usual_id_of_earlier_line(id, line);
            let mut candidates = candidates(line, source_id.as_deref(), &reimports);
            let Some(id) = candidates.find(|id| !is_taken(id.as_str())) else { continue };
            if usual_lines(source_ids, id.as_str()).all(|usual| usual != line) {
                made_ids.insert(id.as_str().to_owned());
                ids.unusual_ids.insert(line, id);
            }
        }
        ids
    }

    /// Whether a line before `line` has this id as its usual id.
    fn is_usual_id_of_earlier_line(&self, id: &str, line: u32) -> bool {
        usual_lines(self.source_ids, id).any(|other| other < line && !self.unusual_ids.contains_key(&other))
    }

    /// The id of a line. Lines are counted from 1.
    pub(crate) fn of(&self, line: u64) -> Option<EntryId> {
        let line = u32::try_from(line).ok()?;
        self.unusual_ids.get(&line).cloned().or_else(|| self.usual_id(line))
    }

    /// Whether a line has its usual id.
    pub(super) fn is_usual(&self, line: u64) -> bool {
        u32::try_from(line).is_ok_and(|line| !self.source_ids.is_skipped(line) && !self.unusual_ids.contains_key(&line))
    }

    /// The lines that do not have their usual ids, each by the id that it has.
    pub(super) fn lines_with_unusual_ids(&self) -> HashMap<&EntryId, u64> {
        self.unusual_ids.iter().map(|(line, id)| (id, u64::from(*line))).collect()
    }

    fn usual_id(&self, line: u32) -> Option<EntryId> {
        if self.source_ids.is_skipped(line) {
            return None;
        }
        let id = self.source_ids.of_line(line).unwrap_or_else(|| format!("L{line}"));
        EntryId::new(id).ok()
    }
}

/// The lines whose usual id is `id`: the first line that contains `id`, and line N if `id` is `LN` and that line
/// contains no id.
fn usual_lines(source_ids: &SourceIds, id: &str) -> impl Iterator<Item = u32> {
    let with_id = source_ids.find(id).and_then(|number| source_ids.first_line(number));
    let without_id =
        generated_line(id).filter(|line| !source_ids.is_skipped(*line) && source_ids.number_of_line(*line).is_none());
    with_id.into_iter().chain(without_id)
}

/// The line that an entry with this id represents, if the entry has the usual id of a line.
pub(super) fn usual_line(source_ids: &SourceIds, id: &str) -> Option<u32> {
    usual_lines(source_ids, id).min()
}

/// The ids that a line may get, the preferred one first. If the line was imported before it was complete, that import
/// may have used some of these ids, so they are left out: one generated id for each such import, and the ids made from
/// the source's id if the incomplete form was a JSON object. If it was not (a torn form), its id was not read.
fn candidates<'a>(
    line: u32,
    source_id: Option<&'a str>,
    reimports: &[&ReimportedLine],
) -> impl Iterator<Item = EntryId> + 'a {
    let may_have_source_id = reimports.iter().any(|reimported| !reimported.was_torn);
    let source_id = source_id.filter(|id| !may_have_source_id && EntryId::new(id).is_ok());
    let ids_of_source = source_id.into_iter().flat_map(move |id| [id.to_owned(), format!("{id}#L{line}")]);
    let generated_ids = (1..).map(move |n| if n == 1 { format!("L{line}") } else { format!("L{line}#{n}") });
    ids_of_source.chain(generated_ids.skip(reimports.len())).filter_map(|id| EntryId::new(id).ok())
}

#[cfg(test)]
mod tests {
    use store_core::EntryId;

    use super::{LineIds, SourceIds};
    use crate::lines::source_ids::SourceLine;
    use crate::{provenance::ReimportedLine, session::StoredEntries};

    fn check(source_id: &[Option<&str>], foreign: &[&str], reimported: &[(u64, bool)], ids: &[&str]) {
        let mut source_ids = SourceIds::default();
        for (line, id) in (1..).zip(source_id) {
            if let Some(id) = id {
                source_ids.add(line, id, &[]);
            }
            source_ids.add_line(line, SourceLine::Content);
        }
        let mut stored = StoredEntries::default();
        stored.foreign_entries = foreign.iter().map(|id| EntryId::new(id).unwrap()).collect();
        let reimported: Vec<_> = reimported.iter().map(|&(line, was_torn)| ReimportedLine { line, was_torn }).collect();
        let found = LineIds::assign(&source_ids, &stored, &reimported);
        let found: Vec<_> =
            (1..=source_id.len() as u64).map(|line| found.of(line).unwrap().as_str().to_owned()).collect();
        assert_eq!(found, ids);
    }

    #[test]
    fn the_id_of_the_source_is_preferred() {
        check(&[Some("a"), Some("b"), Some("a"), Some("a")], &[], &[], &["a", "b", "a#L3", "a#L4"]);
        check(&[None, Some("L4"), Some("L1"), None], &[], &[], &["L1", "L4", "L1#L3", "L4#2"]);
        check(&[Some(" "), Some("a\nb"), Some(&"x".repeat(257))], &[], &[], &["L1", "L2", "L3"]);
        check(&[Some("a"), None], &["a", "L2"], &[], &["a#L1", "L2#2"]);
    }

    #[test]
    fn an_id_that_was_made_for_another_line_is_not_used_again() {
        check(&[Some("a"), Some("a"), Some("a#L2")], &[], &[], &["a", "a#L2", "a#L2#L3"]);
        check(&[Some("a#L2"), Some("a"), Some("a")], &[], &[], &["a#L2", "a", "a#L3"]);
        check(&[Some("a#L3"), Some("a"), Some("a")], &[], &[], &["a#L3", "a", "L3"]);
        check(&[None, None, Some("L2"), Some("L2#L3")], &[], &[], &["L1", "L2", "L2#L3", "L2#L3#L4"]);
        check(&[Some("b"), Some("b#L1")], &["b"], &[], &["b#L1", "b#L1#L2"]);
        check(&[Some("L2"), None, Some("L2#2")], &[], &[], &["L2", "L2#2", "L2#2#L3"]);
        check(&[Some(" "), Some("L1")], &[], &[], &["L1", "L1#L2"]);
    }

    #[test]
    fn an_incomplete_line_and_its_complete_form_get_different_ids() {
        check(&[Some("a"), Some("b")], &[], &[(2, true)], &["a", "b"]);
        check(&[Some("a"), None], &[], &[(2, true)], &["a", "L2#2"]);
        check(&[Some("a"), None], &[], &[(2, true), (2, true)], &["a", "L2#3"]);
        check(&[Some("a"), Some("b")], &[], &[(2, false)], &["a", "L2#2"]);
    }
}
