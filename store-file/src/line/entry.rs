//! The lines of entries and of runs.

use store_core::{
    Entry, Run,
    codec::{Codec as _, DecodeError, Fields, ObjectWriter},
    log::Node,
};

/// `entry` is the JSON of the entry.
pub(crate) fn entry(entry: &str, node: &Node) -> String {
    let inner = entry.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    let mut out = String::with_capacity(entry.len() + 96);
    out.push_str(r#"{"t":"entry","#);
    out.push_str(inner);
    out.push_str(r#","ix":"#);
    node.write(&mut out);
    out.push('}');
    out
}

/// The entry of a line, without what stands there for the log alone.
pub(crate) fn decode_entry(raw: &str) -> Result<(Entry, Node), DecodeError> {
    let mut fields = Fields::parse(raw)?;
    fields.take_raw("t");
    let node = fields.take("ix")?;
    let mut text = String::with_capacity(raw.len());
    let mut object = ObjectWriter::open(&mut text);
    for (name, value) in fields.into_pairs() {
        object.key(&name).push_str(value);
    }
    object.close();
    Ok((Entry::read(&text)?, node))
}

/// The run of a line.
pub(crate) fn decode_run(raw: &str) -> Result<Run, DecodeError> {
    Fields::parse(raw)?.take("run")
}
