//! A glob is a pattern of model ids: `*` stands for any run of characters, `?` for any one. This
//! module has sets of globs.

use std::fmt;
use std::sync::Arc;

use super::name;

/// A set of globs: `*` stands for any run of characters, `?` for any one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Globs {
    allows_all: bool,
    /// The globs without wildcards; sorted, because a set may list thousands.
    exact: Vec<Arc<str>>,
    patterns: Vec<Arc<str>>,
}

impl Globs {
    /// Makes the set that holds every id.
    pub fn everything() -> Self {
        Self {
            allows_all: true,
            ..Self::default()
        }
    }

    /// Makes the set of ids that any of these globs matches.
    pub fn new(written: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut globs = Self::default();
        for glob in written {
            match &*glob {
                "*" => return Self::everything(),
                wild if wild.contains(['*', '?']) => globs.patterns.push(glob),
                _ => globs.exact.push(glob),
            }
        }
        for list in [&mut globs.exact, &mut globs.patterns] {
            list.sort_unstable();
            list.dedup();
        }
        globs
    }

    /// Returns whether this is the set that holds every id.
    pub fn is_everything(&self) -> bool {
        self.allows_all
    }

    /// Returns each of the globs.
    pub fn list(&self) -> Vec<&str> {
        let all = self.allows_all.then_some("*").into_iter();
        all.chain(self.exact.iter().chain(&self.patterns).map(|glob| &**glob))
            .collect()
    }

    /// Returns whether one of the globs may match a text that a pattern stands for.
    pub fn may_match(&self, pattern: &str) -> bool {
        self.list().iter().any(|glob| may_meet(glob, pattern))
    }

    /// Returns whether this set surely has all texts of a pattern that the other one has.
    pub fn covers(&self, other: &Self, pattern: &str) -> bool {
        let has = |narrow: &str| self.list().iter().any(|wide| is_wider(wide, narrow));
        has(pattern)
            || other
                .list()
                .iter()
                .filter(|glob| may_meet(glob, pattern))
                .all(|glob| has(glob))
    }

    /// Returns whether one of the globs matches.
    pub fn matches(&self, id: &str) -> bool {
        self.allows_all
            || self
                .exact
                .binary_search_by(|exact| (**exact).cmp(id))
                .is_ok()
            || self
                .patterns
                .iter()
                .any(|pattern| match_glob(pattern.as_bytes(), id.as_bytes()))
    }
}

/// Writes a list of the first few globs.
impl fmt::Display for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        let list = self.list();
        write!(f, "[{}", list.get(..SHOWN).unwrap_or(&list).join(", "))?;
        if list.len() > SHOWN {
            write!(f, ", … {} in all]", list.len())
        } else {
            f.write_str("]")
        }
    }
}

/// Returns whether a glob may match a text that a pattern stands for.
fn may_meet(glob: &str, pattern: &str) -> bool {
    let begins = name::literal_prefix(pattern);
    match name::literal_prefix(glob) {
        exact if exact.len() == glob.len() => glob_matches(pattern, exact),
        other => other.starts_with(begins) || begins.starts_with(other),
    }
}

/// Returns whether a glob surely matches all that another one matches. A `*` is never within what a
/// `?` stands for.
fn is_wider(wide: &str, narrow: &str) -> bool {
    wide == narrow || (glob_matches(wide, narrow) && !(wide.contains('?') && narrow.contains('*')))
}

/// Returns whether a glob matches an id.
pub fn glob_matches(pattern: &str, id: &str) -> bool {
    match_glob(pattern.as_bytes(), id.as_bytes())
}

/// Returns the part of a text that the `*` of a pattern stands for. The pattern has one `*`.
pub fn star_text<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let (before, after) = pattern.split_once('*')?;
    text.strip_prefix(before)?.strip_suffix(after)
}

/// Puts a text in the place of the `*` of a pattern.
pub fn fill_star(pattern: &str, star: &str) -> String {
    pattern.replacen('*', star, 1)
}

