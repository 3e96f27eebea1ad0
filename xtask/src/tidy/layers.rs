//! Checks that the modules of `store-file` import only what is below them.

use super::Source;

const FOLDER: &str = "store-file/src/";

/// The modules of `store-file`, from the bottom to the top. A module imports only modules that come before it.
const LAYERS: &[&[&str]] = &[
    // What the system gives.
    &["mutex", "vfs", "error", "pool"],
    // Files below the root.
    &["line", "log", "files", "readers", "names", "object_files", "registry"],
    // What a root is, and its journal.
    &["journal", "report", "damage", "lock", "meta", "config", "overlay", "watch", "root"],
    // The index.
    &["index", "planned", "tails", "pages", "recent", "table", "codec", "walk", "staged"],
    // What a group changes in the index.
    &["dispatch_rows", "outbox_rows", "sweep", "fold"],
    // From the logs to the index.
    &["facts", "decoded", "replay", "catch_up", "recovery"],
    // What all handles share, and what the rules of core look at.
    &["remembered", "shared", "space", "records", "dispatches", "dispatch_lists", "view"],
    // Changes.
    &["writer", "purge", "rewrite", "deletion", "refresh", "opening"],
    // The contracts.
    &[
        "tenant",
        "commit",
        "runs",
        "entries",
        "threads",
        "pending",
        "events",
        "outbox",
        "mailbox",
        "documents",
        "dump",
        "objects",
        "health",
        "store",
        "inspect",
        "compress",
        "reclaim",
        "lib",
    ],
];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let order: Vec<&str> = LAYERS.concat();
    let place = |module: &str| order.iter().position(|known| *known == module);
    let mut findings = Vec::new();
    for Source { path, text } in sources {
        let Some(name) = path.strip_prefix(FOLDER) else { continue };
        if name.contains("/tests") || name.ends_with("tests.rs") {
            continue;
        }
        let module = name.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = place(module) else {
            findings.push(format!("{path}: `{module}` is not in the table of layers of xtask/src/tidy/layers.rs"));
            continue;
        };
        for import in imports(text) {
            if place(import).is_some_and(|place| place > own) {
                findings.push(format!("{path}: `{import}` is above `{module}`"));
            }
        }
    }
    findings
}

/// The modules of the crate that a text names outside of its tests.
fn imports(text: &str) -> Vec<&str> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut names = Vec::new();
    let mut depth = 0_usize;
    for line in code {
        // In a group of imports, each module begins a line.
        if depth == 1 && !line.starts_with('}') {
            names.extend(line.split(',').map(|item| first_name(item.trim())));
        }
        if line.starts_with("use crate::{") || line.starts_with("pub(crate) use crate::{") {
            depth = 1;
            names.extend(
                line.split_once('{')
                    .map(|(_, rest)| rest)
                    .into_iter()
                    .flat_map(|rest| rest.split(','))
                    .map(|item| first_name(item.trim())),
            );
            if line.ends_with("};") {
                depth = 0;
            }
            continue;
        }
        if depth > 0 {
            depth += line.matches('{').count();
            depth -= line.matches('}').count().min(depth);
            continue;
        }
        names.extend(line.split("crate::").skip(1).map(first_name));
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Source, check, imports};

    #[test]
    fn imports_are_found_in_groups_and_in_paths() {
        let text = "use crate::{\n    codec::{Rows, damaged},\n    error, index,\n    shared::{\n        A,\n        b,\n    },\n};\n\
            use crate::{view, walk::Walk};\nuse crate::lock::Lock;\n// crate::comment\nfn f() { crate::purge::all() }\n\
            #[cfg(test)]\nmod tests {\n    use crate::store;\n}\n";
        let names = ["codec", "damaged", "error", "index", "shared", "view", "walk", "lock", "purge"];
        assert_eq!(imports(text), names);
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let up = source("store-file/src/view.rs", "use crate::writer::Round;\n");
        let down = source("store-file/src/writer/mod.rs", "use crate::view::View;\n");
        let unknown = source("store-file/src/other.rs", "");
        let tests = source("store-file/src/journal/tests/mod.rs", "use crate::store::FileStore;\n");
        let findings = check(&[up, down, unknown, tests]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("`writer` is above `view`") && findings[1].contains("`other`"), "{findings:?}");
    }
}
