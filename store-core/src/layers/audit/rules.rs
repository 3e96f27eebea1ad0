//! The rules for audit records: their topics, what is hidden, which value can be restored.

use std::collections::BTreeSet;

use super::{
    AuditAction, AuditQuery, AuditRecord, AuditResource, NewAudit, ResourceFilter, TextFilter, record::AuditPayload,
};
use crate::{
    codec::{Codec, Extra, Fields, ObjectWriter},
    error::{Error, Result},
    event::{Event, EventVisibility, MAX_EVENT_TOPICS, NewEvent, Scope},
    id::TopicId,
    json::Json,
    layers::topic_of,
};

/// The folders of a resource that have a topic: as many as fit beside the topics of all records, of the actor and of
/// the resource. Records of a deeper folder are found in the topic of the deepest of these.
const FOLDER_TOPICS: usize = MAX_EVENT_TOPICS - 3;
/// What is stored instead of a secret value.
const REDACTED: &str = "\"[redacted]\"";

/// Returns the topic of all audit records.
pub(super) fn all_topic() -> Result<TopicId> {
    TopicId::new("layer.audit")
}

fn actor_topic(actor: &str) -> Result<TopicId> {
    topic_of("layer.audit.actor", actor)
}

fn resource_topic(resource: &AuditResource) -> Result<TopicId> {
    topic_of("layer.audit.resource", resource.as_str())
}

fn folder_topic(folder: &str) -> Result<TopicId> {
    topic_of("layer.audit.below", folder)
}

/// Returns the audit record of a change that a layer makes, or none if the change carries none or changes nothing
/// (AU-1).
pub(in crate::layers) fn audit_of_change(
    audit: Option<&NewAudit>,
    resource: &AuditResource,
    before: Option<&Json>,
    after: Option<&Json>,
) -> Result<Option<NewEvent>> {
    audit.filter(|_| before != after).map(|audit| planned(audit, resource, before, after)).transpose()
}

/// Plans the record of a change: returns the event to be written in the same step as the change (AU-1).
///
/// `before` and `after` are the values of the resource. Secret values are already hidden in the event (AU-4).
///
/// # Errors
/// `Invalid` if there is no action and no value from which it follows.
pub fn planned(
    audit: &NewAudit,
    resource: &AuditResource,
    before: Option<&Json>,
    after: Option<&Json>,
) -> Result<NewEvent> {
    let action = match (&audit.action, before, after) {
        (Some(action), _, _) => action.clone(),
        (None, None, Some(_)) => AuditAction::Create,
        (None, Some(_), Some(_)) => AuditAction::Update,
        (None, Some(_), None) => AuditAction::Delete,
        (None, None, None) => return Err(Error::invalid("audit record", "it has no action and no values")),
    };
    let is_secret = audit.secret_keys.contains(&resource.last_part());
    let mut redacted = false;
    let mut hide = |value: &Json| {
        let (value, is_changed) =
            if is_secret { (redacted_value()?, true) } else { without_secrets(value, &audit.secret_keys)? };
        redacted |= is_changed;
        Ok::<_, Error>(value)
    };
    let (before, after) = (before.map(&mut hide).transpose()?, after.map(&mut hide).transpose()?);
    let mut topics = vec![all_topic()?, actor_topic(audit.actor.as_str())?, resource_topic(resource)?];
    for folder in resource.folders().take(FOLDER_TOPICS) {
        topics.push(folder_topic(folder)?);
    }
    let payload = AuditPayload {
        actor: audit.actor.clone(),
        resource: resource.clone(),
        before,
        after,
        redacted,
        restored_from: audit.restored_from.clone(),
        error: audit.error.clone(),
        extra: Extra::default(),
    };
    Ok(NewEvent::new(action.kind()?, topics.into_iter().map(Scope::Topic))
        .with_payload(Json::parse(&payload.encode())?)
        .with_visibility(EventVisibility::Audit))
}

