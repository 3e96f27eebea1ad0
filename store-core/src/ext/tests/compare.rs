//! Comparisons of leaves (CX-16). A log is written as the parent of each entry, or `-` for a root: in `- 1 1`, the
//! entries 2 and 3 are below entry 1.

use std::sync::atomic::Ordering;

use super::{VecLog, id, thread};
use crate::{EntryQuery, ErrorKind, LogReader, LogReaderExt};

async fn load_seqs(log: &VecLog, query: EntryQuery) -> Vec<u64> {
    let page = log.list_entries(&thread(), query).await.unwrap();
    page.items.iter().map(|entry| entry.seq).collect()
}

/// Checks the comparison of two leaves: the last shared entry (0 for none), and the entries of each path after it.
async fn expect_comparison(
    log: &str,
    (left, right): (&str, &str),
    shared: u64,
    (left_rest, right_rest): (&[u64], &[u64]),
) {
    let log = VecLog::new(log);
    let comparison = log.compare_leaves(&thread(), &id(left), &id(right)).await.unwrap();
    assert_eq!(comparison.shared.map_or(0, |entry| entry.seq), shared, "{left} and {right}");
    assert_eq!(load_seqs(&log, comparison.left).await, left_rest, "{left} and {right}");
    assert_eq!(load_seqs(&log, comparison.right).await, right_rest, "{left} and {right}");
}

#[tokio::test]
async fn leaves_share_the_path_up_to_their_branch_point() {
    let log = "- 1 2 3 2 5 - 7";
    expect_comparison(log, ("4", "6"), 2, (&[3, 4], &[5, 6])).await;
    expect_comparison(log, ("6", "4"), 2, (&[5, 6], &[3, 4])).await;
    expect_comparison(log, ("4", "3"), 3, (&[4], &[])).await;
    expect_comparison(log, ("1", "6"), 1, (&[], &[2, 5, 6])).await;
    expect_comparison(log, ("4", "4"), 4, (&[], &[])).await;
    expect_comparison(log, ("1", "1"), 1, (&[], &[])).await;
    expect_comparison(log, ("4", "8"), 0, (&[1, 2, 3, 4], &[7, 8])).await;
    expect_comparison("- - 1 2 3 4", ("5", "6"), 0, (&[1, 3, 5], &[2, 4, 6])).await;
    expect_comparison("- 1 1 2 3 4 5", ("6", "7"), 1, (&[2, 4, 6], &[3, 5, 7])).await;
}

#[tokio::test]
async fn the_number_of_reads_grows_with_the_logarithm_of_the_distance() {
    // Leaf 1000 ends the longest path. Leaf 1001 branches off at entry 999, and leaf 1002 at entry 10. A search by
    // single entries would read about 2,000 pages for leaf 1002.
    let path: Vec<_> = (1..1000).map(|parent| parent.to_string()).collect();
    let text = format!("- {} 999 10", path.join(" "));
    for (right, shared, max_pages) in [("1001", 999, 8), ("1002", 10, 50)] {
        let log = VecLog::new(&text);
        let comparison = log.compare_leaves(&thread(), &id("1000"), &id(right)).await.unwrap();
        assert_eq!(comparison.shared.unwrap().seq, shared);
        let pages_read = log.pages_read.load(Ordering::SeqCst);
        assert!(pages_read <= max_pages, "{pages_read} pages");
    }
}

#[tokio::test]
async fn the_error_names_an_unknown_leaf() {
    let error = VecLog::new("- 1").compare_leaves(&thread(), &id("2"), &id("9")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("`9`"), "{error}");
}
