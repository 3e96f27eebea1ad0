//! OTLP/JSON: the JSON form in which programs exchange spans with OpenTelemetry.
//!
//! A document has the spans of several programs: `resourceSpans` for each program, in it `scopeSpans` for each library.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Span, SpanSource};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter},
    error::{Error, Result},
    json::Json,
};

/// The spans of OTLP/JSON, and what was not kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OtlpImport {
    /// The spans, in their order.
    pub spans: Vec<Span>,
    /// The paths of what was not kept: fields around the spans that this release does not know, and programs and
    /// libraries without spans. Fields of spans are kept, whatever they are.
    pub losses: Vec<String>,
}

/// Reads OTLP/JSON: one document or several, such as one in each line. Ids may have any case, and 64-bit integers may
/// be numbers or text. A span that says nothing about the conventions that it follows has no schema.
///
/// ```
/// use store_core::span::{read_otlp, write_otlp};
///
/// let text = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",
///     "spanId":"eee19b7ec3c1b174","name":"chat m","kind":3,"startTimeUnixNano":"1"}]}]}]}"#;
/// let import = read_otlp(text)?;
/// assert_eq!(import.spans[0].name, "chat m");
/// assert_eq!(store_core::Json::parse(&write_otlp(&import.spans))?, store_core::Json::parse(text)?);
/// # Ok::<(), store_core::Error>(())
/// ```
///
/// # Errors
/// `Invalid` if the text is no OTLP/JSON, with the path of the field; `LimitExceeded` if it is nested too deeply.
pub fn read_otlp(text: &str) -> Result<OtlpImport> {
    let mut import = OtlpImport::default();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Box<RawValue>>() {
        let document = document.map_err(|e| Error::invalid("OTLP/JSON", "it is not JSON").with_source(e))?;
        let document = Json::parse(document.get())?;
        import.add_document(document.as_str()).map_err(|e| Error::invalid("OTLP/JSON", e.to_string()))?;
    }
    Ok(import)
}

impl OtlpImport {
    fn add_document(&mut self, raw: &str) -> Result<(), DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let programs: Vec<Json> = fields.take("resourceSpans")?;
        self.add_losses("", &fields);
        for (at, program) in programs.iter().enumerate() {
            let path = format!("resourceSpans[{at}]");
            self.add_program(&path, program.as_str()).map_err(|e| e.within(&path))?;
        }
        Ok(())
    }

    fn add_program(&mut self, path: &str, raw: &str) -> Result<(), DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let source = SpanSource {
            resource: fields.maybe("resource")?,
            resource_schema_url: take_url(&mut fields)?,
            ..SpanSource::default()
        };
        let libraries: Vec<Json> = fields.maybe("scopeSpans")?.unwrap_or_default();
        self.add_losses(path, &fields);
        if libraries.is_empty() {
            self.losses.push(format!("{path} (it has no spans)"));
        }
        for (at, library) in libraries.iter().enumerate() {
            let name = format!("scopeSpans[{at}]");
            let path = format!("{path}.{name}");
            self.add_library(&path, &source, library.as_str()).map_err(|e| e.within(&name))?;
        }
        Ok(())
    }

    fn add_library(&mut self, path: &str, program: &SpanSource, raw: &str) -> Result<(), DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let (scope, schema_url) = (fields.maybe("scope")?, take_url(&mut fields)?);
        let source = Arc::new(SpanSource { scope, schema_url, extra: Extra::default(), ..program.clone() });
        let spans: Vec<Span> = fields.maybe("spans")?.unwrap_or_default();
        self.add_losses(path, &fields);
        if spans.is_empty() {
            self.losses.push(format!("{path} (it has no spans)"));
        }
        self.spans.extend(spans.into_iter().map(|span| span.from_source(Arc::clone(&source))));
        Ok(())
    }

    fn add_losses(&mut self, path: &str, rest: &Fields<'_>) {
        let dot = if path.is_empty() { "" } else { "." };
        self.losses.extend(rest.names().map(|name| format!("{path}{dot}{name}")));
    }
}

/// Takes the schema. An empty text is the default of OTLP, and stands for none.
fn take_url(fields: &mut Fields<'_>) -> Result<Option<String>, DecodeError> {
    Ok(fields.maybe::<String>("schemaUrl")?.filter(|url| !url.is_empty()))
}

/// Writes spans as one document of OTLP/JSON. Spans of one program and of one library are put together, each in the
/// order given.
#[must_use]
pub fn write_otlp<'a>(spans: impl IntoIterator<Item = &'a Span>) -> String {
    let mut programs: Vec<Program<'_>> = Vec::new();
    for span in spans {
        let is_of = |program: &&mut Program<'_>| program.is_of(&span.source);
        match programs.iter_mut().find(is_of) {
            Some(program) => program.add(span),
            None => programs.push(Program { source: &span.source, libraries: vec![(&span.source, vec![span])] }),
        }
    }
    let mut out = String::new();
    let mut document = ObjectWriter::open(&mut out);
    write_list(document.key("resourceSpans"), &programs, |program, out| program.write(out));
    document.close();
    out
}

/// The spans of one program, by library.
struct Program<'a> {
    source: &'a SpanSource,
    libraries: Vec<(&'a SpanSource, Vec<&'a Span>)>,
}

impl<'a> Program<'a> {
    fn is_of(&self, source: &SpanSource) -> bool {
        (&self.source.resource, &self.source.resource_schema_url) == (&source.resource, &source.resource_schema_url)
    }

    fn add(&mut self, span: &'a Span) {
        let key = |source: &'a SpanSource| (&source.scope, &source.schema_url);
        match self.libraries.iter_mut().find(|(source, _)| key(source) == key(&span.source)) {
            Some((_, spans)) => spans.push(span),
            None => self.libraries.push((&span.source, vec![span])),
        }
    }

    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.maybe("resource", self.source.resource.as_ref());
        write_list(object.key("scopeSpans"), &self.libraries, |(source, spans), out| {
            let mut object = ObjectWriter::open(out);
            object.maybe("scope", source.scope.as_ref());
            write_list(object.key("spans"), spans, |span, out| Codec::write(*span, out));
            object.maybe("schemaUrl", source.schema_url.as_ref());
            object.close();
        });
        object.maybe("schemaUrl", self.source.resource_schema_url.as_ref());
        object.close();
    }
}

fn write_list<T>(out: &mut String, items: &[T], write: impl Fn(&T, &mut String)) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests;
