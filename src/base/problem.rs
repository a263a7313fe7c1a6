//! A problem is an error in the operator's files, written so that the operator can correct it:
//! file, line, path, cause, fix.
//!
//! **Invariant:** no message holds a value that may be a secret. A text that an operator wrote is
//! quoted in two cases only: it is close to an allowed word ([`quote_near_miss`]), or it is an id
//! of the catalog ([`quote_safely`]). Of every other value a message gives only the place
//! ([`in_column`]).

use std::fmt;

/// One error, or one warning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as the operator knows it. Code that reads a text without knowing its file
    /// leaves the name empty, and its caller fills it in.
    pub file: String,
    /// The line in the file, counted from 1.
    pub line: Option<usize>,
    /// The place in the file's tree: `models.fast.targets[1].account`; empty for the file as a
    /// whole.
    pub path: String,
    /// A text with the fault, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All errors, in the order of the files; then all warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>, pub Vec<Problem>);

impl Problem {
    /// Returns whether the problem is at this place of the file's tree, or inside it.
    pub fn is_within(&self, path: &str) -> bool {
        path.is_empty()
            || self
                .path
                .strip_prefix(path)
                .is_some_and(|inside| inside.is_empty() || inside.starts_with(['.', '[']))
    }

    /// Makes a problem of a text whose file is not known yet.
    pub fn in_text(line: usize, path: String, message: String) -> Self {
        Self {
            line: Some(line),
            path,
            message,
            ..Self::default()
        }
    }

    /// Makes a problem of a file as a whole.
    pub fn of_file(file: String, message: impl Into<String>) -> Self {
        Self {
            file,
            message: message.into(),
            ..Self::default()
        }
    }
}

impl Problems {
    /// Makes a report of one error.
    pub fn one(problem: Problem) -> Self {
        Self(vec![problem], Vec::new())
    }

    /// Writes everything, one problem a line. The warnings come first, so that the errors stand
    /// last.
    pub fn with_warnings(&self) -> String {
        let warnings: String = self
            .1
            .iter()
            .map(|warning| format!("warning: {warning}\n"))
            .collect();
        format!("{warnings}{self}")
    }
}

/// Writes the errors, one a line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

/// Quotes a value if it is within two edits of an allowed word, because then it was meant to be
/// that word. Any other value may be a secret in the wrong place, whatever it looks like.
pub fn quote_near_miss<'n>(
    text: &str,
    allowed: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    const MAX_EDITS: usize = 2;
    let near = nearest_name(text, allowed)?;
    (edit_distance(text, near) <= MAX_EDITS).then(|| quote_safely(text))
}

/// Writes a sentence about a value that is not quoted, with the value's column on its line.
pub fn in_column(sentence: &str, column: usize) -> String {
    format!("{sentence} (column {column})")
}

/// Quotes an id of the catalog. A long id is cut short; an id that looks like a secret is not shown
/// at all.
pub fn quote_safely(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    if looks_secret(text) {
        return "(a value that is not shown here)".to_owned();
    }
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Returns a name as it is, or `…` if it looks like a secret in the wrong place.
pub fn unless_secret(name: &str) -> &str {
    if looks_secret(name) { "…" } else { name }
}

/// Returns whether a text plainly is the name of an environment variable, so that it may be shown:
/// `AZURE_API_BASE`. A secret in the wrong place has no such words.
pub fn is_variable_name(text: &str) -> bool {
    const MAX_LENGTH: usize = 64;
    text.len() <= MAX_LENGTH
        && text.contains('_')
        && text.split('_').all(is_word_of_variable)
        && !looks_secret(text)
}

/// Returns whether a text has capital letters, and a few digits behind them.
fn is_word_of_variable(word: &str) -> bool {
    const MOST_DIGITS: usize = 3;
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let are_letters = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_uppercase());
    are_letters && word.len() - letters.len() <= MOST_DIGITS
}

/// Returns whether a text has a word like `sk-…`, a run of 20 letters and digits mixed, an AWS
/// secret, or a URL's user name. Other texts may match too, but a secret of a known form always
/// does.
pub fn looks_secret(text: &str) -> bool {
    const MARKS: [&str; 10] = [
        "sk-", "sk_", "pk-", "gsk_", "xai-", "AKIA", "AIza", "ghp_", "hf_", "eyJ",
    ];
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
    let mut runs = text.split(|c: char| !c.is_ascii_alphanumeric());
    let mut tokens = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/+".contains(c)));
    let classes = [
        u8::is_ascii_uppercase,
        u8::is_ascii_lowercase,
        u8::is_ascii_digit,
    ];
    let mixed = |token: &str| classes.iter().all(|is_in| token.bytes().any(|b| is_in(&b)));
    words.any(|word| MARKS.iter().any(|mark| word.strip_prefix(mark).is_some_and(|rest| rest.len() >= 8)))
        || runs.any(|run| run.len() >= 20 && run.bytes().any(|b| b.is_ascii_digit()) && run.bytes().any(|b| b.is_ascii_alphabetic()))
        // This is the form of an AWS secret access key.
        || tokens.any(|token| token.len() == 40 && mixed(token))
        || (text.contains("://") && text.contains('@'))
}

