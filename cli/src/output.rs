//! Standard output: JSON for programs, or text for people, through a pager if a command asks for it.

use std::{
    fmt::Display,
    io::{self, BufWriter, Write},
    process::{Child, ChildStdin, Command, Stdio},
};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use console::{StyledObject, Term};
use serde::Serialize;

use crate::{
    failure::{Failure, Result},
    list::{LastColumn, list_lines},
    text::terminal_safe,
};

/// The width of text in columns if standard output is not a terminal.
const DEFAULT_WIDTH: usize = 100;

/// The output of a command.
pub(crate) struct Output {
    json: bool,
    width: usize,
    colour: bool,
    sink: Sink,
}

enum Sink {
    Direct(BufWriter<Stdout>),
    Paged(Child, BufWriter<ChildStdin>),
}

/// Standard output. The program that reads it, called the reader, may close it.
struct Stdout {
    inner: io::Stdout,
    /// Whether the command continues after the reader has closed the output. Writes then do nothing and do not fail.
    continues_without_reader: bool,
}

impl Stdout {
    fn ignoring_closed_reader<T>(&self, written: io::Result<T>, result_if_closed: T) -> io::Result<T> {
        match written {
            Err(error) if self.continues_without_reader && error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(result_if_closed)
            }
            written => written,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.ignoring_closed_reader(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flush_result = self.inner.flush();
        self.ignoring_closed_reader(flush_result, ())
    }
}

impl Output {
    /// Makes an output that writes JSON or text to standard output.
    pub(crate) fn new(json: bool) -> Self {
        let term = Term::stdout();
        let width = if term.is_term() { usize::from(term.size().1) } else { DEFAULT_WIDTH };
        Self {
            json,
            width: width.max(20),
            colour: !json && console::colors_enabled(),
            sink: Sink::Direct(BufWriter::new(Stdout { inner: io::stdout(), continues_without_reader: false })),
        }
    }

    /// Lets the command continue if the reader closes the output. `main` calls this for each command that does more
    /// than print.
    pub(crate) fn continue_without_reader(&mut self) {
        if let Sink::Direct(stdout) = &mut self.sink {
            stdout.get_mut().continues_without_reader = true;
        }
    }

    /// Returns whether the output is JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Returns whether a person reads the output while it is printed. This is the case if it is text and standard
    /// output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        !self.json && Term::stdout().is_term()
    }

    /// Returns the width of the output in columns.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// Returns how many columns of an id a table shows. A generated id is always shown in full.
    pub(crate) fn id_width(&self) -> usize {
        const GENERATED_ID_WIDTH: usize = 36;
        (self.width / 3).max(GENERATED_ID_WIDTH)
    }

    /// Returns `text` with a style. The style has an effect only if the output is text and colours are enabled.
    pub(crate) fn style<T>(&self, text: T) -> StyledObject<T> {
        console::style(text).force_styling(self.colour)
    }

    /// Prints a line of text.
    pub(crate) fn print_line(&mut self, text: impl Display) -> Result<()> {
        Ok(writeln!(self.writer(), "{text}")?)
    }

