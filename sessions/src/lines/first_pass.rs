//! The first pass: reads a file once and finds its ids, parents, line ends and hashes.

use std::path::Path;

use store_core::EntryId;

use super::{
    LineFormat, LineKind, ObjectLine, ParsedLine, RewindTarget, ThreadInfo,
    calls::CallPairs,
    session::LineSession,
    source_ids::{Repeat, SourceLine},
};
use crate::{
    error::Result,
    issue::{IssueCode, Issues},
    options::{HeadChoice, ImportOptions, ParentChoice},
    provenance::{FileProvenance, Provenance},
    scan::{LineContent, ScannedFile, scan},
    session::{self, FirstPassResult, SessionWithIssues},
    source::{Line, Source},
    tree::Tree,
};

/// Runs the first pass over a file of this format.
pub(crate) fn run_first_pass<F: LineFormat + 'static>(
    format: F,
    source: Source,
    options: &ImportOptions,
) -> Result<FirstPassResult> {
    Ok(match run_first_pass_on_file(format, FileOfThread { source, name: None }, options)? {
        Ok(session) => FirstPassResult::Sessions(vec![session]),
        Err(issues) => FirstPassResult::Refused(issues),
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
pub(crate) fn run_first_pass_on_file<F: LineFormat + 'static>(
    format: F,
    FileOfThread { source, name }: FileOfThread,
    options: &ImportOptions,
) -> Result<Result<SessionWithIssues, Issues>> {
    let owns_file = format.owns_file();
    let mut pass = FirstPass::new(format);
    // If another thread owns the file, the issues of the file are in the report of that thread.
    let (mut issues, mut issues_of_owner) = (Issues::default(), Issues::default());
    issues.set_file(name.clone());
    let scan = if owns_file {
        scan(&source, name.as_ref(), &mut issues, &mut |line, content, issues| pass.add_line(line, content, issues))?
    } else {
        let mut add_line = |line: &Line, content: LineContent<'_>, _: &mut Issues| match content {
            LineContent::Broken => pass.tree.source_ids_mut().add_line(line.number, SourceLine::Skipped),
            content => pass.add_line(line, content, &mut issues),
        };
        scan(&source, name.as_ref(), &mut issues_of_owner, &mut add_line)?
    };
    let Some(scan) = scan else { return Ok(Err(if owns_file { issues } else { issues_of_owner })) };
    let session = pass.finish(source, scan, (options, &mut issues))?;
    Ok(Ok(SessionWithIssues { session: Box::new(session), issues }))
}

/// What the first pass has found so far.
struct FirstPass<F: LineFormat> {
    format: F,
    tree: Tree<F::LineData>,
    has_header: bool,
    calls: CallPairs,
    /// The place to which the head was moved after the last node, if it was moved.
    rewind_target: Option<RewindTarget>,
}

impl<F: LineFormat> FirstPass<F> {
    fn new(format: F) -> Self {
        Self { format, tree: Tree::default(), has_header: false, calls: CallPairs::default(), rewind_target: None }
    }

    fn add_line(&mut self, line: &Line, content: LineContent<'_>, issues: &mut Issues) {
        let source_line = match content {
            LineContent::Blank => SourceLine::Skipped,
            LineContent::Broken => SourceLine::HeaderOrBroken,
            LineContent::Object(object) => {
                let parsed = self.format.parse_line(&ObjectLine { number: line.number, object }, issues);
                self.add_parsed_line(line, parsed, issues)
            }
        };
        self.tree.source_ids_mut().add_line(line.number, source_line);
    }

    fn add_parsed_line(&mut self, line: &Line, parsed: ParsedLine<F::LineData>, issues: &mut Issues) -> SourceLine {
        let ParsedLine { id, parent, kind, calls, results } = parsed;
        if let Some(id) = id.as_ref().filter(|_| !matches!(kind, LineKind::OfOtherThread | LineKind::Header)) {
            self.note_id(line, id, issues);
        }
        let at = match kind {
            LineKind::Header => {
                self.has_header = self.tree.source_ids().has_only_skipped_lines();
                return SourceLine::HeaderOrBroken;
            }
            LineKind::Node(data) => {
                self.rewind_target = None;
                Some(self.tree.push(line.number, parent, data))
            }
            LineKind::Side => None,
            LineKind::OfOtherThread => return SourceLine::Skipped,
            LineKind::Rewind(to) => {
                self.rewind_target = Some(to);
                None
            }
        };
        for id in calls {
            if let Some(at) = at.filter(|_| self.format.has_parents_by_call()) {
                self.calls.add_position(&id, at);
            }
            self.calls.add_call(id, line.number);
        }
        results.into_iter().for_each(|id| self.calls.add_result(id, line.number));
        SourceLine::Content
    }

    fn note_id(&mut self, line: &Line, id: &str, issues: &mut Issues) {
        if let Err(e) = EntryId::new(id) {
            issues.add(line.number, IssueCode::BadField, format!("the id: {e}"), "the line gets a generated id");
        }
        if let Some(repeat) = self.tree.source_ids_mut().add(line.number, id, &line.bytes) {
            let code = match repeat {
                Repeat::Line => IssueCode::DuplicateLine,
                Repeat::Id => IssueCode::DuplicateId,
            };
            issues.add(line.number, code, format!("the id `{id}` occurs twice"), "kept as an entry of its own");
        }
    }

    fn finish(
        mut self,
        source: Source,
        scan: ScannedFile,
        (options, issues): (&ImportOptions, &mut Issues),
    ) -> Result<LineSession<F>> {
        self.calls.note_unpaired(issues);
        let mut policy = self.format.parent_policy(&self.tree);
        for (id, positions) in self.calls.positions_of(self.tree.unknown_parents()) {
            policy.calls.entry(id).or_default().extend(positions);
        }
        self.calls = CallPairs::default();
        policy.preceding_replaces_root = options.parents == ParentChoice::Nearest;
        let format = &self.format;
        let mut order = self.tree.resolve_parents(&policy, &|data| format.is_message(data), issues);
        if let Some(parents) = self.format.adjust_parents(&mut self.tree) {
            order = self.tree.set_parents(parents);
        }
        self.format.derive_path_data(&mut self.tree, &order);
        let head = match options.head {
            HeadChoice::Writer => self.writer_head(issues),
            HeadChoice::FirstLeaf => self.tree.first_leaf(),
        };
        let activity = self.format.take_activity(&self.tree);
        let info = session_info(&self.format, &source, scan.provenance)?;
        let Self { format, tree, has_header, .. } = self;
        Ok(LineSession { format, source, info, tree, line_ends: scan.line_ends, has_header, head, activity })
    }

    /// The node after which the program that writes the source would continue.
    fn writer_head(&self, issues: &mut Issues) -> Option<usize> {
        let last = self.tree.iter().rev().find(|(_, data)| self.format.can_be_head(data)).map(|(at, _)| at);
        match self.format.named_head().as_ref().or(self.rewind_target.as_ref()) {
            None => last,
            Some(RewindTarget::Start) => None,
            Some(RewindTarget::Node(at)) => Some(*at),
            Some(RewindTarget::Named(to)) => {
                let target = self.tree.nodes_with_id(to).last().copied();
                if target.is_none() {
                    let detail = format!("the head `{to}` is not a line of the tree");
                    issues.add_for_file(IssueCode::BadField, detail, "the last line is the head");
                }
                target.or(last)
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
