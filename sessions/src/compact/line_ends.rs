//! The offsets at which the lines of a file end.

use super::List;

const LINES_PER_SAMPLE: usize = 64;

/// The offset at which each line ends, without its line end. It takes about two bytes for each line.
#[derive(Debug, Default)]
pub(crate) struct LineEnds {
    /// For each line, the distance of its end from that of the preceding line, with seven bits in each byte, the lowest
    /// first. If the eighth bit of a byte is set, more bytes follow.
    distances: List<u8>,
    /// For the first of every 64 lines: where the preceding line ends, and where the distance of this line begins in
    /// `distances`.
    samples: List<(u64, usize)>,
    count: usize,
    /// The end of the last line.
    last_end: u64,
}

impl LineEnds {
    /// Adds the end of the next line. No line ends before an earlier one.
    pub(crate) fn push(&mut self, end: u64) {
        if self.count.is_multiple_of(LINES_PER_SAMPLE) {
            self.samples.push((self.last_end, self.distances.len()));
        }
        let mut remaining = end.saturating_sub(self.last_end);
        loop {
            let low = u8::try_from(remaining & 0x7f).unwrap_or_default();
            remaining >>= 7;
            self.distances.push(if remaining == 0 { low } else { low | 0x80 });
            if remaining == 0 {
                break;
            }
        }
        self.count += 1;
        self.last_end = end;
    }

    /// The end of a line. Lines are counted from 1.
    pub(crate) fn of(&self, line: u64) -> Option<u64> {
        let at = usize::try_from(line.checked_sub(1)?).ok().filter(|at| *at < self.count)?;
        let (mut end, start) = *self.samples.get(at / LINES_PER_SAMPLE)?;
        let mut bytes = self.distances.iter_from(start);
        for _ in 0..=at % LINES_PER_SAMPLE {
            let mut shift = 0;
            loop {
                let byte = bytes.next()?;
                end += u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::LineEnds;

    #[test]
    fn the_end_of_every_line_is_found() {
        let mut ends = LineEnds::default();
        let end = |line: u64| line * line * line * 1_000_003;
        for line in 1..=1_000 {
            ends.push(end(line));
        }
        for line in 1..=1_000 {
            assert_eq!(ends.of(line), Some(end(line)));
        }
        assert_eq!((ends.of(0), ends.of(1_001)), (None, None));
    }
}
