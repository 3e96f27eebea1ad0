//! The first pass: reads a file once and finds its ids, parents, line ends and hashes.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use store_core::EntryId;

use super::{LineFormat, LineKind, ObjectLine, ParsedLine, RewindTarget, SourceLine, ThreadInfo, session::LineSession};
use crate::{
    error::Result,
    issue::{IssueCode, Issues},
    options::{HeadChoice, ImportOptions, ParentChoice},
    provenance::{FileProvenance, Provenance},
    scan::{LineContent, ScannedFile, scan},
    session::{self, SurveyOutcome, SurveyedSession},
    source::{Line, Source},
    tree::{Node, Tree},
};

/// Runs the first pass over a file of this format.
pub(crate) fn survey<F: LineFormat + 'static>(
    format: F,
    source: Source,
    options: &ImportOptions,
) -> Result<SurveyOutcome> {
    Ok(match survey_file(format, FileOfThread { source, name: None }, options)? {
        Ok(surveyed) => SurveyOutcome::Sessions(vec![surveyed]),
        Err(issues) => SurveyOutcome::Refused(issues),
    })
}

/// A file whose lines become a thread.
pub(crate) struct FileOfThread {
    pub(crate) source: Source,
    /// The name of the file in the provenance, if the source has several files or threads.
    pub(crate) name: Option<String>,
}

/// Runs the first pass over one of the files of a session. If the file is refused, the result is the issues that say
/// why.
pub(crate) fn survey_file<F: LineFormat + 'static>(
    format: F,
    FileOfThread { source, name }: FileOfThread,
    options: &ImportOptions,
) -> Result<Result<SurveyedSession, Issues>> {
    let owns_file = format.owns_file();
    let mut survey = Survey::new(format);
    let (mut issues, mut issues_of_owner) = (Issues::default(), Issues::default());
    issues.set_file(name.clone());
    let scan = if owns_file {
        scan(&source, name.as_ref(), &mut issues, &mut |line, content, issues| survey.add_line(line, content, issues))?
    } else {
        let mut add_line = |line: &Line, content: LineContent<'_>, _: &mut Issues| match content {
            LineContent::Broken => survey.source_lines.push(SourceLine::Blank),
            content => survey.add_line(line, content, &mut issues),
        };
        scan(&source, name.as_ref(), &mut issues_of_owner, &mut add_line)?
    };
    let Some(scan) = scan else { return Ok(Err(if owns_file { issues } else { issues_of_owner })) };
    let session = survey.finish(source, scan, (options, &mut issues))?;
    Ok(Ok(SurveyedSession { session: Box::new(session), issues }))
}

/// What the first pass has found so far.
struct Survey<F: LineFormat> {
    format: F,
    tree: Tree<F::LineData>,
    source_lines: Vec<SourceLine>,
    nodes: HashMap<u64, usize>,
    has_header: bool,
    /// For each id that lines contain: the hashes of these lines.
    line_hashes: HashMap<String, HashSet<u64>>,
    /// The id of each call, the number of its line, and the position of the line in the tree.
    calls: Vec<(String, u64, Option<usize>)>,
    /// The call id of each result, and the number of its line.
    results: Vec<(String, u64)>,
    /// Where the head was moved to after the last node, if it was moved.
    rewound: Option<RewindTarget>,
}

impl<F: LineFormat> Survey<F> {
    fn new(format: F) -> Self {
        Self {
            format,
            tree: Tree::default(),
            source_lines: Vec::new(),
            nodes: HashMap::new(),
            has_header: false,
            line_hashes: HashMap::new(),
            calls: Vec::new(),
            results: Vec::new(),
            rewound: None,
        }
    }

    fn add_line(&mut self, line: &Line, content: LineContent<'_>, issues: &mut Issues) {
        let source_line = match content {
            LineContent::Blank => SourceLine::Blank,
            LineContent::Broken => SourceLine::HeaderOrBroken,
            LineContent::Object(object) => {
                let parsed = self.format.parse_line(&ObjectLine { number: line.number, object }, issues);
                self.add_parsed_line(line, parsed, issues)
            }
        };
        self.source_lines.push(source_line);
    }

    fn add_parsed_line(&mut self, line: &Line, parsed: ParsedLine<F::LineData>, issues: &mut Issues) -> SourceLine {
        let ParsedLine { id, parent, kind, calls, results } = parsed;
        if let Some(id) = id.as_ref().filter(|_| !matches!(kind, LineKind::Elsewhere)) {
            self.note_id(line, id, issues);
        }
        let at = match kind {
            LineKind::Header => {
                self.has_header = self.source_lines.iter().all(|source_line| matches!(source_line, SourceLine::Blank));
                return SourceLine::HeaderOrBroken;
            }
            LineKind::Node(data) => {
                self.rewound = None;
                let at = self.tree.push(Node::new(line.number, id.clone(), parent, data));
                self.nodes.insert(line.number, at);
                Some(at)
            }
            LineKind::Side => None,
            LineKind::Elsewhere => return SourceLine::Blank,
            LineKind::Rewind(to) => {
                self.rewound = Some(to);
                None
            }
        };
        self.calls.extend(calls.into_iter().map(|id| (id, line.number, at)));
        self.results.extend(results.into_iter().map(|id| (id, line.number)));
        SourceLine::Content(id)
    }

