use super::query::{LiveQuery, Section};
use super::rows::Room;
use super::{MAX_ANSWER_BYTES, find_rows};
use proptest::prelude::*;
use serde_json::Value;

struct Row(String);

impl super::HasName for Row {
    fn name(&self) -> &str {
        &self.0
    }
}

proptest! {
    /// However long rows are, what is written is JSON, has no more than there is room for, and
    /// counts what is left out.
    #[test]
    fn sections_fit_into_the_room(
        head in 20..30_000_usize,
        sizes in prop::array::uniform3(prop::collection::vec(2..4_000_usize, 0..120)),
        show in prop::sample::select(vec!["", "show=models", "show=callers,requests", "show=requests"]),
    ) {
        let query = LiveQuery::from_url(show).unwrap();
        let mut text = format!("{{\"head\":\"{}\"", "x".repeat(head));
        let mut room = Room::new(MAX_ANSWER_BYTES - text.len(), &query);
        let sections = [Section::Models, Section::Callers, Section::Requests];
        for (section, sizes) in sections.into_iter().zip(&sizes).filter(|(section, _)| query.shows(*section)) {
            let rows = sizes.iter().map(|size| format!("\"{}\"", "y".repeat(size - 2)).into());
            room.write_section(&mut text, section, sizes.len(), Some(sizes.len()), rows);
        }
        text.push_str("}\n");
        prop_assert!(text.len() <= MAX_ANSWER_BYTES);
        let read: Value = serde_json::from_str(&text).unwrap();
        for (section, sizes) in sections.into_iter().zip(&sizes).filter(|(section, _)| query.shows(*section)) {
            let section = &read[section.name()];
            let shown = section["rows"].as_array().unwrap().len();
            prop_assert_eq!(&section["more"], sizes.len() - shown);
            prop_assert!(shown > 0 || sizes.is_empty() || sizes[0] > 2_000, "{} of {}", shown, sizes.len());
        }
    }
}

#[test]
fn a_page_has_matching_rows_from_a_place() {
    let rows: Vec<Row> = ["ab", "b", "abc", "c"]
        .into_iter()
        .map(|name| Row(name.to_owned()))
        .collect();
    let found = |text: &str, from| {
        let (rows, offered, total) = find_rows(&rows, text, from);
        let names: Vec<&str> = rows.map(|row| row.0.as_str()).collect();
        (names.join(" "), offered, total)
    };
    assert_eq!(found("", 0), ("ab b abc c".to_owned(), 4, 4));
    assert_eq!(found("b", 1), ("b abc".to_owned(), 2, 3));
    assert_eq!(found("b", 9), (String::new(), 0, 3));
}
