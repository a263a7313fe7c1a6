//! Habits are fields that people bring from other gateways, proxies and client libraries, each with
//! what to write here.
//!
//! Each file of the configuration has a table of its own; how a table is asked is the same.

use std::collections::BTreeSet;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// A row of the table: how fields are called elsewhere, beside which words of ours they then stand
/// (one of them must be allowed there), and what to write here. Words are parted by blanks.
pub type Habit = (&'static str, &'static str, &'static str);

/// Returns what a table says of a field that stands where these are allowed.
pub fn find(habits: &[Habit], field: &str, allowed: &[&str]) -> Option<&'static str> {
    let meant = |(brought, beside, _): &&Habit| {
        beside.split(' ').any(|word| allowed.contains(&word))
            && brought.split(' ').any(|word| word.eq_ignore_ascii_case(field))
    };
    habits.iter().find(meant).map(|(_, _, instead)| *instead)
}

/// Returns all fields of a file, wherever they stand.
pub fn words<T: JsonSchema>() -> BTreeSet<String> {
    fn gather(schema: &Value, words: &mut BTreeSet<String>) {
        match schema {
            Value::Object(object) => {
                if let Some(Value::Object(properties)) = object.get("properties") {
                    words.extend(properties.keys().cloned());
                }
                object.values().for_each(|inner| gather(inner, words));
            }
            Value::Array(items) => items.iter().for_each(|inner| gather(inner, words)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    gather(&SchemaGenerator::default().into_root_schema_for::<T>().to_value(), &mut found);
    found
}
