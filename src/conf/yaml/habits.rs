//! A habit is a field that people bring from other gateways, proxies and client libraries, with the
//! words to write here instead.
//!
//! Each file of the configuration has a table of its own. All tables are read in the same way.

use std::collections::BTreeSet;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// Returns the rows of a table. Each row is a line with three columns: the names that a field has
/// elsewhere; our words beside which such a name then stands (one of them must be allowed there);
/// and the words to write here. ` | ` separates the columns, a blank separates words.
pub fn table_rows(
    table: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    table.lines().filter_map(|row| {
        let (brought, rest) = row.split_once(" | ")?;
        let (neighbours, instead) = rest.split_once(" | ")?;
        Some((brought, neighbours, instead))
    })
}

/// Returns the words to write instead of a field, from a table. The field stands at a place where
/// the fields `allowed` may stand.
pub fn suggest_words(table: &'static str, field: &str, allowed: &[&str]) -> Option<&'static str> {
    let mut rows = table_rows(table);
    let meant = rows.find(|(brought, neighbours, _)| {
        let (mut brought, mut neighbours) = (brought.split(' '), neighbours.split(' '));
        neighbours.any(|word| allowed.contains(&word))
            && brought.any(|word| word.eq_ignore_ascii_case(field))
    });
    meant.map(|(_, _, instead)| instead)
}

/// Returns all fields of a file, at any depth.
pub fn all_fields<T: JsonSchema>() -> BTreeSet<String> {
    fn gather_fields(schema: &Value, words: &mut BTreeSet<String>) {
        match schema {
            Value::Object(object) => {
                if let Some(Value::Object(properties)) = object.get("properties") {
                    words.extend(properties.keys().cloned());
                }
                object
                    .values()
                    .for_each(|inner| gather_fields(inner, words));
            }
            Value::Array(items) => items.iter().for_each(|inner| gather_fields(inner, words)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    gather_fields(
        &SchemaGenerator::default()
            .into_root_schema_for::<T>()
            .to_value(),
        &mut found,
    );
    found
}
