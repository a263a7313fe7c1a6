//! The columns of a row in the file, and the values that they get.

use super::Row;
use crate::conf::price::Usd;
use rusqlite::types::ValueRef;

/// The largest sum of money that is written: SQLite can still add two of them.
pub(super) const MOST: i64 = 1 << 62;

/// The columns of a row, in the order of the table: SQLite copies the values of any other order.
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
/// The placeholders for as many values.
pub(super) const PLACES: &str =
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Returns the values of [`COLUMNS`].
pub(super) fn values(row: &Row) -> [ValueRef<'_>; COLUMNS.len()] {
    [
        whole(row.at),
        text(&row.request_id),
        text(&row.caller),
        text(&row.key),
        text(&row.model),
        text(row.account.as_deref().unwrap_or("")),
        text(row.upstream_model.as_deref().unwrap_or("")),
        text(row.outcome),
        whole(row.usage.prompt),
        whole(row.usage.completion),
        whole(row.usage.cached),
        whole(row.usage.cache_write),
        whole(row.usage.reasoning),
        text(row.usage.source.name()),
        optional(row.cost.map(|Usd(cost)| cost)),
        whole(row.unused_tokens),
        optional(row.unused_cost.map(|Usd(cost)| cost)),
        whole(row.attempts),
        whole(row.stream),
        whole(row.status),
        whole(row.total_ms),
        optional(row.first_byte_ms),
        text(&row.door),
        whole(row.usage.units.images),
        whole(row.usage.units.millis),
        whole(row.usage.units.characters),
    ]
}

/// Returns a text as SQLite stores it.
pub(super) fn text(text: &str) -> ValueRef<'_> {
    ValueRef::Text(text.as_bytes())
}

/// Returns a number as SQLite stores it, or nothing.
pub(super) fn optional(value: Option<u64>) -> ValueRef<'static> {
    value.map_or(ValueRef::Null, whole)
}

fn whole(value: impl Into<u64>) -> ValueRef<'static> {
    ValueRef::Integer(number(value.into()))
}

/// Returns a number as SQLite stores it. Only sums of money can be so large that they are cut.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(MOST).min(MOST)
}