fn redacted_value() -> Result<Json> {
    Json::parse(REDACTED)
}

/// Returns a value without the values of secret keys, and whether there were any.
fn without_secrets(value: &Json, secret_keys: &BTreeSet<String>) -> Result<(Json, bool)> {
    if secret_keys.is_empty() {
        return Ok((value.clone(), false));
    }
    let mut out = String::new();
    let redacted = write_without_secrets(value.as_str(), secret_keys, &mut out)?;
    Ok((Json::parse(&out)?, redacted))
}

/// Writes the value `raw` without the values of secret keys. Everything else keeps its spelling.
///
/// The recursion is bounded, because no value is nested deeper than 128 levels.
fn write_without_secrets(raw: &str, secret_keys: &BTreeSet<String>, out: &mut String) -> Result<bool> {
    let unreadable = |_| Error::invalid("audit record", "a value cannot be read");
    let mut redacted = false;
    if raw.starts_with('{') {
        let fields = Fields::parse(raw).map_err(unreadable)?;
        let mut object = ObjectWriter::open(out);
        for (name, value) in fields.into_pairs() {
            let out = object.key(&name);
            if secret_keys.contains(&name) {
                out.push_str(REDACTED);
                redacted = true;
            } else {
                redacted |= write_without_secrets(value, secret_keys, out)?;
            }
        }
        object.close();
    } else if raw.starts_with('[') {
        let items = Vec::<Json>::read(raw).map_err(unreadable)?;
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            redacted |= write_without_secrets(item.as_str(), secret_keys, out)?;
        }
        out.push(']');
    } else {
        out.push_str(raw);
    }
    Ok(redacted)
}

/// Reads the record that an event contains; none if the event is no audit record.
///
/// # Errors
/// `Corrupt` if its payload cannot be read.
pub(super) fn record_of(event: Event) -> Result<Option<AuditRecord>> {
    let all = all_topic()?;
    if !event.topics.contains(&all) {
        return Ok(None);
    }
    // It was an event of a thread, too, and was erased with it.
    if event.redacted && event.payload.is_none() {
        return Ok(None);
    }
    let corrupt = || Error::corrupt(format!("the payload of audit record {}", event.id));
    let payload = event.payload.as_ref().ok_or_else(corrupt)?;
    let payload = AuditPayload::read(payload.as_str()).map_err(|e| corrupt().with_source(e))?;
    Ok(Some(AuditRecord {
        id: event.id,
        time: event.created_at,
        action: AuditAction::from_name(&event.kind),
        actor: payload.actor,
        resource: payload.resource,
        before: payload.before,
        after: payload.after,
        redacted: payload.redacted,
        restored_from: payload.restored_from,
        error: payload.error,
        extra: payload.extra,
    }))
}

/// Returns what stays of a record whose values are erased: who did what to which resource. None if it has no values.
pub(super) fn without_values(event: &Event) -> Result<Option<Json>> {
    let Some(record) = record_of(event.clone())? else { return Ok(None) };
    if record.before.is_none() && record.after.is_none() && record.error.is_none() {
        return Ok(None);
    }
    let payload = AuditPayload {
        actor: record.actor,
        resource: record.resource,
        before: None,
        after: None,
        redacted: true,
        restored_from: record.restored_from,
        error: None,
        extra: Extra::default(),
    };
    Json::parse(&payload.encode()).map(Some)
}

/// Returns the topic in which the records of a query are found: that of the resource, of the deepest folder that has
/// one, of the actor, or of all records.
pub(super) fn topic_of_query(query: &AuditQuery) -> Result<TopicId> {
    match (&query.resource, &query.actor) {
        (Some(ResourceFilter::Exact(resource)), _) => resource_topic(resource),
        (Some(ResourceFilter::Below(folder)), _) => {
            let folders = folder.folders().chain([folder.as_str()]);
            folders.take(FOLDER_TOPICS).last().map_or_else(all_topic, folder_topic)
        }
        (None, Some(TextFilter::Exact(actor))) => actor_topic(actor),
        (None, Some(TextFilter::Prefix(_)) | None) => all_topic(),
    }
}

