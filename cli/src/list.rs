//! Lists of records, one record on a line: ids are printed in full, and a last column with text is cut where it does
//! not fit.

use console::{Alignment, measure_text_width, pad_str};

use crate::text::{one_line, terminal_safe};

/// The space between two columns.
const GAP: usize = 2;
/// How many columns of the last cell must fit beside the id; a shorter cell must fit completely. Otherwise ids get
/// lines of their own.
const LEAST_TEXT_WIDTH: usize = 12;

/// What happens to a cell of the last column that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastColumn {
    /// It is cut: the list only shows how a text or a value begins.
    Cut,
    /// It is printed in full, because it is a name that users copy. A terminal continues it on the next line.
    Whole,
}

/// Returns the lines of a list that is `width` columns wide: those of the headings, and then those of each row.
///
/// The first cell of a row is its id. If the other cells do not fit beside the longest id, each id gets a line of its
/// own. Columns without any text are left out.
pub(crate) fn list_lines(
    width: usize,
    (headings, last_column): (&[&str], LastColumn),
    rows: &[Vec<String>],
) -> Vec<Vec<String>> {
    let cell = |row: &[String], column: usize| terminal_safe(row.get(column).map_or("", String::as_str));
    let has_text = |column: &usize| *column == 0 || rows.iter().any(|row| !cell(row, *column).is_empty());
    let shown_columns: Vec<usize> = (0..headings.len()).filter(has_text).collect();
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    let records: Vec<Vec<String>> = std::iter::once(headings.as_slice())
        .chain(rows.iter().map(Vec::as_slice))
        .map(|row| shown_columns.iter().map(|&column| cell(row, column)).collect())
        .collect();
    let width_of = |column: usize| {
        records.iter().filter_map(|record| record.get(column)).map(|text| measure_text_width(text)).max()
    };
    let widths: Vec<usize> = (0..shown_columns.len()).map(|column| width_of(column).unwrap_or_default()).collect();
    let layout = Layout::new(width, &widths, last_column);
    records.iter().map(|record| layout.lines(record)).collect()
}

/// Where the cells of a record are.
struct Layout<'a> {
    /// The width of the ids, unless they have lines of their own.
    id_width: Option<usize>,
    /// The widths of the cells between the id and the last cell.
    middle: &'a [usize],
    /// The width of the last cell; none if it is never cut.
    last_width: Option<usize>,
}

impl<'a> Layout<'a> {
    fn new(width: usize, widths: &'a [usize], last_column: LastColumn) -> Self {
        let (id_width, others) = widths.split_first().unwrap_or((&0, &[]));
        let (longest_last, middle) = others.split_last().unwrap_or((&0, &[]));
        let middle_width: usize = middle.iter().map(|width| width + GAP).sum();
        let fits_beside_id = id_width + GAP + middle_width + (*longest_last).min(LEAST_TEXT_WIDTH) <= width;
        let start = if fits_beside_id { id_width + GAP } else { GAP };
        let last_width = width.saturating_sub(start + middle_width).max(1);
        let last_width = (last_column == LastColumn::Cut).then_some(last_width);
        Self { id_width: fits_beside_id.then_some(*id_width), middle, last_width }
    }

    fn lines(&self, record: &[String]) -> Vec<String> {
        let (id, others) = record.split_first().map_or(("", [].as_slice()), |(id, others)| (id.as_str(), others));
        let padded = |text: &str, width: usize| pad_str(text, width + GAP, Alignment::Left, None).into_owned();
        let mut cells: String = others.iter().zip(self.middle).map(|(text, &width)| padded(text, width)).collect();
        if let Some(last) = others.get(self.middle.len()) {
            cells.push_str(&self.last_width.map_or_else(|| last.clone(), |width| one_line(last, width)));
        }
        match self.id_width {
            Some(width) => vec![(padded(id, width) + &cells).trim_end().to_owned()],
            None => vec![id.to_owned(), (" ".repeat(GAP) + &cells).trim_end().to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LastColumn, list_lines};

    fn lines_with(width: usize, last_column: LastColumn, rows: &[[&str; 4]]) -> String {
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        list_lines(width, (&["thread", "version", "runs", "title"], last_column), &rows).concat().join("\n")
    }

    fn lines(width: usize, rows: &[[&str; 4]]) -> String {
        lines_with(width, LastColumn::Cut, rows)
    }

    #[test]
    fn the_last_column_is_cut_and_ids_are_not() {
        let rows = [["0123456789abcdef", "7", "", "a title of many words"], ["b", "12", "", ""]];
        assert_eq!(
            lines(40, &rows),
            "thread            version  title\n0123456789abcdef  7        a title of m…\nb                 12"
        );
        assert_eq!(
            lines(30, &rows),
            "thread\n  version  title\n0123456789abcdef\n  7        a title of many wo…\nb\n  12"
        );
    }

    #[test]
    fn a_last_column_of_names_is_not_cut() {
        let rows = [["a", "7", "", "config/prompts/a-name-of-many-characters"], ["b", "12", "", "x"]];
        assert_eq!(
            lines_with(30, LastColumn::Whole, &rows),
            "thread  version  title\na       7        config/prompts/a-name-of-many-characters\nb       12       x"
        );
    }

    #[test]
    fn a_column_without_text_is_left_out() {
        assert_eq!(lines(40, &[["a", "1", "2 open", ""]]), "thread  version  runs\na       1        2 open");
        assert_eq!(lines(40, &[["a", "1", "", ""]]), "thread  version\na       1");
    }
}
