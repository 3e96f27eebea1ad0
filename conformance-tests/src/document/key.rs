//! Keys of documents: no two keys name one document.

use store_core::KeySegment;

use super::helpers::{all_notes, documents, expect_keys, list, load_existing, note_key, put_at, segment, text, write};
use crate::{Given, Verdict, check::expect_eq};

/// Writes a note for each key, each in a write of its own, and checks that each is a document of its own.
async fn expect_different_documents(given: &Given, keys: Vec<Vec<KeySegment>>) -> Verdict {
    for (at, key) in keys.iter().enumerate() {
        write(given, [put_at(note_key(key).into(), &at.to_string())]).await?;
    }
    for (at, key) in keys.iter().enumerate() {
        let found = load_existing(given, &note_key(key).into()).await?;
        expect_eq((text(&found), found.key), (at.to_string(), note_key(key)))?;
    }
    expect_eq(list(given, all_notes()).await?.len(), keys.len())
}

/// Ids in keys are kept as they were given: nothing is trimmed, folded or normalised.
pub(super) async fn ids_in_keys_are_kept_as_given(given: &Given) -> Verdict {
    let texts = ["a", "A", " a", "a ", "é", "e\u{301}", "..", ".", "a.b", "%2F", "CON", "🦀", "$a", "#A1"];
    expect_different_documents(given, texts.map(|text| vec![segment(text)]).to_vec()).await
}

/// Keys do not collide, whatever separators their ids contain, and wherever one segment ends and the next begins.
pub(super) async fn segments_never_run_into_each_other(given: &Given) -> Verdict {
    let key = |texts: &[&str]| texts.iter().map(|text| segment(text)).collect::<Vec<_>>();
    let keys = vec![
        key(&["a", "b"]),
        key(&["a/b"]),
        key(&["ab"]),
        key(&["a", "b", "c"]),
        key(&["a/b", "c"]),
        key(&["a", "b/c"]),
        key(&["a$", "b"]),
        key(&["a", "$b"]),
        key(&["a$b"]),
    ];
    expect_different_documents(given, keys).await
}

/// A number and an id with the same digits are different segments.
pub(super) async fn a_number_is_not_its_text(given: &Given) -> Verdict {
    let number = KeySegment::Number;
    let keys = vec![
        vec![number(1)],
        vec![segment("1")],
        vec![number(1), number(2)],
        vec![number(1), segment("2")],
        vec![segment("1"), number(2)],
        vec![number(12)],
        vec![segment("12")],
        vec![segment("01")],
    ];
    expect_different_documents(given, keys).await?;
    expect_keys(given, all_notes().starting_with([number(1)]), "1 1/2 1/2").await
}

/// Keys of the greatest length and of eight segments work, and are compared to their last byte.
pub(super) async fn the_longest_keys_work(given: &Given) -> Verdict {
    let long_key = |last: char| {
        let last_text = format!("{}{last}", "z".repeat(181));
        vec![segment(&"x".repeat(256)), segment(&"y".repeat(256)), segment(&last_text)]
    };
    let eight = |last| [vec![segment("n"); 7], vec![KeySegment::Number(last)]].concat();
    expect_different_documents(given, vec![long_key('a'), long_key('b'), eight(1), eight(u64::MAX)]).await?;
    let wanted = [long_key('a'), long_key('b')].map(|key| note_key(&key).into());
    let found = documents(given)?.load_documents(&wanted).await?;
    expect_eq(found.iter().flatten().map(text).collect::<Vec<_>>(), ["0", "1"])
}
