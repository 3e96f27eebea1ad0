//! Reads and writes times as session files contain them: ISO 8601, seconds with a fraction, whole seconds or
//! milliseconds.

use jiff::{SignedDuration, civil::DateTime, fmt::temporal::Pieces, tz::Offset};
use store_core::Timestamp;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Numbers below this are seconds, others milliseconds.
const FIRST_MILLIS: u64 = 100_000_000_000;

/// Reads a time from a JSON value. Returns `None` if the value is not a time.
pub(crate) fn read(raw: &str) -> Option<Timestamp> {
    if raw.starts_with('"') {
        return parse_iso(&serde_json::from_str::<String>(raw).ok()?);
    }
    Timestamp::from_millis(parse_millis(raw)?).ok()
}

fn parse_millis(raw: &str) -> Option<u64> {
    let plain = if raw.contains(['e', 'E']) { format!("{:.3}", raw.parse::<f64>().ok()?) } else { raw.to_owned() };
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let whole: u64 = whole.parse().ok()?;
    if whole >= FIRST_MILLIS { Some(whole) } else { whole.checked_mul(1_000)?.checked_add(millis(fraction)?) }
}

/// The first three digits of a decimal fraction.
fn millis(fraction: &str) -> Option<u64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    digits.parse().ok()
}

/// Reads a date with a time of day, as ISO 8601 and RFC 3339 write them. A time without a zone is in UTC, because some
/// tools leave the zone out. A date alone is not a time.
fn parse_iso(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let since_epoch = pieces.date().to_datetime(pieces.time()?).duration_since(EPOCH);
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    let in_utc = since_epoch.checked_sub(SignedDuration::from_secs(offset.seconds().into()))?;
    Timestamp::from_millis(u64::try_from(in_utc.as_millis()).ok()?).ok()
}

/// ISO 8601 in UTC with milliseconds, as JavaScript writes it.
pub(crate) fn to_iso(time: Timestamp) -> String {
    let since_epoch = i64::try_from(time.as_millis()).map_or(SignedDuration::MAX, SignedDuration::from_millis);
    // The last day of the year 9999 is a `DateTime`, but not a `jiff::Timestamp`.
    format!("{:.3}Z", EPOCH.saturating_add(since_epoch))
}

#[cfg(test)]
mod tests {
    use super::{read, to_iso};

    fn check(raw: &str, millis: u64) {
        assert_eq!(read(raw).map(|time| time.as_millis()), Some(millis), "{raw}");
    }

    #[test]
    fn every_form_of_a_time_is_read() {
        check("1708300000", 1_708_300_000_000);
        check("99999999999", 99_999_999_999_000);
        check("100000000000", 100_000_000_000);
        check("1767607200003", 1_767_607_200_003);
        check("1774949785.23238", 1_774_949_785_232);
        check("1.774949785e9", 1_774_949_785_000);
        check("\"1970-01-01T00:00:00Z\"", 0);
        check("\"2026-01-05T10:00:01.5Z\"", 1_767_607_201_500);
        check("\"2026-01-05T10:00:01\"", 1_767_607_201_000);
        check("\"2026-01-05T12:00:01.000+02:00\"", 1_767_607_201_000);
        check("\"2024-02-29T00:00:00.123456789Z\"", 1_709_164_800_123);
        check("\"2000-03-01T00:00Z\"", 951_868_800_000);
        check("\"2026-01-05 10:00:01,25+0000\"", 1_767_607_201_250);
        check("\"2026-01-05t05:00:01.000-05\"", 1_767_607_201_000);
    }

    #[test]
    fn an_invalid_time_is_none() {
        for raw in [
            "null",
            "\"\"",
            "\"soon\"",
            "-1",
            "{}",
            "\"2026-13-01T00:00:00Z\"",
            "\"2026-02-30T00:00:00Z\"",
            "\"1969-12-31T23:59:59Z\"",
            "\"2026-01-01\"",
            "\"2026-01-01T10:00:00+99:00\"",
            "true",
            "1e99",
        ] {
            assert_eq!(read(raw), None, "{raw}");
        }
    }

    #[test]
    fn a_written_time_is_read_back() {
        for millis in [0, 951_782_399_999, 951_782_400_000, 1_709_164_800_123, 253_402_300_799_999] {
            let time = store_core::Timestamp::from_millis(millis).unwrap();
            check(&format!("\"{}\"", to_iso(time)), millis);
        }
    }
}
