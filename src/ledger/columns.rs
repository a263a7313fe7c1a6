//! The columns of a row in the file, each with the value that it gets.

use super::Row;
use crate::conf::price::Usd;
use rusqlite::types::ValueRef;

/// The largest sum of money that is written.
pub(super) const MAX_MONEY: i64 = 1 << 62;

/// A column of a row in the file: its name, and the value that a row has there.
pub(super) type RowColumn = (&'static str, fn(&Row) -> ValueRef<'_>);

/// The columns of a row, in the order of the table (later versions added the last ones): if the
/// order were another one, SQLite would copy each value once more.
pub(super) const COLUMNS: [RowColumn; 26] = [
    ("at", |row| integer_value(row.admitted_at)),
    ("request_id", |row| text_value(&row.request_id)),
    ("caller", |row| text_value(&row.caller)),
    ("key", |row| text_value(&row.key)),
    ("model", |row| text_value(&row.model)),
    ("account", |row| {
        text_value(row.account.as_deref().unwrap_or(""))
    }),
    ("upstream_model", |row| {
        text_value(row.upstream_model.as_deref().unwrap_or(""))
    }),
    ("outcome", |row| text_value(row.outcome)),
    ("prompt", |row| integer_value(row.usage.prompt)),
    ("completion", |row| integer_value(row.usage.completion)),
    ("cached", |row| integer_value(row.usage.cached)),
    ("cache_write", |row| integer_value(row.usage.cache_write)),
    ("reasoning", |row| integer_value(row.usage.reasoning)),
    ("usage", |row| text_value(row.usage.source.name())),
    ("cost", |row| optional_value(row.cost.map(|Usd(cost)| cost))),
    ("unused_tokens", |row| integer_value(row.unused_tokens)),
    ("unused_cost", |row| {
        optional_value(row.unused_cost.map(|Usd(cost)| cost))
    }),
    ("attempts", |row| integer_value(row.attempts)),
    ("stream", |row| integer_value(row.stream)),
    ("status", |row| integer_value(row.status)),
    ("total_ms", |row| integer_value(row.total_ms)),
    ("first_byte_ms", |row| optional_value(row.first_byte_ms)),
    ("door", |row| text_value(&row.door)),
    ("images", |row| integer_value(row.usage.units.images)),
    ("audio_ms", |row| integer_value(row.usage.units.millis)),
    ("characters", |row| {
        integer_value(row.usage.units.characters)
    }),
];
/// One placeholder for each of [`COLUMNS`].
pub(super) const PLACEHOLDERS: &str =
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

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
