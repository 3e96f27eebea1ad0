//! Tests of randomly damaged files. An imported file is exported byte for byte, and a second import of it adds nothing.

use sessions::{ImportOptions, import};
use tempfile::tempdir;

use crate::helpers::{export_bytes, fixtures, format, has_no_message, import_one, new_store, write_file};

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Damages some bytes: changes, removes, repeats or cuts them, and inserts texts that parsers often handle wrongly.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const ODD_BYTES: &[&[u8]] = &[
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n \n",
        b"\x00",
        b"\xff",
        b"\\ud800",
        b"\\u0000",
        b"\t",
        b"\"",
        b"{",
        b"}",
        b"null",
        b"[]",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"1e400",
        b"-0.0",
        b"\"id\":\"x\",",
        b"\"parentId\":null,",
        b"\"isSidechain\":true,",
        b"\"parentUuid\":null,",
    ];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.below(256) as u8,
            1 => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(300)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => {
                let odd = ODD_BYTES[random.below(ODD_BYTES.len())];
                bytes.splice(at..at, odd.iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
}

#[tokio::test]
async fn damaged_files_round_trip_byte_for_byte() {
    let folder = tempdir().unwrap();
    let mut random = Random(7);
    for (name, format_name) in [
        ("pi/v3-tree", "pi-v3"),
        ("codex/turns", "codex"),
        ("codex/compacted", "codex"),
        ("codex/rolled-back", "codex"),
        ("codex/old-shape", "codex"),
        ("bad/codex-fields", "codex"),
        ("pi/v2-branches", "pi-v2"),
        ("pi/v3-other-writer", "pi-v3"),
        ("pi/v4-lanes", "pi-v4"),
        ("bad/pi-bom-crlf", "pi-v3"),
        ("bad/pi-duplicate-ids", "pi-v3"),
        ("claude-code/parallel-calls", "claude-code"),
        ("claude-code/sidechain", "claude-code"),
        ("claude-code/resumed", "claude-code"),
        ("agent-core/branches", "agent-core"),
        ("agent-core/linear-tools", "agent-core"),
        ("agent-core/open-calls", "agent-core"),
    ] {
        let whole = std::fs::read(fixtures().join(name).with_extension("jsonl")).unwrap();
        for round in 0..150 {
            let mut bytes = whole.clone();
            damage(&mut bytes, &mut random);
            let path = write_file(folder.path(), "damaged.jsonl", &bytes);
            let commits = new_store();
            let options = ImportOptions::default().with_format(format(format_name));
            let report = import(&*commits, &path, &options).await.unwrap().remove(0);
            let Some(thread) = &report.thread else { continue };
            // The header decides the version of pi, so the format may differ from the given one.
            let found = report.format.unwrap().parse().unwrap();
            let (exported_bytes, exact) = export_bytes(&*commits, thread, found).await;
            assert!(exact && exported_bytes == bytes, "{name}, round {round}:\n{}", String::from_utf8_lossy(&bytes));
            let again = import(&*commits, &path, &options).await.unwrap().remove(0);
            assert_eq!((again.added, again.thread), (0, report.thread.clone()), "{name}, round {round}");
        }
    }
}

#[tokio::test]
async fn files_that_grow_piece_by_piece_round_trip() {
    let folder = tempdir().unwrap();
    let mut random = Random(11);
    for name in [
        "pi/v3-tree",
        "pi/v4-lanes",
        "agent-core/open-calls",
        "agent-core/branches",
        "bad/pi-dangling-and-cycle",
        "codex/turns",
        "codex/rolled-back",
        "codex/old-shape",
    ] {
        let valid = std::fs::read(fixtures().join(name).with_extension("jsonl")).unwrap();
        // The first line shows the format, so the first import reads more than this line, and more than 200 bytes.
        let first_end = valid.iter().position(|byte| *byte == b'\n').unwrap().max(199) + 1;
        for round in 0..40 {
            let mut whole = valid.clone();
            let mut rest = whole.split_off(first_end);
            if round % 2 == 1 {
                damage(&mut rest, &mut random);
            }
            whole.extend(rest);
            let commits = new_store();
            let mut end = first_end;
            let mut thread = None;
            while end < whole.len() {
                end = (end + 1 + random.below(400)).min(whole.len());
                let path = write_file(folder.path(), "growing.jsonl", &whole[..end]);
                let report = import_one(&*commits, &path).await;
                assert!(thread.is_none() || thread == report.thread, "{name}, round {round}, {end} bytes");
                if has_no_message(&report) {
                    continue;
                }
                let (exported_bytes, _) =
                    export_bytes(&*commits, report.thread.as_ref().unwrap(), report.format.unwrap().parse().unwrap())
                        .await;
                let expected = &whole[..end];
                assert!(
                    exported_bytes == expected,
                    "{name}, round {round}, {end} bytes:\n{}\nis not\n{}",
                    String::from_utf8_lossy(&exported_bytes),
                    String::from_utf8_lossy(expected)
                );
                thread = report.thread;
            }
        }
    }
}
