//! Which keywords of JSON Schema the API takes in the schemas of tools.

use crate::value::{Object, Value, child_pointer};

/// The fields of the type `Schema` of the API. The API accepts other keywords only in `parametersJsonSchema` and
/// `responseJsonSchema`.
///
/// Source: <https://ai.google.dev/api/caching#Schema>.
const KEYWORDS: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

/// Returns a warning for each keyword that the API refuses in the schemas of a tool: of its parameters and of its
/// response.
pub(super) fn unknown_keywords(body: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, tool) in body.list("tools").unwrap_or_default().iter().filter_map(Value::as_object).enumerate() {
        let declarations = ["functionDeclarations", "function_declarations"].iter().find_map(|name| tool.list(name));
        for function in declarations.unwrap_or_default().iter().filter_map(Value::as_object) {
            let name = function.text("name").unwrap_or_default();
            for field in ["parameters", "response"] {
                if let Some(schema) = function.object(field) {
                    check_schema(schema, &format!("/tools/{at}/{name}/{field}"), &mut warnings);
                }
            }
        }
    }
    warnings
}

fn check_schema(schema: &Object, pointer: &str, warnings: &mut Vec<String>) {
    for (name, value) in schema.iter() {
        let pointer = child_pointer(pointer, name);
        match (name, value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties.iter() {
                    if let Some(property) = property.as_object() {
                        check_schema(property, &child_pointer(&pointer, name), warnings);
                    }
                }
            }
            ("items", Value::Object(items)) => check_schema(items, &pointer, warnings),
            ("anyOf", Value::List(schemas)) => {
                schemas.iter().filter_map(Value::as_object).for_each(|schema| check_schema(schema, &pointer, warnings));
            }
            _ if !KEYWORDS.contains(&name) => {
                warnings.push(format!("the API refuses the keyword at {pointer}; use `parametersJsonSchema`"));
            }
            _ => {}
        }
    }
}