/// Matches without recursion. Only the last `*` is ever tried again, so the cost is at most the
/// product of the two lengths.
fn match_glob(mut pattern: &[u8], mut text: &[u8]) -> bool {
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
            }
            (Some((b'?', rest)), Some((first, _))) => {
                // One character, which may be several bytes.
                let width = match first {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                (pattern, text) = (rest, text.get(width..).unwrap_or_default());
            }
            (Some((p, rest)), Some((t, tail))) if p == t => (pattern, text) = (rest, tail),
            (None, None) => return true,
            _ => match again {
                Some((after, [_, tail @ ..])) => {
                    again = Some((after, tail));
                    (pattern, text) = (after, tail);
                }
                Some((_, [])) | None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, matching, other) in [
            ("*", &["", "a", "a/b"][..], &[][..]),
            ("gpt-*", &["gpt-", "gpt-4o"], &["gpt", "xgpt-4"]),
            ("*-mini", &["gpt-4o-mini", "-mini"], &["mini", "a-mini-b"]),
            (
                "a*b*c",
                &["abc", "aXbYc", "abbbc", "abcbc"],
                &["ab", "acb", "abcd"],
            ),
            ("g?t", &["gpt", "g/t", "gät"], &["gt", "gppt"]),
            ("?*", &["a", "ab"], &[""]),
            ("a**b", &["ab", "axb"], &["a"]),
            ("meta/*", &["meta/llama/3"], &["meta"]),
            ("gpt-4o", &["gpt-4o"], &["gpt-4", "gpt-4o-mini", "GPT-4o"]),
            ("[ab]", &["[ab]"], &["a"]),
        ] {
            let globs = Globs::new([Arc::from(pattern)]);
            for id in matching {
                assert!(globs.matches(id), "{pattern} {id}");
            }
            for id in other {
                assert!(!globs.matches(id), "{pattern} {id}");
            }
        }
        assert!(!Globs::new([]).matches("a"));
        assert!(Globs::everything().matches("a"));
    }

    #[test]
    fn a_star_stands_for_one_part_of_a_name() {
        for (pattern, text, part) in [
            ("*", "gpt-4o", Some("gpt-4o")),
            ("openai/*", "openai/gpt-4o", Some("gpt-4o")),
            ("openai/*-mini", "openai/o4-mini", Some("o4")),
            ("a*a", "aa", Some("")),
            ("a*a", "a", None),
            ("openai/*", "other/gpt-4o", None),
            ("gpt-4o", "gpt-4o", None),
        ] {
            assert_eq!(star_text(pattern, text), part, "{pattern} {text}");
            if let Some(part) = part {
                assert_eq!(fill_star(pattern, part), text);
            }
        }
    }

    #[test]
    fn globs_that_begin_otherwise_have_no_text_in_common() {
        let globs = Globs::new(["demo".into(), "demo-*".into()]);
        for (pattern, may) in [
            ("*", true),
            ("de*", true),
            ("demo-x*", true),
            ("openai/*", false),
            ("demox*", false),
        ] {
            assert_eq!(globs.may_match(pattern), may, "{pattern}");
        }
        assert!(Globs::everything().may_match("openai/*") && !Globs::new([]).may_match("*"));
    }

    #[test]
    fn no_glob_is_slow() {
        let start = std::time::Instant::now();
        assert!(!match_glob(
            format!("{}b", "*a".repeat(60)).as_bytes(),
            "a".repeat(256).as_bytes()
        ));
        // What tries all ways takes longer than anybody lives.
        assert!(start.elapsed().as_secs() < 60);
    }

    #[test]
    fn a_long_list_is_shown_in_part() {
        let globs =
            |count: usize| Globs::new((0..count).map(|n| format!("m{n:02}").into())).to_string();
        assert_eq!((globs(0).as_str(), globs(2).as_str()), ("[]", "[m00, m01]"));
        assert_eq!(
            globs(40),
            "[m00, m01, m02, m03, m04, m05, m06, m07, m08, m09, m10, m11, … 40 in all]"
        );
        assert_eq!(Globs::everything().to_string(), "[*]");
    }
}
