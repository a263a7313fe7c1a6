//! The columns of a row in the file, and the values that they get.

use super::Row;
use crate::conf::price::Usd;
use rusqlite::types::ValueRef;

/// The largest sum of money that is written.
pub(super) const MAX_MONEY: i64 = 1 << 62;

/// The columns of a row, in the order of the table (later versions added the last ones): if the
/// order were another one, SQLite would copy each value once more.
pub(super) const COLUMNS: [&str; 26] = [
    "at",
    "request_id",
    "caller",
    "key",
    "model",
    "account",
    "upstream_model",
    "outcome",
    "prompt",
    "completion",
    "cached",
    "cache_write",
    "reasoning",
    "usage",
    "cost",
    "unused_tokens",
    "unused_cost",
    "attempts",
    "stream",
    "status",
    "total_ms",
    "first_byte_ms",
    "door",
    "images",
    "audio_ms",
    "characters",
];
/// One placeholder for each of [`COLUMNS`].
pub(super) const PLACEHOLDERS: &str =
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Returns the values of a row, in the order of [`COLUMNS`].
pub(super) fn row_values(row: &Row) -> [ValueRef<'_>; COLUMNS.len()] {
    [
        integer_value(row.admitted_at),
        text_value(&row.request_id),
        text_value(&row.caller),
        text_value(&row.key),
        text_value(&row.model),
        text_value(row.account.as_deref().unwrap_or("")),
        text_value(row.upstream_model.as_deref().unwrap_or("")),
        text_value(row.outcome),
        integer_value(row.usage.prompt),
        integer_value(row.usage.completion),
        integer_value(row.usage.cached),
        integer_value(row.usage.cache_write),
        integer_value(row.usage.reasoning),
        text_value(row.usage.source.name()),
        optional_value(row.cost.map(|Usd(cost)| cost)),
        integer_value(row.unused_tokens),
        optional_value(row.unused_cost.map(|Usd(cost)| cost)),
        integer_value(row.attempts),
        integer_value(row.stream),
        integer_value(row.status),
        integer_value(row.total_ms),
        optional_value(row.first_byte_ms),
        text_value(&row.door),
        integer_value(row.usage.units.images),
        integer_value(row.usage.units.millis),
        integer_value(row.usage.units.characters),
    ]
}

/// Returns a text as SQLite stores it.
pub(super) fn text_value(text: &str) -> ValueRef<'_> {
    ValueRef::Text(text.as_bytes())
}

/// Returns a number as SQLite stores it, or nothing.
pub(super) fn optional_value(value: Option<u64>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, integer_value)
}

fn integer_value(value: impl Into<u64>) -> ValueRef<'static> {
    ValueRef::Integer(stored_integer(value.into()))
}

/// Returns a number as SQLite stores it. Only sums of money can be so large that they are cut.
pub(super) fn stored_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(MAX_MONEY).min(MAX_MONEY)
}
