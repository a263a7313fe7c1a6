//! `portcullis schema` prints the JSON Schema of a configuration file. It is made of the types that
//! the file is read into.

use std::process::ExitCode;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{SchemaArgs, SchemaOf, print_result};
use portcullis::catalog;
use portcullis::conf::config;

/// Prints a schema.
pub(super) fn run(args: &SchemaArgs) -> ExitCode {
    print_result(&schema_text(args.file))
}

pub(super) fn schema_text(which: SchemaOf) -> String {
    match which {
        SchemaOf::Server => render_schema::<config::raw::Server>("portcullis server.yaml"),
        SchemaOf::Catalog => render_schema::<catalog::raw::Catalog>("portcullis catalog.yaml"),
    }
}

fn render_schema<T: JsonSchema>(title: &str) -> String {
    let mut schema = SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value();
    without_null(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), title.into());
    }
    // The schema holds only maps, lists and plain values, so writing it cannot fail.
    format!("{schema:#}\n")
}

/// Removes null from a schema. A field that may be left out is an `Option` in the types, and
/// schemars says that it may be null. In our files it may not.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            object.values_mut().for_each(without_null);
            if let Some(Value::String(text)) = object.get_mut("description") {
                // The line ends of a doc comment are only those of the source.
                *text = text.replace('\n', " ");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(one)] = choices.as_slice() {
                    let one = one.clone();
                    object.remove("anyOf");
                    // The field's own description stays; the description of its type does not
                    // replace it.
                    for (key, value) in one {
                        object.entry(key).or_insert(value);
                    }
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Write them anew with `portcullis schema server > conf/schema/server.schema.json`, and
    /// `catalog` likewise.
    #[test]
    fn the_committed_schemas_are_current() {
        for (which, committed) in [
            (
                SchemaOf::Server,
                include_str!("../../../conf/schema/server.schema.json"),
            ),
            (
                SchemaOf::Catalog,
                include_str!("../../../conf/schema/catalog.schema.json"),
            ),
        ] {
            assert!(
                schema_text(which) == committed,
                "conf/schema is not what `portcullis schema` prints for {which:?}"
            );
            assert!(!committed.contains("null"), "null is an error everywhere");
        }
    }
}