/// Returns whether the topic of a query also has records that the query leaves out by actor or resource.
pub(super) fn has_layer_filter(query: &AuditQuery) -> bool {
    match (&query.resource, &query.actor) {
        (Some(_), Some(_)) | (None, Some(TextFilter::Prefix(_))) => true,
        (Some(ResourceFilter::Below(folder)), None) => folder.folders().count() + 1 > FOLDER_TOPICS,
        (Some(ResourceFilter::Exact(_)), None) | (None, Some(TextFilter::Exact(_)) | None) => false,
    }
}

/// Returns whether a record passes the filters of a query.
pub(super) fn admits(query: &AuditQuery, record: &AuditRecord) -> bool {
    query.actions.as_ref().is_none_or(|actions| actions.contains(&record.action))
        && query.actor.as_ref().is_none_or(|actor| actor.admits(record.actor.as_str()))
        && query.resource.as_ref().is_none_or(|resource| resource.admits(&record.resource))
        && query.from.is_none_or(|time| record.time >= time)
        && query.before.is_none_or(|time| record.time < time)
}

/// Returns the value with which `resource` is restored from a record: the one after the change, or the one before a
/// deletion (AU-6).
///
/// # Errors
/// `Invalid` if the record is about another resource. `InvalidTransition` if the record is a restart, has no value, or
/// has hidden values.
pub fn restored_value(record: &AuditRecord, resource: &AuditResource) -> Result<Json> {
    if record.resource != *resource {
        return Err(Error::invalid("audit record", "it is about another resource"));
    }
    let refuse = |state: &str| Error::invalid_transition("audit record", &record.id, state, "restored");
    if record.action == AuditAction::Restart {
        return Err(refuse("restart"));
    }
    if record.redacted {
        return Err(refuse("redacted"));
    }
    // A change without a value after it is a deletion, whatever its action is called.
    record.after.as_ref().or(record.before.as_ref()).cloned().ok_or_else(|| refuse("without a value"))
}

#[cfg(test)]
mod tests {
    use super::{
        AuditAction, AuditQuery, AuditResource, NewAudit, ResourceFilter, TextFilter, planned, topic_of_query,
        without_secrets,
    };
    use crate::{ErrorKind, Json, NewEvent, Scope};

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn resource(path: &str) -> AuditResource {
        AuditResource::new(path).unwrap()
    }

    fn audit() -> NewAudit {
        NewAudit::new("ada".parse().unwrap())
    }

    fn topics(event: &NewEvent) -> Vec<String> {
        event
            .scopes
            .iter()
            .map(|scope| if let Scope::Topic(id) = scope { id.to_string() } else { String::new() })
            .collect()
    }

    #[test]
    fn the_action_follows_from_the_values() {
        let kind = |before: Option<&str>, after: Option<&str>| {
            let (before, after) = (before.map(json), after.map(json));
            planned(&audit(), &resource("r"), before.as_ref(), after.as_ref()).map(|event| event.kind.to_string())
        };
        assert_eq!(kind(None, Some("1")).unwrap(), "create");
        assert_eq!(kind(Some("1"), Some("2")).unwrap(), "update");
        assert_eq!(kind(Some("1"), None).unwrap(), "delete");
        assert_eq!(kind(None, None).unwrap_err().kind(), ErrorKind::Invalid);
        let restart = planned(&audit().with_action(AuditAction::Restart), &resource("r"), None, None).unwrap();
        assert_eq!(restart.kind.as_str(), "restart");
    }

