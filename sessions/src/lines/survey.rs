//! The first pass: ids, parents, line ends and hashes of a file, in one reading.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use store_core::EntryId;

use super::{About, LineFormat, ObjectLine, Part, Row, Sketch, session::LineSession};
use crate::{
    error::Result,
    facts::{Facts, FileFacts, LastLine},
    format::{self, Outcome, Surveyed},
    issue::{Code, Issues},
    json::Object,
    lenient,
    options::{HeadChoice, ImportOptions},
    source::{Ending, Line, Next, Source},
    tree::{Node, Tree},
};

/// Looks through a file of this format.
pub(crate) fn survey<F: LineFormat + 'static>(format: F, source: Source, options: &ImportOptions) -> Result<Outcome> {
    let mut survey = Survey::new(format);
    let mut lines = source.lines(u64::MAX)?;
    loop {
        match lines.next()? {
            Next::Line(line) => survey.line(&line),
            Next::Long(number) => {
                let detail = format!("longer than {} bytes", options.max_line);
                survey.issues.add(number, Code::LongLine, detail, "refused: the store has no blobs to hold it");
                return Ok(Outcome::Refused(survey.issues));
            }
            Next::End => break,
        }
    }
    if lines.is_cut() && survey.facts.last != LastLine::Torn {
        survey.issues.add_whole(Code::TornLastLine, "the compressed stream is cut off", "read as far as it goes");
    }
    (survey.facts.bytes, survey.facts.sha256) = lines.so_far();
    let (session, issues) = survey.finish(source, options)?;
    Ok(Outcome::Sessions(vec![Surveyed { session: Box::new(session), issues }]))
}

struct Survey<F: LineFormat> {
    format: F,
    issues: Issues,
    facts: FileFacts,
    tree: Tree<F::Data>,
    rows: Vec<Row>,
    nodes: HashMap<u64, usize>,
    ends: Vec<u64>,
    has_header: bool,
    seen: HashMap<String, HashSet<u64>>,
    calls: Vec<(String, u64, Option<usize>)>,
    results: Vec<(String, u64)>,
    /// The line that the writer was moved to after the last node.
    rewound: Option<Option<String>>,
}

impl<F: LineFormat> Survey<F> {
    fn new(format: F) -> Self {
        Self {
            format,
            issues: Issues::default(),
            facts: FileFacts::default(),
            tree: Tree::default(),
            rows: Vec::new(),
            nodes: HashMap::new(),
            ends: Vec::new(),
            has_header: false,
            seen: HashMap::new(),
            calls: Vec::new(),
            results: Vec::new(),
            rewound: None,
        }
    }

    fn line(&mut self, line: &Line) {
        self.facts.lines = line.number;
        self.facts.bom |= line.bom;
        if matches!(line.ending, Ending::CrLf | Ending::Cr) {
            self.facts.crlf.push(line.number);
        }
        if line.ending.is_open() {
            self.facts.last = LastLine::Open;
        }
        self.ends.push(line.end.saturating_sub(line.ending.len()));
        let row = if line.is_blank() { self.blank(line) } else { self.content(line) };
        self.rows.push(row);
    }

    fn blank(&mut self, line: &Line) -> Row {
        self.facts.blank.push(line.number);
        if !line.bytes.is_empty() {
            self.facts.spaces.push((line.number, String::from_utf8_lossy(&line.bytes).into_owned()));
        }
        Row::Blank
    }

    fn content(&mut self, line: &Line) -> Row {
        let lenient = lenient::read(&line.bytes);
        for &code in &lenient.odd {
            let (detail, action) = oddity(code);
            self.issues.add(line.number, code, detail, action);
        }
        let object = Object::parse(&lenient.text).filter(|_| !lenient.odd.contains(&Code::DeepJson));
        let Some(object) = object else {
            let code = if line.ending.is_open() { Code::TornLastLine } else { Code::MalformedLine };
            if line.ending.is_open() {
                self.facts.last = LastLine::Torn;
            }
            if !lenient.odd.contains(&Code::DeepJson) {
                self.issues.add(line.number, code, "no JSON object", "raw bytes kept beside the conversation");
            }
            return Row::Nameless;
        };
        if line.ending.is_open() {
            self.issues.add(line.number, Code::NoFinalNewline, "the last line has no line end", "read");
        }
        let sketch = self.format.sketch(&ObjectLine { number: line.number, object }, &mut self.issues);
        self.take(line, sketch)
    }

    fn take(&mut self, line: &Line, sketch: Sketch<F::Data>) -> Row {
        let Sketch { id, parent, part, calls, results } = sketch;
        if let Some(id) = &id {
            self.note_id(line, id);
        }
        let at = match part {
            Part::Header => {
                self.has_header = self.rows.iter().all(|row| matches!(row, Row::Blank));
                return Row::Nameless;
            }
            Part::Node(data) => {
                self.rewound = None;
                let at = self.tree.push(Node::new(line.number, id.clone(), parent, data));
                self.nodes.insert(line.number, at);
                Some(at)
            }
            Part::Side => None,
            Part::Rewind(to) => {
                self.rewound = Some(to);
                None
            }
        };
        self.calls.extend(calls.into_iter().map(|id| (id, line.number, at)));
        self.results.extend(results.into_iter().map(|id| (id, line.number)));
        Row::Named(id)
    }

