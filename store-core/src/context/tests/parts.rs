//! Tests of the parts of a context (CX-1, CX-3 to CX-5). `mod.rs` explains the notation.

use crate::{
    codec::Extra,
    context::{ContextPart, parts},
    error::Result,
    log::{CoveredDepths, Node, node},
};

/// Makes a log from one word for each entry: its parent (`-` for a root), then `s` for a side entry, `o` for a message
/// that names its origin, or `c` with the depths that it covers as a compaction (`c0-0` for nothing).
fn parse_log(text: &str) -> Vec<Node> {
    let mut log: Vec<Node> = Vec::new();
    for (word, seq) in text.split_whitespace().zip(1..) {
        let (parent, cover) = word.split_once('c').map_or((word, None), |(parent, cover)| (parent, Some(cover)));
        let (parent, origin) = parent.strip_suffix('o').map_or((parent, None), |parent| (parent, Some(seq)));
        let (parent, side) = parent.strip_suffix('s').map_or((parent, false), |parent| (parent, true));
        let parent = parent.parse::<usize>().ok().map(|parent| log[parent - 1].clone());
        let covers = cover.map(|cover| {
            let (from, to) = cover.split_once('-').unwrap();
            CoveredDepths::new(from.parse().unwrap(), to.parse().unwrap())
        });
        let nodes = |seq: u64| node_at(&log, seq);
        let parent_compaction = parent.as_ref().and_then(|parent| parent.compaction);
        log.push(Node {
            seq,
            parent: parent.as_ref().map(|parent| parent.seq),
            side,
            depth: parent.as_ref().map_or(0, |parent| parent.depth) + u64::from(!side),
            jump: parent
                .as_ref()
                .filter(|_| !side)
                .and_then(|parent| node::jump_pointer_below(&nodes, parent).unwrap()),
            compaction: if covers.is_some() && !side { Some(seq) } else { parent_compaction },
            checkpoint: None,
            checkpoint_number: None,
            origin: origin.or_else(|| parent.as_ref().and_then(|parent| parent.origin)),
            context_size: None,
            covers,
            target: None,
            extra: Extra::default(),
        });
    }
    log
}

fn node_at(log: &[Node], seq: u64) -> Result<Node> {
    Ok(log[usize::try_from(seq).unwrap() - 1].clone())
}

/// Checks the parts of the context of entry `leaf` of the log. `C` marks a summary, `O` a source of the model.
#[track_caller]
fn expect_parts(text: &str, leaf: u64, expected: &str) {
    let log = parse_log(text);
    let nodes = |seq: u64| node_at(&log, seq);
    let found = parts(&nodes, &node_at(&log, leaf).unwrap()).unwrap();
    let render = |part: &ContextPart| match part {
        ContextPart::Entry(seq) => seq.to_string(),
        ContextPart::Summary(seq) => format!("C{seq}"),
        ContextPart::ModelSource(seq) => format!("O{seq}"),
    };
    assert_eq!(found.iter().map(render).collect::<Vec<_>>().join(" "), expected, "entry {leaf} of {text}");
}

#[test]
fn the_parts_are_the_entries_from_the_root_to_the_leaf() {
    expect_parts("- 1 2", 3, "1 2 3");
    expect_parts("- 1 2", 2, "1 2");
    expect_parts("- 1 1 3", 4, "1 3 4");
    expect_parts("- 1 - 3", 4, "3 4");
}

#[test]
fn a_side_entry_has_the_path_of_its_parent() {
    expect_parts("- 1 2s 2", 3, "1 2");
    expect_parts("- 1 2s 2", 4, "1 2 4");
    expect_parts("-s", 1, "");
    expect_parts("- 1 2c1-1 3s", 4, "C3 2");
    expect_parts("- 1 2sc1-2 2", 4, "1 2 4");
}

