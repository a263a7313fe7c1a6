//! Reads what callers have used this month, by the day, from the sums of days.

use super::read::{Range, Reader, Table, unreadable_error};
use super::sums::Column;
use crate::base::calendar::{day_of, first_day_of_month};
use crate::conf::price::Usd;
use crate::figures::callers::{CallerUse, Callers};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Adds what the file has of this month and of days to come. Without a file there is nothing.
pub(super) fn add_month_use(path: &Path, now_ms: u64, callers: &Callers) -> Result<(), String> {
    let Some(reader) = Reader::open(path)? else {
        return Ok(());
    };
    let mut days: HashMap<Arc<str>, HashMap<u64, CallerUse>> = HashMap::new();
    let range = Range {
        from: first_day_of_month(day_of(now_ms)),
        until: u64::MAX,
        caller: None,
        key: None,
        model: None,
    };
    let read = reader.view().and_then(|view| {
        view.read_entries(Table::Days, &range, &mut |key, sums| {
            let more = CallerUse {
                requests: sums[Column::Requests],
                tokens: sums.tokens(),
                usd: Usd(sums[Column::Cost]),
                unpriced: sums[Column::Unpriced],
            };
            if !days.contains_key(key.caller) {
                days.insert(key.caller.into(), HashMap::new());
            }
            if let Some(days) = days.get_mut(key.caller) {
                days.entry(key.day).or_default().add(&more);
            }
            true
        })
    });
    read.map_err(|why| unreadable_error(path, why))?;
    for (caller, days) in &days {
        days.iter()
            .for_each(|(day, used)| callers.add_day_use(caller, *day, used));
    }
    Ok(())
}