    fn note_id(&mut self, line: &Line, id: &str) {
        if let Err(e) = EntryId::new(id) {
            self.issues.add(line.number, Code::BadField, format!("the id: {e}"), "the line has a made id");
        }
        let mut hasher = DefaultHasher::new();
        line.bytes.hash(&mut hasher);
        let hash = hasher.finish();
        match self.seen.get_mut(id) {
            None => {
                self.seen.insert(id.to_owned(), HashSet::from([hash]));
            }
            Some(lines) => {
                let code = if lines.insert(hash) { Code::DuplicateId } else { Code::DuplicateLine };
                self.issues.add(
                    line.number,
                    code,
                    format!("the id `{id}` stands twice"),
                    "kept as an entry of its own",
                );
            }
        }
    }

    fn finish(mut self, source: Source, options: &ImportOptions) -> Result<(LineSession<F>, Issues)> {
        self.note_pairs();
        if self.facts.bom {
            self.issues.add_whole(Code::Bom, "a byte order mark", "dropped for reading, back on export");
        }
        if !self.facts.crlf.is_empty() {
            let detail = format!("{} lines end in CR LF", self.facts.crlf.count());
            self.issues.add_whole(Code::Crlf, detail, "dropped for reading, back on export");
        }
        let mut names = self.format.names(&self.tree);
        for (id, _, at) in &self.calls {
            names.calls.entry(id.clone()).or_default().extend(*at);
        }
        let order = self.tree.settle(&names, &mut self.issues);
        self.format.settle(&mut self.tree, &order);
        let head = match options.head {
            HeadChoice::Writer => self.writer(),
            HeadChoice::FirstLeaf => self.tree.first_leaf(),
        };
        let about = about(&self.format, &source, self.facts)?;
        let Self { format, issues, tree, rows, nodes, ends, has_header, .. } = self;
        Ok((LineSession { format, source, about, tree, rows, nodes, ends, has_header, head }, issues))
    }

    /// The node where the source's writer stands.
    fn writer(&self) -> Option<usize> {
        let last = self.tree.len().checked_sub(1);
        match &self.rewound {
            None => last,
            Some(None) => None,
            Some(to) => {
                let target = self.tree.iter().rev().find(|(_, node)| node.given == *to);
                target.map(|(at, _)| at).or(last)
            }
        }
    }

    fn note_pairs(&mut self) {
        let called: HashSet<_> = self.calls.iter().map(|(id, ..)| id.as_str()).collect();
        let answered: HashSet<_> = self.results.iter().map(|(id, _)| id.as_str()).collect();
        let (mut open, mut orphans) = (HashSet::new(), HashSet::new());
        for (id, line, _) in self.calls.iter().filter(|(id, ..)| !answered.contains(id.as_str())) {
            if open.insert(id) {
                self.issues.add(*line, Code::OpenCall, format!("no result of `{id}`"), "kept; the context answers it");
            }
        }
        for (id, line) in self.results.iter().filter(|(id, _)| !called.contains(id.as_str())) {
            if orphans.insert(id) {
                let action = "kept; the context leaves it out";
                self.issues.add(*line, Code::OrphanResult, format!("no call of `{id}`"), action);
            }
        }
    }
}

fn about<F: LineFormat>(format: &F, source: &Source, facts: FileFacts) -> Result<format::About> {
    let thread: About = format.thread();
    let stem = source.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = [".gz", ".zst"].iter().fold(stem.as_str(), |stem, end| stem.strip_suffix(end).unwrap_or(stem));
    let stem = stem.strip_suffix(".jsonl").unwrap_or(stem);
    let mut fields = thread.fields();
    fields.parent_thread_id.clone_from(&thread.parent);
    let id = format::thread_id(&[thread.id.as_deref().unwrap_or(stem), stem, "session"])?;
    Ok(format::About {
        file: source.path().to_owned(),
        format: format.name(),
        version: thread.version,
        thread: id,
        is_child: false,
        fields,
        at: thread.at,
        facts: Facts::of(facts),
    })
}

/// What an odd character is called, and what happens to it.
const fn oddity(code: Code) -> (&'static str, &'static str) {
    match code {
        Code::InvalidUtf8 => ("bytes that are not UTF-8", "read as U+FFFD; raw bytes kept"),
        Code::LoneSurrogate => ("half of a surrogate pair", "read as U+FFFD; raw escape kept"),
        Code::ControlCharacter => ("a raw control character in a string", "read"),
        Code::DeepJson => ("nested deeper than 128", "raw bytes kept beside the conversation"),
        _ => ("the character U+0000", "kept"),
    }
}
