//! Ids for tests. They reveal whether a store trims, splits, quotes, folds or reorders ids.

/// Sixty ids that stores often mishandle: paths, patterns, quotes, separators, upper and lower case, Unicode forms,
/// writing directions, lengths.
pub(crate) fn unusual_valid_ids() -> Vec<String> {
    let mut ids: Vec<String> = UNUSUAL_IDS.iter().map(|id| (*id).to_owned()).collect();
    ids.extend(["x".repeat(255), "x".repeat(256), "é".repeat(128), "🦀".repeat(64), ".".repeat(256), "/".repeat(256)]);
    ids
}

const UNUSUAL_IDS: [&str; 54] = [
    ".",
    "..",
    "...",
    "/",
    "//",
    "\\",
    "../..",
    "..\\..",
    "../../../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a:b",
    "C:\\x",
    "~",
    "*",
    ">",
    "a.>",
    "a.*",
    "a.b",
    "a.b.c",
    "$JS.API",
    "$",
    "%",
    "%2e%2e%2f",
    "a%00b",
    "_",
    "__",
    "'",
    "\"",
    "`",
    "';--",
    "' OR '1'='1",
    "a;b",
    "a\u{a0}b",
    " a",
    "a ",
    "a b",
    "a  b",
    "a",
    "A",
    "é",
    "e\u{301}",
    "ﬁ",
    "ß",
    "İ",
    "שלום",
    "\u{202e}abc",
    "a\u{200b}b",
    "👩‍👩‍👧",
    "CON",
    "nul.txt",
    "-rf",
    "{\"id\":1}",
];

/// Two different pairs of ids in each row. A store that joins the ids of a pair with a separator would treat both pairs
/// as the same.
pub(super) const AMBIGUOUS_PAIRS: [[(&str, &str); 2]; 10] = [
    [("a", "b.c"), ("a.b", "c")],
    [("a", "b/c"), ("a/b", "c")],
    [("a", "b:c"), ("a:b", "c")],
    [("a", "b c"), ("a b", "c")],
    [("a", "b_c"), ("a_b", "c")],
    [("a", "b-c"), ("a-b", "c")],
    [("a", "b|c"), ("a|b", "c")],
    [("a", "b%2fc"), ("a%2fb", "c")],
    [("a.", ".b"), ("a..", "b")],
    [("a", "a.a"), ("a.a", "a")],
];