    #[test]
    fn a_record_is_in_the_topics_of_its_actor_its_resource_and_the_folders_above_au_3() {
        let event = planned(&audit(), &resource("a/b/c"), None, Some(&json("1"))).unwrap();
        let expected = [
            "layer.audit",
            "layer.audit.actor:ada",
            "layer.audit.resource:a/b/c",
            "layer.audit.below:a",
            "layer.audit.below:a/b",
        ];
        assert_eq!(topics(&event), expected);
        let deep = planned(&audit(), &resource("a/b/c/d/e/f/g/h"), None, Some(&json("1"))).unwrap();
        assert_eq!((topics(&deep).len(), topics(&deep).last().unwrap().as_str()), (8, "layer.audit.below:a/b/c/d/e"));
    }

    #[test]
    fn a_query_reads_a_topic_that_has_all_its_records() {
        let check = |query: AuditQuery, expected: &str| {
            assert_eq!(topic_of_query(&query).unwrap().as_str(), expected, "{query:?}");
        };
        let by_ada = || AuditQuery::new().by(TextFilter::Exact("ada".to_owned()));
        let below = |path: &str| ResourceFilter::Below(resource(path));
        check(AuditQuery::new(), "layer.audit");
        check(by_ada(), "layer.audit.actor:ada");
        check(AuditQuery::new().by(TextFilter::Prefix("ada".to_owned())), "layer.audit");
        check(by_ada().about(ResourceFilter::Exact(resource("a/b"))), "layer.audit.resource:a/b");
        check(by_ada().about(below("a")), "layer.audit.below:a");
        check(AuditQuery::new().about(below("a/b/c/d/e/f/g")), "layer.audit.below:a/b/c/d/e");
    }

    #[test]
    fn values_of_secret_keys_are_hidden_at_any_depth_au_4() {
        let check = |value: &str, expected: &str| {
            let (hidden, redacted) = without_secrets(&json(value), &["key".to_owned()].into()).unwrap();
            assert_eq!((hidden.as_str(), redacted), (expected, value != expected), "{value}");
        };
        check(r#"{"a":1.0,"b":[1E2,{"c":null}]}"#, r#"{"a":1.0,"b":[1E2,{"c":null}]}"#);
        check(r#"{"key":"s","a":{"key":{"x":1}}}"#, r#"{"key":"[redacted]","a":{"key":"[redacted]"}}"#);
        check(r#"[[{"key":1,"key":2}]]"#, r#"[[{"key":"[redacted]","key":"[redacted]"}]]"#);
        check(r#"{"k\u0065y":"s"}"#, r#"{"key":"[redacted]"}"#);
        check(r#"{"keys":"s","a":"key"}"#, r#"{"keys":"s","a":"key"}"#);
        check(r#""key""#, r#""key""#);
    }

    #[test]
    fn a_resource_whose_last_part_is_secret_is_hidden_as_a_whole_au_4() {
        let event =
            planned(&audit().with_secret("a/b"), &AuditResource::of(["p", "a/b"]).unwrap(), None, Some(&json("1")));
        let payload = event.unwrap().payload.unwrap();
        assert!(payload.as_str().contains(r#""after":"[redacted]","redacted":true"#), "{payload}");
    }

    #[test]
    fn parts_of_a_resource_are_not_confused() {
        let of = |parts: [&str; 2]| AuditResource::of(parts).unwrap();
        assert_eq!(of(["a/b", "c"]).as_str(), "a%2Fb/c");
        assert_ne!(of(["a/b", "c"]), of(["a", "b/c"]));
        assert_ne!(of(["a%2Fb", "c"]), of(["a/b", "c"]));
        assert_eq!(of(["a%2Fb", "c"]).parts(), ["a%2Fb", "c"]);
        for (text, canonical) in [("a@b/c", "a%40b/c"), ("a%40b/%63", "a%40b/c"), ("50%/c", "50%25/c")] {
            assert_eq!(resource(text).as_str(), canonical);
            assert_eq!(resource(canonical).as_str(), canonical);
        }
        for bad in ["", "/a", "a/", "a//b", "a\nb", "a%0Ab"] {
            assert_eq!(AuditResource::new(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
        assert!(resource("a/b").is_below(&resource("a")) && !resource("ab").is_below(&resource("a")));
    }
}
