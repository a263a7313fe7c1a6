//! A placeholder is a text that stands for a value: a template that another program fills in, the
//! name of a variable, or an example from documentation.
//!
//! Only a *whole* value counts. Portcullis fills no template in: without this check, a placeholder
//! would go to the provider as it stands.

use crate::base::problem::is_variable_name;
use dialects::presets;

/// The kind of text that stands in place of a secret.
#[derive(Debug, PartialEq, Eq)]
pub enum Placeholder<'t> {
    /// A template for an environment variable. The variable's name is given only if it plainly is
    /// one.
    Variable(Option<&'t str>),
    /// The bare name of an environment variable.
    Name(&'t str),
    /// A template of another kind, in a language that Portcullis does not know.
    Template,
    /// An example from documentation: `sk-...`, `<your key>`.
    Example,
    /// A value with quotes around it, which would be sent with it. The quotes were written twice,
    /// or a program that reads a file of variables kept them.
    Quoted,
}

/// Whole values that people write where a secret will stand later.
const LATER: [&str; 9] = [
    "changeme",
    "change-me",
    "change_me",
    "replaceme",
    "replace-me",
    "replace_me",
    "placeholder",
    "your-key-here",
    "todo",
];

impl<'t> Placeholder<'t> {
    /// Returns the kind of placeholder that a whole value is, if it is one.
    pub fn detect(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let between = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
        if let Some(inside) = ["\"", "'", "`"]
            .into_iter()
            .find_map(|quote| between(quote, quote))
        {
            return Some(Self::detect(inside).unwrap_or(Self::Quoted));
        }
        if presets::key_variables().any(|name| name == text) {
            return Some(Self::Name(text));
        }
        if let Some(inside) = between("${", "}") {
            // `${NAME:-default}`, `${env:NAME}`, `${env.NAME}`
            let name = inside
                .strip_prefix("env")
                .and_then(|rest| rest.strip_prefix(['.', ':']))
                .unwrap_or(inside);
            return Some(Self::variable(
                name.split([':', '-', '?']).next().unwrap_or_default(),
            ));
        }
        for begin in ["$", "os.environ/", "env.", "env:", "env/", "%"] {
            let end = if begin == "%" { "%" } else { "" };
            if let Some(name) = between(begin, end).filter(|name| is_upper_case(name)) {
                return Some(Self::variable(name));
            }
        }
        if between("$(", ")")
            .or_else(|| between("{{", "}}"))
            .or_else(|| between("{%", "%}"))
            .is_some()
            || text.starts_with("os.environ")
        {
            return Some(Self::Template);
        }
        let lower = text.to_ascii_lowercase();
        let crossed_out = lower.trim_end_matches(['x', '*']);
        let is_example = LATER.contains(&lower.as_str())
            || between("<", ">").is_some()
            || ["your-", "your_", "your "]
                .iter()
                .any(|begin| lower.starts_with(begin))
            || lower.ends_with("...")
            || lower.ends_with('…')
            || (lower.len() - crossed_out.len() >= 4
                && (crossed_out.is_empty() || crossed_out.ends_with(['-', '_'])));
        is_example.then_some(Self::Example)
    }

    /// Makes a variable. Its name is repeated only if it plainly is the name of a variable: a text
    /// that looks like a secret is not repeated.
    fn variable(name: &'t str) -> Self {
        Self::Variable(is_variable_name(name).then_some(name))
    }

    /// Returns the placeholder if a text is the name of a variable that is set. The environment is
    /// asked only for texts that look like such a name. The ids of AWS's access keys do not.
    pub(crate) fn of_name(text: &'t str, is_set: impl FnOnce(&str) -> bool) -> Option<Self> {
        let looks_like_one = is_upper_case(text)
            && (text.contains('_')
                || ["KEY", "TOKEN", "SECRET"]
                    .iter()
                    .any(|end| text.ends_with(end)));
        (looks_like_one && is_set(text)).then_some(Self::Name(text))
    }

    /// Returns a text with the fault of the value, and the line to write instead.
    /// `default_variable` is the variable that usually holds it.
    pub(crate) fn problem_text(&self, field: &str, default_variable: Option<&str>) -> String {
        let message = match self {
            Self::Variable(_) | Self::Template => {
                "is a template, which Portcullis does not fill in"
            }
            Self::Name(_) => "is the name of an environment variable, not its value",
            Self::Example => "is a placeholder, not a secret",
            Self::Quoted => {
                "has quotes around it, and they would be sent as part of it: remove them"
            }
        };
        let name = match self {
            Self::Variable(Some(name)) | Self::Name(name) => name,
            Self::Variable(None) => {
                return format!(
                    "{message}: write `{field}: {{ env: NAME }}`, with the name of the variable"
                );
            }
            Self::Template | Self::Example => default_variable.unwrap_or("NAME"),
            Self::Quoted => return message.to_owned(),
        };
        format!("{message}: write `{field}: {{ env: {name} }}`, or `{{ file: /path }}`")
    }
}

fn is_upper_case(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_that_stand_for_one() {
        use Placeholder::{Example, Name, Quoted, Template, Variable};
        let key = || Variable(Some("OPENAI_API_KEY"));
        for (text, is) in [
            ("${OPENAI_API_KEY}", key()),
            ("${OPENAI_API_KEY:-none}", key()),
            ("${env:OPENAI_API_KEY}", key()),
            ("$OPENAI_API_KEY", key()),
            (" $OPENAI_API_KEY ", key()),
            ("os.environ/OPENAI_API_KEY", key()),
            ("env.OPENAI_API_KEY", key()),
            ("%OPENAI_API_KEY%", key()),
            ("${AZURE_API_BASE}", Variable(Some("AZURE_API_BASE"))),
            (
                "${AZURE_API_BASE:-http://127.0.0.1}",
                Variable(Some("AZURE_API_BASE")),
            ),
            ("${AKIAIOSFODNN7EXAMPLE}", Variable(None)),
            ("${hunter2}", Variable(None)),
            ("$HUNTER2", Variable(None)),
            ("${secrets.openai}", Variable(None)),
            ("$(cat /run/key)", Template),
            ("{{ .Values.key }}", Template),
            ("os.environ[\"OPENAI_API_KEY\"]", Template),
            ("sk-...", Example),
            ("sk-…", Example),
            ("sk-ant-...", Example),
            ("sk-xxxxxxxx", Example),
            ("sk-proj-XXXXXXXXXXXX", Example),
            ("****", Example),
            ("<key>", Example),
            ("<your API key>", Example),
            ("your-api-key", Example),
            ("YOUR_OPENAI_KEY", Example),
            ("changeme", Example),
            ("CHANGE_ME", Example),
            ("OPENAI_API_KEY", Name("OPENAI_API_KEY")),
            ("\"GROQ_API_KEY\"", Name("GROQ_API_KEY")),
            ("\"${OPENAI_API_KEY}\"", key()),
            ("\"sk-...\"", Example),
            ("\"sk-live-0123456789\"", Quoted),
            ("'sk-live-0123456789' ", Quoted),
            ("\"\"", Quoted),
        ] {
            assert_eq!(Placeholder::detect(text), Some(is), "{text}");
        }
        for text in [
            "sk-live-0123456789",
            "EMPTY",
            "none",
            "$ecret1",
            "a$B",
            "p${x}",
            "${x",
            "x",
            "pa<ss>word",
            "yourself",
            "sk-0xx",
            "%41",
            "env.x",
            "",
            "-",
            "\"",
            "a\"b\"",
            "HUNTER2",
        ] {
            assert_eq!(Placeholder::detect(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_variables_that_are_set() {
        for (text, is) in [
            ("MY_VARIABLE", true),
            ("OPENAIKEY", true),
            ("AKIAIOSFODNN7EXAMPLE", false),
            ("EMPTY", false),
            ("my_key", false),
        ] {
            assert_eq!(
                Placeholder::of_name(text, |_| true),
                is.then_some(Placeholder::Name(text)),
                "{text}"
            );
            assert_eq!(Placeholder::of_name(text, |_| false), None, "{text}");
        }
    }

    #[test]
    fn the_line_to_write_instead() {
        let wrong = |text: &str| {
            Placeholder::detect(text)
                .unwrap()
                .problem_text("key", Some("GROQ_API_KEY"))
        };
        assert_eq!(
            wrong("$MY_KEY"),
            "is a template, which Portcullis does not fill in: write `key: { env: MY_KEY }`, or `{ file: /path }`"
        );
        assert_eq!(
            wrong("sk-..."),
            "is a placeholder, not a secret: write `key: { env: GROQ_API_KEY }`, or `{ file: /path }`"
        );
        assert_eq!(
            wrong("OPENAI_API_KEY"),
            "is the name of an environment variable, not its value: write `key: { env: OPENAI_API_KEY }`, or `{ file: /path }`"
        );
        assert_eq!(
            wrong("\"hunter2\""),
            "has quotes around it, and they would be sent as part of it: remove them"
        );
        let told = wrong("${hunter2}");
        assert!(
            told.contains("key: { env: NAME }") && !told.contains("hunter2"),
            "{told}"
        );
    }
}
