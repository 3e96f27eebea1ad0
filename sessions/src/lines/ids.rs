//! Entry ids of lines. If possible, an id is taken from the source. It is the same in every import of the same bytes.

use std::collections::HashSet;

use store_core::EntryId;

use crate::{provenance::ReimportedLine, session::StoredEntries};

/// What a line is, and the id that it contains.
#[derive(Debug)]
pub(crate) enum SourceLine {
    /// A blank line, or a line of another thread.
    Blank,
    /// The header, or a line that is not a JSON object.
    HeaderOrBroken,
    /// A node of the tree or a side entry, and the id that the line contains, if any.
    Content(Option<String>),
}

/// The entry ids of all lines.
#[derive(Debug)]
pub(crate) struct LineIds(Vec<Option<EntryId>>);

impl LineIds {
    /// Assigns an id to every line that is not blank. No other line and no entry that the import did not write has
    /// this id.
    pub(crate) fn assign(source_lines: &[SourceLine], stored: &StoredEntries, reimported: &[ReimportedLine]) -> Self {
        let mut taken: HashSet<String> = stored.foreign.iter().map(|id| id.as_str().to_owned()).collect();
        let mut assign_one = |(at, source_line): (usize, &SourceLine)| {
            let line = u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1);
            let source_id = match source_line {
                SourceLine::Blank => return None,
                SourceLine::HeaderOrBroken | SourceLine::Content(None) => None,
                SourceLine::Content(Some(source_id)) => Some(source_id.as_str()),
            };
            let reimports: Vec<_> = reimported.iter().filter(|reimported| reimported.line == line).collect();
            let first = candidates(line, source_id, &reimports).find(|id| !taken.contains(id.as_str()))?;
            taken.insert(first.as_str().to_owned());
            Some(first)
        };
        Self(source_lines.iter().enumerate().map(&mut assign_one).collect())
    }

    /// The id of a line. Lines are counted from 1.
    pub(crate) fn of(&self, line: u64) -> Option<&EntryId> {
        self.0.get(usize::try_from(line.checked_sub(1)?).ok()?)?.as_ref()
    }
}

/// The ids that a line may get, the preferred one first. If the line was imported before it was complete, the ids that
/// the incomplete line got are left out.
fn candidates<'a>(
    line: u64,
    source_id: Option<&'a str>,
    reimports: &[&ReimportedLine],
) -> impl Iterator<Item = EntryId> + 'a {
    let source_id = source_id.filter(|id| EntryId::new(id).is_ok());
    let ids_of_source = source_id.into_iter().flat_map(move |id| [id.to_owned(), format!("{id}#L{line}")]);
    let skip_own = if reimports.iter().any(|reimported| !reimported.torn) { 2 } else { 0 };
    let generated_ids = (1..).map(move |n| if n == 1 { format!("L{line}") } else { format!("L{line}#{n}") });
    ids_of_source.skip(skip_own).chain(generated_ids.skip(reimports.len())).filter_map(|id| EntryId::new(id).ok())
}

#[cfg(test)]
mod tests {
    use store_core::EntryId;

    use super::{LineIds, SourceLine};
    use crate::{provenance::ReimportedLine, session::StoredEntries};

    fn check(source_id: &[Option<&str>], foreign: &[&str], reimported: &[(u64, bool)], ids: &[&str]) {
        let source_lines: Vec<_> = source_id.iter().map(|id| SourceLine::Content(id.map(str::to_owned))).collect();
        let foreign = foreign.iter().map(|id| EntryId::new(id).unwrap()).collect();
        let reimported: Vec<_> = reimported.iter().map(|&(line, torn)| ReimportedLine { line, torn }).collect();
        let found = LineIds::assign(&source_lines, &StoredEntries { foreign, ..StoredEntries::default() }, &reimported);
        let found: Vec<_> =
            (1..=source_lines.len() as u64).map(|line| found.of(line).unwrap().as_str().to_owned()).collect();
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
    fn a_line_that_was_torn_gets_an_id_of_its_own() {
        check(&[Some("a"), Some("b")], &[], &[(2, true)], &["a", "b"]);
        check(&[Some("a"), None], &[], &[(2, true)], &["a", "L2#2"]);
        check(&[Some("a"), None], &[], &[(2, true), (2, true)], &["a", "L2#3"]);
        check(&[Some("a"), Some("b")], &[], &[(2, false)], &["a", "L2#2"]);
    }
}
