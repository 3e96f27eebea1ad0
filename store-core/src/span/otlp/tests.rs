//! Tables of OTLP/JSON that is read and written.

use super::{read_otlp, write_otlp};
use crate::{ErrorKind, Json};

fn span(id: char, rest: &str) -> String {
    let (trace, id) = ("5b8efff798038103d269b633813fc60c", id.to_string().repeat(16));
    format!(r#"{{"traceId":"{trace}","spanId":"{id}","name":"n","startTimeUnixNano":"1"{rest}}}"#)
}

fn document(programs: &str) -> String {
    format!(r#"{{"resourceSpans":[{programs}]}}"#)
}

/// Checks that text is read without losses and written as `expected`.
fn check(text: &str, expected: &str) {
    let import = read_otlp(text).unwrap();
    assert_eq!(import.losses, Vec::<String>::new(), "{text}");
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(parsed(&write_otlp(&import.spans)), parsed(expected), "{text}");
}

#[test]
fn programs_libraries_and_schemas_come_back() {
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}],"later":[1.0]}"#;
    for text in [
        document(""),
        document(&format!(r#"{{"scopeSpans":[{{"spans":[{}]}}]}}"#, span('1', ""))),
        document(&format!(
            r#"{{"resource":{resource},"schemaUrl":"r","scopeSpans":[{{"scope":{{"name":"a","version":"1"}},"schemaUrl":"s","spans":[{}]}},{{"scope":{{"name":"b"}},"spans":[{},{}]}}]}},{{"scopeSpans":[{{"spans":[{}]}}]}}"#,
            span('1', r#","kind":3,"attributes":[{"key":"k","value":{"intValue":"1"}}]"#),
            span('2', r#","flags":257,"traceState":"a=b""#),
            span('3', r#","later":{"x":1.0}"#),
            span('4', "")
        )),
    ] {
        check(&text, &text);
    }
}

#[test]
fn several_documents_are_one_list() {
    let one = |id| document(&format!(r#"{{"scopeSpans":[{{"spans":[{}]}}]}}"#, span(id, "")));
    let both = document(&format!(r#"{{"scopeSpans":[{{"spans":[{},{}]}}]}}"#, span('1', ""), span('2', "")));
    check(&format!("{}\n{}\n", one('1'), one('2')), &both);
    assert_eq!(read_otlp("").unwrap().spans, Vec::new());
}

#[test]
fn other_spellings_have_one_form() {
    let upper = document(
        r#"{"schemaUrl":"","scopeSpans":[{"schemaUrl":"","spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","parentSpanId":"","name":"n","kind":0,"startTimeUnixNano":1544712660000000001,"attributes":[{"key":"k","value":{"intValue":5}}]}]}]}"#,
    );
    let expected = document(
        r#"{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"n","startTimeUnixNano":"1544712660000000001","attributes":[{"key":"k","value":{"intValue":"5"}}]}]}]}"#,
    );
    check(&upper, &expected);
}

#[test]
fn what_is_not_kept_is_named() {
    let spans = span('1', "");
    for (text, losses) in [
        (r#"{"resourceSpans":[],"later":1}"#.to_owned(), vec!["later"]),
        (
            document(&format!(r#"{{"scopeSpans":[{{"spans":[{spans}],"x":1}}],"instrumentationLibrarySpans":[]}}"#)),
            vec!["resourceSpans[0].instrumentationLibrarySpans", "resourceSpans[0].scopeSpans[0].x"],
        ),
        (document(r#"{"resource":{}}"#), vec!["resourceSpans[0] (it has no spans)"]),
        (document(r#"{"scopeSpans":[{"spans":[]}]}"#), vec!["resourceSpans[0].scopeSpans[0] (it has no spans)"]),
    ] {
        assert_eq!(read_otlp(&text).unwrap().losses, losses, "{text}");
    }
}

#[test]
fn what_is_no_otlp_is_refused_with_its_place() {
    for (text, place) in [
        ("[]".to_owned(), "is not a JSON object"),
        ("{}".to_owned(), "`resourceSpans`: is missing"),
        (document("1"), "`resourceSpans[0]`: is not a JSON object"),
        (
            document(r#"{"scopeSpans":[{"spans":[{"traceId":"x"}]}]}"#),
            "`resourceSpans[0].scopeSpans[0].spans.0.traceId`: is not a valid trace id",
        ),
        (
            document(&format!(r#"{{"scopeSpans":[{{"spans":[{}]}}]}}"#, span('1', r#","kind":"SPAN_KIND_CLIENT""#))),
            "`resourceSpans[0].scopeSpans[0].spans.0.kind`: is not an integer from 0 to 4294967295",
        ),
    ] {
        let error = read_otlp(&text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(error.to_string().contains(place), "{text}: {error}");
    }
    for text in ["{", "x", r#"{"resourceSpans":[]} x"#] {
        assert_eq!(read_otlp(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
    }
    let deep = format!(r#"{{"resourceSpans":[{}{}]}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(read_otlp(&deep).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(Json::parse(&write_otlp([])).is_ok());
}