#[test]
fn a_summary_appears_where_its_interval_begins() {
    expect_parts("- 1 2 3c1-2 4", 5, "C4 3 5");
    expect_parts("- 1 2 3c1-3 4", 5, "C4 5");
    expect_parts("- 1 2 3c1-3", 4, "C4");
    expect_parts("- 1 2 3c2-3 4", 5, "1 C4 5");
    expect_parts("- 1 2 3c2-2 4", 5, "1 C4 3 5");
    expect_parts("- 1 2 3c1-2 4", 3, "1 2 3");
}

#[test]
fn a_compaction_counts_on_its_own_branch_only() {
    expect_parts("- 1 2c1-2 2 4", 5, "1 2 4 5");
    expect_parts("- 1 2c1-2 2c2-2 4", 5, "1 C4 5");
    expect_parts("- 1c1-1 - 3c1-1", 4, "C4");
}

#[test]
fn the_latest_compaction_with_the_same_start_counts() {
    expect_parts("- 1 2 3c1-2 4 5c1-3", 6, "C6 5");
    expect_parts("- 1 2 3c1-3 4 5c1-2", 6, "C6 3 5");
    expect_parts("- 1 2 3c2-3 4 5c2-2", 6, "1 C6 3 5");
}

#[test]
fn only_a_compaction_inside_another_is_hidden() {
    expect_parts("- 1 2 3c2-2 4c1-3 5", 6, "C5 6");
    expect_parts("- 1 2 3c1-3 4c2-2 5", 6, "C4 6");
    expect_parts("- 1 2 3c1-1 4c3-3 5", 6, "C4 2 C5 6");
    expect_parts("- 1 2 3c2-3 4 5c4-5 6", 7, "1 C4 C6 7");
    // A newer compaction replaces an older one that begins at the same entry. If the newer one is shorter, a compaction
    // inside the older one can appear again.
    expect_parts("- 1 2 3c2-2 4c1-3 5c1-1 6", 7, "C6 C4 3 7");
    expect_parts("- 1 2 3 4c3-3 5c2-4 6c2-2 7", 8, "1 C7 C5 4 8");
    expect_parts("- 1 2 3c2-2 4c1-4 5c1-1 6", 7, "C6 C4 3 7");
}

#[test]
fn a_compaction_that_covers_nothing_comes_before_the_first_message() {
    expect_parts("-c0-0 1 2", 3, "C1 2 3");
    expect_parts("- 1c0-0 2", 3, "C2 1 3");
    expect_parts("- 1c0-0 2c0-0 3", 4, "C3 1 4");
    expect_parts("- 1c0-0 2c1-2 3", 4, "C3 4");
    expect_parts("- 1 2c0-0 3c1-2 4", 5, "C3 C4 5");
    expect_parts("- 1 2c1-2 3c0-0 4", 5, "C4 C3 5");
}

#[test]
fn the_model_last_in_effect_is_known_after_a_summary() {
    expect_parts("-o 1 2 3c1-3 4", 5, "O1 C4 5");
    expect_parts("-o 1o 2c1-1 3", 4, "C3 2 4");
    expect_parts("-o 1o 2c1-2 3", 4, "O2 C3 4");
    expect_parts("-o 1c1-1 2o", 3, "C2 3");
}

#[test]
fn entries_hidden_by_a_summary_are_not_visited() {
    let path: Vec<_> =
        (1..1000).map(|at| if at % 10 == 0 { format!("{at}c{at}-{at}") } else { at.to_string() }).collect();
    let text = format!("- {} 1000c1-1000 1001 1002c0-0", path.join(" "));
    let log = parse_log(&text);
    let steps = std::cell::Cell::new(0);
    let nodes = |seq: u64| {
        steps.set(steps.get() + 1);
        node_at(&log, seq)
    };
    let expected = [ContextPart::Summary(1003), ContextPart::Summary(1001), ContextPart::Entry(1002)];
    assert_eq!(parts(&nodes, &log[1002]).unwrap(), expected);
    // Without the jump pointers the search would visit all 1,000 entries that the summary covers.
    assert!(steps.get() < 12, "{} steps", steps.get());
}
