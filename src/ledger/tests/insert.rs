//! Rows that are written together, and only as far as they differ, are the rows that were written.

use super::super::columns::COLUMNS;
use super::super::insert::ROWS_AT_ONCE;
use super::*;
use rusqlite::types::{Value, ValueRef};

/// Makes numbers that are often the same.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..3_u64, 1 => 0..=u64::from(u32::MAX), 1 => Just(u64::MAX)]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab]", 1 => Just(String::new()), 1 => any::<String>()]
}

prop_compose! {
    fn some_row()(
        (request_id, door, caller, key, model) in (name(), name(), name(), name(), name()),
        (account, upstream_model) in (prop::option::of(name()), prop::option::of(name())),
        (prompt, completion, cached, unused_tokens, total_ms) in (number(), number(), number(), number(), number()),
        (cost, unused_cost, first_byte_ms) in prop::array::uniform3(prop::option::of(number())).prop_map(Into::into),
        (at, attempts, stream, status) in (0..3_u64, 0..3_u32, any::<bool>(), any::<u16>()),
        is_ok in any::<bool>(),
    ) -> Row {
        Row {
            admitted_at: NOW + at,
            request_id,
            door: door.into(),
            caller: caller.into(),
            key: key.into(),
            model: model.into(),
            account: account.map(Into::into),
            upstream_model: upstream_model.map(Into::into),
            usage: Usage { prompt, completion, cached, source: Source::Estimated, ..Usage::default() },
            cost: cost.map(Usd),
            unused_tokens,
            unused_cost: unused_cost.map(Usd),
            outcome: if is_ok { "ok" } else { "upstream_error" },
            attempts,
            stream,
            status,
            total_ms,
            first_byte_ms,
            ..Row::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_batchs_rows_are_in_the_file_unchanged(
        rows in prop::collection::vec(some_row(), 0..3 * ROWS_AT_ONCE),
        split in 0..3 * ROWS_AT_ONCE,
    ) {
        let folder = Folder::new();
        let ledger = folder.open();
        // The second batch uses the statements of the first.
        let (first, second) = rows.split_at(split.min(rows.len()));
        for batch in [first, second] {
            batch.iter().for_each(|row| ledger.write(row.clone()));
            ledger.flush();
        }
        let file = folder.read();
        let sql = format!("SELECT {} FROM exchange ORDER BY rowid", COLUMNS.map(|(name, _)| name).join(", "));
        let mut statement = file.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let written = statement.query_map([], |row| (0..columns).map(|column| row.get::<_, Value>(column)).collect());
        let written: Vec<Vec<Value>> = written.unwrap().map(Result::unwrap).collect();
        let expected = rows.iter().map(|row| -> Vec<Value> {
            COLUMNS.iter().map(|(_, value)| value(row)).map(ValueRef::try_into).map(Result::unwrap).collect()
        });
        prop_assert_eq!(written, expected.collect::<Vec<_>>());
    }
}