/// Finds the allowed name that a wrong one was most likely meant to be.
pub fn nearest_name<'n>(
    wrong: &str,
    allowed: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let letters = wrong.chars().count();
    let max_distance = 1 + letters / 4;
    allowed
        .into_iter()
        .filter(|name| name.chars().count().abs_diff(letters) <= max_distance)
        .map(|name| (edit_distance(wrong, name), name))
        .filter(|(distance, name)| *distance <= max_distance && *distance < name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns Levenshtein's distance. Two neighbours in the wrong order count once, and case does not
/// count.
fn edit_distance(a: &str, b: &str) -> usize {
    let lower = |text: &str| Vec::from_iter(text.chars().map(|c| c.to_ascii_lowercase()));
    let (a, b) = (lower(a), lower(b));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        let mut left = None;
        for (j, y) in b.iter().enumerate() {
            let mut best = (cell(&above, j) + usize::from(x != y))
                .min(cell(&above, j + 1) + 1)
                .min(cell(&row, j) + 1);
            if last == Some(y) && left == Some(x) && j > 0 {
                best = best.min(cell(&before, j - 1) + 1);
            }
            row.push(best);
            left = Some(y);
        }
        before = std::mem::replace(&mut above, row);
        last = Some(x);
    }
    above.last().copied().unwrap_or(0)
}

/// Returns the distance in a column of a row, or one that is never the best.
fn cell(row: &[usize], column: usize) -> usize {
    row.get(column).copied().unwrap_or(usize::MAX / 2)
}

/// Writes that there is nothing of this name, and which name may be meant. The name is repeated
/// only where it is nearly a known one: it may be a secret.
pub fn no_such<'n>(noun: &str, name: &str, known: impl Iterator<Item = &'n str>) -> String {
    no_such_or_advice(noun, name, known, "")
}

/// Writes that there is nothing of this name, and which name may be meant, or else `advice`.
pub fn no_such_or_advice<'n>(
    noun: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
    advice: &str,
) -> String {
    let known: Vec<&str> = known.collect();
    let nothing = match quote_near_miss(name, known.iter().copied()) {
        Some(_) => format!("there is no {noun} {name}"),
        None => format!("there is no such {noun}"),
    };
    let hint = nearest_name(name, known).map_or_else(
        || advice.to_owned(),
        |meant| format!("; did you mean {meant}?"),
    );
    nothing + &hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_were_meant() {
        let names = ["account", "aliases", "base_url", "enabled", "claude", "a"];
        for (wrong, right) in [
            ("acount", Some("account")),
            ("accuont", Some("account")),
            ("claud", Some("claude")),
            ("Enabled", Some("enabled")),
            ("base-url", Some("base_url")),
            ("baseurl", Some("base_url")),
            ("price", None),
            ("b", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(wrong, names), right, "{wrong}");
        }
    }

    #[test]
    fn s06_values_are_quoted_only_if_nearly_allowed() {
        let allowed = ["openai", "anthropic", "demo", "m"];
        for (text, told) in [
            ("opneai", Some("\"opneai\"")),
            ("OpenAI", Some("\"OpenAI\"")),
            ("antropik", Some("\"antropik\"")),
            ("demo", Some("\"demo\"")),
        ] {
            assert_eq!(quote_near_miss(text, allowed).as_deref(), told, "{text}");
        }
        // The third is near enough to ask whether `anthropic` was meant, and not to be repeated.
        for secret in [
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f",
            "nthrpc",
            "hunter2",
            "pw",
            "x",
            "",
        ] {
            assert_eq!(quote_near_miss(secret, allowed), None, "{secret}");
        }
    }

    #[test]
    fn s06_what_looks_like_a_secret_is_not_shown() {
        for secret in [
            "sk-live-0123456789",
            "Bearer sk-canary-1",
            "AKIAIOSFODNN7EXAMPLE",
            "0123456789abcdef0123456789abcdef",
            "x: sk-proj-aaaaaaaa",
            "https://user:password@host",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEK1",
        ] {
            assert!(
                !quote_safely(secret).contains(secret) && unless_secret(secret) == "…",
                "{secret}"
            );
        }
        for name in [
            "gpt-4o-mini",
            "task-force-eleven-hundred",
            "10.0.0.0/8",
            "yes",
            "least_busy",
            "sk-demo",
            "OPENAI_API_KEY",
            "/run/secrets/openai",
        ] {
            assert_eq!(quote_safely(name), format!("{name:?}"));
        }
        assert_eq!(quote_safely(&"a".repeat(100)).chars().count(), 63);
    }
}
