//! Changes that are reported to break are held against the catalog itself: catalogs and edits are
//! drawn, and the callers with a secret that opens something before the edit, and not after it,
//! must be those for whom something is reported to break. Which keys and names are reported is not
//! compared.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use super::words::render_changes;
use super::{Change, Effect, ExtraFacts, find_changes};
use crate::catalog::Catalog;
use crate::catalog::resolve::resolve_catalog;
use crate::inventory::{Inventory, SecretChanges};

/// 2026-11-01.
const NOW: (u64, &str) = (1_793_491_200, "2026-11-01T00:00:00.000Z");
const DRAWN_EDITS: usize = 400;
/// The number of secrets that only one key can have. Two more may move.
const OWN: usize = 12;
/// The name that is asked for. The empty name means a list of models, which every key gets.
const NAMES: [&str; 9] = ["", "m1", "m2", "big", "x", "fast", "fab", "fo", "mm"];

/// Draws parts of a catalog.
struct Dice(u64);

impl Dice {
    fn below(&mut self, number: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % number
    }

    fn one<'o>(&mut self, choices: &[&'o str]) -> &'o str {
        choices[self.below(choices.len())]
    }

    fn account(&mut self, id: &str) -> String {
        let off = self.one(&["", "", "", ", enabled: false"]);
        format!("  {id}: {{ dialect: openai, base_url: \"https://{id}.test/v1\"{off} }}\n")
    }

    fn model(&mut self, id: &str) -> String {
        let alias = self.one(&["", "", "x", "fast", "m*", "f*", "fa*"]);
        let alias = if alias.is_empty() {
            String::new()
        } else {
            format!("aliases: [\"{alias}\"], ")
        };
        let targets = self.one(&[
            "{ account: a }",
            "{ account: b }",
            "{ account: a }, { account: b }",
        ]);
        let text = format!("  {id}: {{ {alias}targets: [{targets}] }}\n");
        if self.below(4) == 0 {
            String::new()
        } else {
            text
        }
    }

    /// Draws a caller. Each key has one or two of three secrets of its own, or one that any key may
    /// have.
    fn caller(&mut self, id: &str, first: usize) -> String {
        let mut text = format!("  {id}:\n    enabled: {}\n", self.below(6) > 0);
        text += self.one(&["", "", "", "    expires: 2026-01-01\n"]);
        text += &self
            .globs()
            .map(|globs| format!("    {globs}\n"))
            .unwrap_or_default();
        text += "    keys:\n";
        for key in 0..2 {
            let start = first + 3 * key;
            let hash = |number: usize| format!("{{ hash: \"sha256:{:064x}\"", start + number);
            let until = self.one(&["", ", until: 2026-03-01", ", until: 2027-03-01"]);
            let own = format!("{} }}, {}{until} }}", hash(self.below(2)), hash(2));
            let shared = format!("{{ hash: \"sha256:{:064x}\" }}", OWN + self.below(2));
            let hashes = match self.below(6) {
                0 => shared,
                1 => format!("{own}, {shared}"),
                _ => own,
            };
            let more = self.one(&["", "", "", ", enabled: false", ", expires: 2026-02-01"]);
            let globs = self
                .globs()
                .map(|globs| format!(", {globs}"))
                .unwrap_or_default();
            if self.below(6) > 0 {
                writeln!(text, "      k{key}: {{ hashes: [{hashes}]{more}{globs} }}").unwrap();
            }
        }
        if text.ends_with("keys:\n") {
            text.replace("keys:\n", "keys: {}\n")
        } else {
            text
        }
    }

    fn globs(&mut self) -> Option<String> {
        let all = ["\"*\"", "m1", "m2", "\"m*\"", "big", "\"b*\"", "nothing"];
        let (one, other) = (self.one(&all), self.one(&all));
        (self.below(3) > 0).then(|| format!("models: [{one}, {other}]"))
    }

    fn part(&mut self, index: usize) -> String {
        match index {
            0 => self.account("a"),
            1 => self.account("b"),
            2 => self.model("m1"),
            3 => self.model("m2"),
            4 => self.model("big"),
            5 => self.caller("c", 0),
            _ => self.caller("d", 6),
        }
    }
}

/// Returns the catalog of these parts, if it is one.
fn make_catalog(parts: &[String]) -> Option<(Catalog, String)> {
    let models = parts[2..5].concat();
    let models = if models.is_empty() {
        " {}\n".to_owned()
    } else {
        format!("\n{models}")
    };
    let text = format!(
        "accounts:\n{}models:{models}callers:\n{}",
        parts[..2].concat(),
        parts[5..].concat()
    );
    let read = resolve_catalog(&[("catalog.yaml".to_owned(), text.clone())], &mut |_| {
        Err(String::new())
    });
    Some((read.ok()?, text))
}

/// Returns whose request with this secret for this name is answered.
fn answering_caller(catalog: &Catalog, secret: usize, name: &str) -> Option<String> {
    let mut digest = [0; 32];
    digest[31] = u8::try_from(secret).unwrap();
    let opened = catalog.opened(&digest, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.0));
    let (key, _) = opened
        .ok()
        .filter(|(key, _)| name.is_empty() || catalog.visible(key, name).is_some())?;
    Some(key.caller.id.to_string())
}

/// Returns the callers for whom this is reported to break.
fn callers_of(change: &Change) -> Vec<String> {
    let caller = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
    match change.kind {
        "caller" | "key" => change.names.iter().map(caller).collect(),
        _ => change.callers.clone(),
    }
}

#[test]
fn only_what_is_told_to_break_breaks() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut seen = [0; 2];
    while seen[0] + seen[1] < DRAWN_EDITS {
        let before: Vec<String> = (0..7).map(|index| dice.part(index)).collect();
        let mut after = before.clone();
        for _ in 0..=dice.below(3) {
            let index = dice.below(7);
            after[index] = dice.part(index);
        }
        let Some(((before, text), (after, text_after))) =
            make_catalog(&before).zip(make_catalog(&after))
        else {
            continue;
        };
        let all = (0..OWN + 2).flat_map(|secret| NAMES.map(|name| (secret, name)));
        let lost = all.filter(|(secret, name)| answering_caller(&after, *secret, name).is_none());
        let lost: BTreeSet<_> = lost
            .filter_map(|(secret, name)| answering_caller(&before, secret, name))
            .collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.0);
        let besides = ExtraFacts {
            secrets: Some(SecretChanges::between(&before, &after, now)),
            server: None,
        };
        let found = find_changes(
            &Inventory::from_catalog(&before),
            &Inventory::from_catalog(&after),
            &besides,
            NOW.1,
        );
        let breaks = found
            .iter()
            .filter(|change| change.effect == Effect::Breaks);
        let breaks: BTreeSet<_> = breaks.flat_map(callers_of).collect();
        assert_eq!(
            breaks,
            lost,
            "\n{text}\n{text_after}\n{}",
            render_changes(&found)
        );
        seen[usize::from(!breaks.is_empty())] += 1;
    }
    assert!(
        seen[0].min(seen[1]) > DRAWN_EDITS / 4,
        "both are drawn: {seen:?}"
    );
}