    /// Prints a line to standard error.
    pub(crate) fn print_to_stderr(&self, text: impl Display) {
        // A closed standard error must not end the command.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a JSON document on a line of its own. The text is complete before it is written, so that a document that
    /// cannot be serialized is not printed in part.
    pub(crate) fn print_document(&mut self, document: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(document)?;
        self.print_line(text)
    }

    /// Returns an empty table that fits the width of the output.
    pub(crate) fn table(&self, headings: &[&str]) -> Table {
        let mut table = Table::new();
        let width = u16::try_from(self.width).unwrap_or(u16::MAX);
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        table.set_header(headings);
        table
    }

    /// Prints a table without spaces at the beginning and end of its lines.
    pub(crate) fn print_table(&mut self, mut table: Table) -> Result<()> {
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        // An id that is wrapped over two lines cannot be copied.
        if let Some(ids) = table.column_mut(0) {
            ids.set_constraint(ColumnConstraint::ContentWidth);
        }
        for (index, line) in table.lines().enumerate() {
            // The style is applied after the layout, because the table would count control sequences as columns.
            let line = line.trim_end();
            if index == 0 { self.print_line(self.style(line).bold())? } else { self.print_line(line)? }
        }
        Ok(())
    }

    /// Prints a list of records whose ids are not cut ([`list_lines`]). The first cell of a row is its id.
    pub(crate) fn print_list(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Result<()> {
        self.print_list_lines((headings, LastColumn::Cut), rows)
    }

    /// As [`print_list`](Self::print_list), for lists whose last column has names that users copy: they are not cut.
    pub(crate) fn print_list_of_names(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Result<()> {
        self.print_list_lines((headings, LastColumn::Whole), rows)
    }

    fn print_list_lines(&mut self, columns: (&[&str], LastColumn), rows: &[Vec<String>]) -> Result<()> {
        for (index, lines) in list_lines(self.width, columns, rows).iter().enumerate() {
            for line in lines {
                if index == 0 { self.print_line(self.style(line).bold())? } else { self.print_line(line)? }
            }
        }
        Ok(())
    }

    /// Sends the output that follows through a pager, if it is text and standard output is a terminal.
    pub(crate) fn start_pager(&mut self) -> Result<()> {
        if !self.is_terminal() || !matches!(self.sink, Sink::Direct(_)) {
            return Ok(());
        }
        self.writer().flush()?;
        let pager_from_env = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
        let pager = pager_from_env.unwrap_or_else(|| "less".to_owned());
        let mut words = pager.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("less"));
        command.args(words).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // `less` quits if the text fits on a screen, passes colours through, and leaves the text on the screen.
            command.env("LESS", "FRX");
        }
        // If the pager cannot be started, the output is not paged.
        if let Ok(mut child) = command.spawn()
            && let Some(input) = child.stdin.take()
        {
            self.sink = Sink::Paged(child, BufWriter::new(input));
        }
        Ok(())
    }

    /// Writes out everything that was printed so far.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.writer().flush()?)
    }

    /// Writes out everything that was printed, and waits until the pager has ended.
    pub(crate) fn finish(self) -> Result<()> {
        match self.sink {
            Sink::Direct(mut stdout) => Ok(stdout.flush()?),
            Sink::Paged(mut child, mut input) => {
                let flush_result = input.flush();
                drop(input);
                child.wait().map_err(|error| Failure::io("the pager failed", error))?;
                Ok(flush_result?)
            }
        }
    }

    /// Returns the writer for bytes that are printed unchanged.
    pub(crate) fn writer(&mut self) -> &mut (dyn Write + Send) {
        match &mut self.sink {
            Sink::Direct(stdout) => stdout,
            Sink::Paged(_, input) => input,
        }
    }
}

/// Prints names, each on a line of its own, or as the list `heading` of a JSON document. Without any name, it prints
/// `text_if_none` as text.
pub(crate) fn print_names<T: Display>(
    out: &mut Output,
    (heading, text_if_none): (&str, &str),
    names: &[T],
) -> Result<()> {
    if out.is_json() {
        let mut list = JsonList::begin(out, &serde_json::json!({}), heading)?;
        names.iter().try_for_each(|name| list.item(&name.to_string()))?;
        return list.end();
    }
    if names.is_empty() {
        return out.print_line(text_if_none);
    }
    names.iter().try_for_each(|name| out.print_line(terminal_safe(&name.to_string())))
}

/// A list in one JSON document, written item by item: `{…head, "<name>":[…]}`.
pub(crate) struct JsonList<'a> {
    out: &'a mut Output,
    is_empty: bool,
}

impl<'a> JsonList<'a> {
    /// Begins the list `name` after the fields of `head`, a JSON object.
    pub(crate) fn begin(out: &'a mut Output, head: &impl Serialize, name: &str) -> Result<Self> {
        let head = serde_json::to_string(head)?;
        let open = head.strip_suffix('}').unwrap_or("{");
        let comma = if open.len() > 1 { "," } else { "" };
        write!(out.writer(), "{open}{comma}\"{name}\":[")?;
        Ok(Self { out, is_empty: true })
    }

    /// Writes an item.
    pub(crate) fn item(&mut self, item: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(item)?;
        let comma = if std::mem::take(&mut self.is_empty) { "" } else { "," };
        Ok(write!(self.out.writer(), "{comma}{text}")?)
    }

    /// Ends the list and its document.
    pub(crate) fn end(self) -> Result<()> {
        self.out.print_line("]}")
    }
}
