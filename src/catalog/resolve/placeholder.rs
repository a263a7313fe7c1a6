//! Values that stand for a value: templates that other programs fill in, and what documentation writes where a secret goes.
//!
//! Only a *whole* value counts. Nothing here fills anything in, so that such a value would go to the provider as it stands.

/// What stands there instead of a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placeholder<'t> {
    /// An environment variable is meant, by this name if it is plainly one.
    Variable(Option<&'t str>),
    /// Another template, of a language that is not spoken here.
    Template,
    /// What documentation writes: `sk-...`, `<your key>`.
    Example,
}

impl<'t> Placeholder<'t> {
    /// What a whole value is, if it is one of these.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let between = |open: &str, close: &str| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inside) = between("${", "}") {
            // `${NAME:-default}`, `${env:NAME}`, `${env.NAME}`
            let name = inside.strip_prefix("env").and_then(|rest| rest.strip_prefix(['.', ':'])).unwrap_or(inside);
            return Some(Self::variable(name.split([':', '-', '?']).next().unwrap_or_default()));
        }
        for begin in ["$", "os.environ/", "env.", "env:", "env/", "%"] {
            let end = if begin == "%" { "%" } else { "" };
            if let Some(name) = between(begin, end).filter(|name| is_upper_case(name)) {
                return Some(Self::variable(name));
            }
        }
        if between("$(", ")").or_else(|| between("{{", "}}")).or_else(|| between("{%", "%}")).is_some() || text.starts_with("os.environ") {
            return Some(Self::Template);
        }
        let lower = text.to_ascii_lowercase();
        let crossed_out = lower.trim_end_matches(['x', '*']);
        let is_example = between("<", ">").is_some()
            || ["your-", "your_", "your "].iter().any(|begin| lower.starts_with(begin))
            || lower.ends_with("...")
            || lower.ends_with('…')
            || (lower.len() - crossed_out.len() >= 4 && (crossed_out.is_empty() || crossed_out.ends_with(['-', '_'])));
        is_example.then_some(Self::Example)
    }

    /// A name is repeated only where it plainly is one: what looks like a secret is none, wherever it stands.
    fn variable(name: &'t str) -> Self {
        const ENDS: [&str; 8] = ["_KEY", "_TOKEN", "_SECRET", "_ID", "_PASSWORD", "_CREDENTIALS", "_URL", "_AUTH"];
        let is_plain = is_upper_case(name) && ENDS.iter().any(|end| name.ends_with(end)) && crate::problem::unless_secret(name) == name;
        Self::Variable(is_plain.then_some(name))
    }

    /// What is wrong with it, and the line to write instead. `usual` is the variable that it usually is in.
    pub(crate) fn wrong(&self, field: &str, usual: Option<&str>) -> String {
        let what = match self {
            Self::Variable(_) | Self::Template => "is a template, and nothing fills it in",
            Self::Example => "is a placeholder, and no secret",
        };
        let name = match self {
            Self::Variable(Some(name)) => name,
            Self::Variable(None) => return format!("{what}: write `{field}: {{ env: NAME }}`, with the name of the variable"),
            Self::Template | Self::Example => usual.unwrap_or("NAME"),
        };
        format!("{what}: write `{field}: {{ env: {name} }}`, or `{{ file: /path }}`")
    }
}

fn is_upper_case(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_that_stand_for_one() {
        use Placeholder::{Example, Template, Variable};
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
        ] {
            assert_eq!(Placeholder::of(text), Some(is), "{text}");
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
        ] {
            assert_eq!(Placeholder::of(text), None, "{text}");
        }
    }

    #[test]
    fn the_line_to_write_instead() {
        let wrong = |text: &str| Placeholder::of(text).unwrap().wrong("key", Some("GROQ_API_KEY"));
        assert_eq!(wrong("$MY_KEY"), "is a template, and nothing fills it in: write `key: { env: MY_KEY }`, or `{ file: /path }`");
        assert_eq!(wrong("sk-..."), "is a placeholder, and no secret: write `key: { env: GROQ_API_KEY }`, or `{ file: /path }`");
        let told = wrong("${hunter2}");
        assert!(told.contains("key: { env: NAME }") && !told.contains("hunter2"), "{told}");
    }
}
