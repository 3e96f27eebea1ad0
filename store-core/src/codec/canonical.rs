//! Canonical JSON (RFC 8785): one text for all values that are equal, whatever the order of keys and the spelling of
//! numbers and strings.
//!
//! This is not left to a crate: the ones there are read a value into `serde_json::Value` first, which takes the last of
//! two equal keys, and rounds numbers unless a feature of `serde_json` is switched on for the whole program.

use std::{cmp::Ordering, fmt::Write};

use serde_json::value::RawValue;

use super::{Codec, Fields};
use crate::{
    error::{Error, Result},
    json::Json,
};

/// The largest integer up to which a double holds every integer, 2^53 - 1.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Returns the canonical text of a value.
///
/// # Errors
/// `Invalid` for a value that RFC 8785 does not admit: a key that occurs twice, text with half of a surrogate pair, a
/// number outside of the range of a double, and a whole number beyond 2^53 - 1 that is written with digits only.
pub(crate) fn canonical_json(value: &Json) -> Result<String> {
    let mut out = String::with_capacity(value.as_str().len());
    write_value(value.as_str(), &mut out)?;
    Ok(out)
}

fn refuse(reason: &'static str) -> Error {
    Error::invalid("canonical json", reason)
}

/// `Json` limits the depth, and with it the depth of this recursion.
fn write_value(raw: &str, out: &mut String) -> Result<()> {
    match raw.as_bytes().first() {
        Some(b'{') => write_object(raw, out),
        Some(b'[') => write_array(raw, out),
        Some(b'"') => {
            write_text(&String::read(raw).map_err(|_| refuse("a text is not valid Unicode"))?, out);
            Ok(())
        }
        Some(b't' | b'f' | b'n') => {
            out.push_str(raw);
            Ok(())
        }
        _ => write_number(raw, out),
    }
}

fn write_object(raw: &str, out: &mut String) -> Result<()> {
    let fields = Fields::parse(raw).map_err(|_| refuse("a key is not valid Unicode"))?;
    let mut pairs: Vec<_> = fields.into_pairs().collect();
    pairs.sort_by(|(left, _), (right, _)| compare_utf16(left, right));
    let has_equal_keys = pairs.iter().zip(pairs.iter().skip(1)).any(|((left, _), (right, _))| left == right);
    if has_equal_keys {
        return Err(refuse("a key occurs twice in an object"));
    }
    out.push('{');
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(key, out);
        out.push(':');
        write_value(value, out)?;
    }
    out.push('}');
    Ok(())
}

/// The order of keys in RFC 8785. It differs from the order of the bytes for characters above U+FFFF.
fn compare_utf16(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

fn write_array(raw: &str, out: &mut String) -> Result<()> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| refuse("a list cannot be read"))?;
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_value(item.get(), out)?;
    }
    out.push(']');
    Ok(())
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn write_number(raw: &str, out: &mut String) -> Result<()> {
    let is_integer = !raw.contains(['.', 'e', 'E']);
    if is_integer {
        // Two whole numbers that a double cannot tell apart must not get one hash.
        let digits = raw.strip_prefix('-').unwrap_or(raw);
        if digits.parse::<u64>().map_or(true, |number| number > MAX_SAFE_INTEGER) {
            return Err(refuse("a whole number is beyond 2^53 - 1"));
        }
    }
    let number: f64 = raw.parse().map_err(|_| refuse("a number cannot be read"))?;
    if !number.is_finite() {
        return Err(refuse("a number is outside of the range of a double"));
    }
    write_double(number, out);
    Ok(())
}

/// Writes a number as ECMAScript does. Rust gives the shortest digits that are read back as the number, as ECMAScript
/// requires; only their layout differs.
fn write_double(number: f64, out: &mut String) {
    if number == 0.0 {
        out.push('0');
        return;
    }
    if number < 0.0 {
        out.push('-');
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The position of the decimal point, counted from the first digit.
    let point = exponent + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.push_str(&zeros(point - count));
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at_checked(usize::try_from(point).unwrap_or_default()).unwrap_or_default();
        out.extend([whole, ".", fraction]);
    } else if (-5..=0).contains(&point) {
        out.extend(["0.", &zeros(-point), &digits]);
    } else {
        let (first, rest) = digits.split_at_checked(1).unwrap_or_default();
        out.push_str(first);
        if !rest.is_empty() {
            out.extend([".", rest]);
        }
        let sign = if exponent > 0 { "+" } else { "" };
        let _ = write!(out, "e{sign}{exponent}");
    }
}

#[cfg(test)]
mod tests {
    use super::{canonical_json, write_double};
    use crate::{ErrorKind, Json};

    fn canonical(text: &str) -> String {
        canonical_json(&Json::parse(text).unwrap()).unwrap()
    }

    /// The example of RFC 8785, section 3.2.2.
    #[test]
    fn the_example_of_the_rfc_is_written_as_it_says_rg_3() {
        let text = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let wanted = concat!(
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(canonical(text), wanted);
    }

    /// The example of RFC 8785, section 3.2.3: keys are ordered by their UTF-16 units.
    #[test]
    fn keys_are_ordered_as_the_rfc_says_rg_3() {
        let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
            "1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",
            "\u00f6":"Latin Small Letter O With Diaeresis"}"#;
        let written = canonical(text);
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let places: Vec<_> = order.iter().map(|name| written.find(name).unwrap()).collect();
        assert!(places.is_sorted(), "{written}");
    }

    /// The samples of RFC 8785, appendix B.
    #[test]
    fn numbers_are_written_as_the_rfc_says_rg_3() {
        let samples: [(u64, &str); 25] = [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
            (0x3ff0_0000_0000_0000, "1"),
        ];
        for (bits, wanted) in samples {
            let mut out = String::new();
            write_double(f64::from_bits(bits), &mut out);
            assert_eq!(out, wanted, "{bits:x}");
        }
    }

    #[test]
    fn what_the_rfc_does_not_admit_is_invalid_rg_3() {
        for text in ["1e400", "9007199254740992", "-12345678901234567890", r#"{"a":1,"\u0061":2}"#, r#"["\ud800"]"#] {
            let error = canonical_json(&Json::parse(text).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        }
        assert_eq!(
            canonical(r#"{"b":[9007199254740991,-0.0,1.0],"a":"\u007f"}"#),
            "{\"a\":\"\u{7f}\",\"b\":[9007199254740991,0,1]}"
        );
    }
}