    fn note_id(&mut self, line: &Line, id: &str, issues: &mut Issues) {
        if let Err(e) = EntryId::new(id) {
            issues.add(line.number, IssueCode::BadField, format!("the id: {e}"), "the line gets a generated id");
        }
        let mut hasher = DefaultHasher::new();
        line.bytes.hash(&mut hasher);
        let hash = hasher.finish();
        match self.line_hashes.get_mut(id) {
            None => {
                self.line_hashes.insert(id.to_owned(), HashSet::from([hash]));
            }
            Some(lines) => {
                let code = if lines.insert(hash) { IssueCode::DuplicateId } else { IssueCode::DuplicateLine };
                issues.add(line.number, code, format!("the id `{id}` occurs twice"), "kept as an entry of its own");
            }
        }
    }

    fn finish(
        mut self,
        source: Source,
        scan: ScannedFile,
        (options, issues): (&ImportOptions, &mut Issues),
    ) -> Result<LineSession<F>> {
        self.note_unpaired_calls(issues);
        let mut names = self.format.parent_names(&self.tree);
        for (id, _, at) in &self.calls {
            names.calls.entry(id.clone()).or_default().extend(*at);
        }
        names.nearest = options.parents == ParentChoice::Nearest;
        let format = &self.format;
        let mut order = self.tree.resolve_parents(&names, &|data| format.is_message(data), issues);
        if let Some(parents) = self.format.adjust_parents(&mut self.tree) {
            order = self.tree.set_parents(&parents);
        }
        self.format.derive_path_data(&mut self.tree, &order);
        let head = match options.head {
            HeadChoice::Writer => self.writer_head(issues),
            HeadChoice::FirstLeaf => self.tree.first_leaf(),
        };
        let activity = self.format.take_activity(&self.tree);
        let info = session_info(&self.format, &source, scan.provenance)?;
        let Self { format, tree, source_lines, nodes, has_header, .. } = self;
        let line_ends = scan.line_ends;
        Ok(LineSession { format, source, info, tree, source_lines, nodes, line_ends, has_header, head, activity })
    }

    /// The node after which the program that writes the source would continue.
    fn writer_head(&self, issues: &mut Issues) -> Option<usize> {
        let last = self.tree.iter().rev().find(|(_, node)| self.format.can_be_head(&node.data)).map(|(at, _)| at);
        match self.format.named_head().as_ref().or(self.rewound.as_ref()) {
            None => last,
            Some(RewindTarget::Start) => None,
            Some(RewindTarget::Node(at)) => Some(*at),
            Some(RewindTarget::Named(to)) => {
                let target = self.tree.iter().rev().find(|(_, node)| node.source_id.as_ref() == Some(to));
                if target.is_none() {
                    let detail = format!("the head `{to}` is no line of the tree");
                    issues.add_for_file(IssueCode::BadField, detail, "the last line is the head");
                }
                target.map(|(at, _)| at).or(last)
            }
        }
    }

    fn note_unpaired_calls(&self, issues: &mut Issues) {
        let called: HashSet<_> = self.calls.iter().map(|(id, ..)| id.as_str()).collect();
        let answered: HashSet<_> = self.results.iter().map(|(id, _)| id.as_str()).collect();
        let (mut open, mut orphans) = (HashSet::new(), HashSet::new());
        for (id, line, _) in self.calls.iter().filter(|(id, ..)| !answered.contains(id.as_str())) {
            if open.insert(id) {
                issues.add(
                    *line,
                    IssueCode::OpenCall,
                    format!("no result for call `{id}`"),
                    "kept; the context adds a result",
                );
            }
        }
        for (id, line) in self.results.iter().filter(|(id, _)| !called.contains(id.as_str())) {
            if orphans.insert(id) {
                let action = "kept; the context leaves the result out";
                issues.add(*line, IssueCode::OrphanResult, format!("no call for result `{id}`"), action);
            }
        }
    }
}

/// The name of a session file without its extensions.
pub(crate) fn file_stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = [".gz", ".zst"].iter().fold(name.as_str(), |stem, end| stem.strip_suffix(end).unwrap_or(stem));
    stem.strip_suffix(".jsonl").unwrap_or(stem).to_owned()
}

fn session_info<F: LineFormat>(
    format: &F,
    source: &Source,
    provenance: FileProvenance,
) -> Result<session::SessionInfo> {
    let thread: ThreadInfo = format.thread_info();
    let stem = file_stem(source.path());
    let mut fields = thread.fields();
    fields.parent_thread_id.clone_from(&thread.parent);
    let id = session::first_valid_thread_id(&[thread.id.as_deref().unwrap_or(&stem), &stem, "session"])?;
    Ok(session::SessionInfo {
        file: source.path().to_owned(),
        format: format.name(),
        version: thread.version,
        has_session_id: thread.id.as_deref() == Some(id.as_str()),
        thread: id,
        is_child: false,
        fields,
        created_at: thread.created_at,
        provenance: Provenance::of(provenance),
    })
}
