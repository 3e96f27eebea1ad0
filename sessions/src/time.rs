//! Reads and writes times as session files contain them: ISO 8601, seconds with a fraction, whole seconds or
//! milliseconds.

use store_core::Timestamp;

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

/// Reads `YYYY-MM-DD(T| )hh:mm(:ss(.fff))?(Z|±hh(:?mm))?`. A time without a zone is in UTC.
fn parse_iso(text: &str) -> Option<Timestamp> {
    let (date, clock) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at_checked(zone)?;
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut clock = clock.splitn(3, ':').map(digits);
    let (hour, minute) = (clock.next()??, clock.next()??);
    let second = clock.next().unwrap_or(Some(0))?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
    let millis = u64::try_from(seconds).ok()?.checked_mul(1_000)?.checked_add(millis(fraction)?)?;
    Timestamp::from_millis(millis).ok()
}

fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 4 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.bytes().next() {
        None => return Some(0),
        Some(b'Z' | b'z') => return (zone.len() == 1).then_some(0),
        Some(b'+') => 1,
        Some(_) => -1,
    };
    let rest = zone.get(1..)?.replace(':', "");
    let (hours, minutes) = rest.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { digits(minutes)? };
    Some(sign * (digits(hours)? * 3_600 + minutes * 60))
}

/// Days since the Unix epoch, by the proleptic Gregorian calendar.
const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// ISO 8601 in UTC with milliseconds, as JavaScript writes it.
pub(crate) fn to_iso(time: Timestamp) -> String {
    let millis = time.as_millis();
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = date_of_day(days);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

const fn date_of_day(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::{read, to_iso};

    fn check(raw: &str, millis: u64) {
        assert_eq!(read(raw).map(|time| time.as_millis()), Some(millis), "{raw}");
    }

    #[test]
    fn every_spelling_is_read() {
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
    }

    #[test]
    fn an_invalid_time_is_none() {
        for raw in
            ["null", "\"\"", "\"soon\"", "-1", "{}", "\"2026-13-01T00:00:00Z\"", "\"2026-01-01\"", "true", "1e99"]
        {
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
