//! F7: every changed bit of a log is found, in the right place, and never comes back as a value (FI-4).

use conformance_tests::TestLength;
use store_core::ErrorKind;
use store_file::testing::{
    Header, Known, Position, Scanner, SimDisk, Span, Survivors, Tail, VfsFile, classify, read_header, read_line,
    read_lines,
};

use crate::given;

/// What a walk through the log finds: how many good groups, and what is behind them.
fn walk(file: &dyn VfsFile) -> (usize, Tail) {
    let len = file.len().unwrap();
    let mut end = Position::default();
    let mut groups = 0;
    if let Header::Good(_, from) = read_header(file).unwrap() {
        let mut scanner = Scanner::new(file, from, len);
        while scanner.next_group().unwrap().is_some() {
            groups += 1;
        }
        end = scanner.position();
    }
    (groups, classify(file, end.offset, len, Known { acknowledged: 0, last_batch: u64::MAX }).unwrap())
}

#[test]
fn every_changed_bit_is_located() {
    let disk = SimDisk::new();
    // The whole test takes 64 KiB; what runs otherwise is a part of it.
    let count = TestLength::pick_by_env(4, 12, 230);
    let (log, placed) = given::log(&disk, count);
    let file = given::open(&disk);
    let spans: Vec<Span> = placed.iter().flat_map(|group| group.lines.iter().copied().chain([group.commit])).collect();
    let lines: Vec<_> = spans.iter().map(|span| read_line(&*file, &"log", *span).unwrap()).collect();
    let len = log.position().offset;
    println!("{} bits of {len} bytes", len * 8);
    for bit in 0..len * 8 {
        disk.flip(&given::path(), bit).unwrap();
        let at = bit / 8;
        let expected = match placed.iter().position(|group| at < group.end.offset && at >= group.start) {
            None => (0, Tail::Corrupt { offset: 0 }),
            Some(group) if group + 1 == placed.len() => {
                let from = placed[group].start;
                (group, Tail::Torn { from, bytes: len - from, acknowledged: false })
            }
            Some(group) => (group, Tail::Corrupt { offset: placed[group].start }),
        };
        assert_eq!(walk(&*file), expected, "bit {bit}");
        for (span, line) in spans.iter().zip(&lines).filter(|(span, _)| span.offset.abs_diff(at) < 1024) {
            let changed = span.offset <= at && at < span.offset + u64::from(span.len);
            match read_line(&*file, &"log", *span) {
                Ok(read) => assert!(!changed && read == *line, "bit {bit}"),
                Err(error) => assert!(changed && error.kind() == ErrorKind::Corrupt, "bit {bit}"),
            }
        }
        disk.flip(&given::path(), bit).unwrap();
    }
    assert_eq!(walk(&*file), (placed.len(), Tail::Clean));
}

#[test]
fn no_damage_causes_a_panic_or_a_wrong_group() {
    let whole = SimDisk::new();
    let (log, _) = given::log(&whole, 12);
    let len = log.position().offset;
    let mut seed = 0x5eed_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..2_000 {
        let disk = whole.after_crash(Survivors::All);
        let file = given::open(&disk);
        for _ in 0..=next(3) {
            let bytes: Vec<u8> = match next(4) {
                0 => vec![0; usize::try_from(next(700)).unwrap()],
                1 => b"\n{\"t\":\"commit\",\"v\":1,\"lines\":0,\"bytes\":18446744073709551615,\"crc\":\"00000000\"}\n"
                    .to_vec(),
                2 => (0..next(40)).map(|_| u8::try_from(next(256)).unwrap()).collect(),
                _ => {
                    let mut moved = vec![0; usize::try_from(next(900)).unwrap()];
                    let count = file.read_at(&mut moved, next(len)).unwrap();
                    moved.truncate(count);
                    moved
                }
            };
            file.write_at(&bytes, next(len)).unwrap();
        }
        // `recovered` compares every group with what was written.
        match given::recovered(&disk, store_file::testing::Recovery::default()) {
            Ok((numbers, _)) => assert!(numbers.len() <= 12),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

#[test]
fn lines_are_read_together_and_each_is_verified() {
    let disk = SimDisk::new();
    let (_, placed) = given::log(&disk, 40);
    let file = given::open(&disk);
    let mut spans: Vec<Span> = placed.iter().flat_map(|group| group.lines.clone()).collect();
    spans.reverse();
    spans.extend(placed.iter().map(|group| group.commit));
    let read = read_lines(&*file, &"log", &spans).unwrap();
    for (line, span) in read.iter().zip(&spans) {
        assert_eq!(*line, read_line(&*file, &"log", *span).unwrap());
        assert_eq!(Span::decode(&span.encode()), Some(*span));
    }
    disk.flip(&given::path(), spans[7].offset * 8).unwrap();
    assert_eq!(read_lines(&*file, &"log", &spans).unwrap_err().kind(), ErrorKind::Corrupt);
    let beyond = Span { offset: 1 << 40, ..spans[0] };
    assert_eq!(read_line(&*file, &"log", beyond).unwrap_err().kind(), ErrorKind::Corrupt);
}
