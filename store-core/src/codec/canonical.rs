//! Canonical JSON (RFC 8785): one text for all values that are equal, whatever the order of keys and the spelling of
//! numbers and strings.
//!
//! This is not left to a crate alone. Those that there are write a value of serde. On the way there, equal keys become
//! one, and numbers are rounded.

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
        Some(b'"') => write_text(&String::read(raw).map_err(|_| refuse("a text is not valid Unicode"))?, out),
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
    // The order of UTF-16 units. It differs from that of the bytes for characters above U+FFFF.
    pairs.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
    let has_equal_keys = pairs.iter().zip(pairs.iter().skip(1)).any(|((left, _), (right, _))| left == right);
    if has_equal_keys {
        return Err(refuse("a key occurs twice in an object"));
    }
    out.push('{');
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(key, out)?;
        out.push(':');
        write_value(value, out)?;
    }
    out.push('}');
    Ok(())
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

/// The escapes of `serde_json` are those of RFC 8785.
fn write_text(text: &str, out: &mut String) -> Result<()> {
    out.push_str(Json::of(text)?.as_str());
    Ok(())
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
    out.push_str(ryu_js::Buffer::new().format_finite(number));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{canonical_json, write_number};
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
            write_number(&format!("{:e}", f64::from_bits(bits)), &mut out).unwrap();
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
