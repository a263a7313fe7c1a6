//! The rules for names. Names stand in logs, metrics, headers and URLs, so they are plain.

/// Checks the name of an account, a caller or a key. The error shows what a right name looks like.
pub fn of_entry(name: &str) -> Result<(), &'static str> {
    const RIGHT: &str = "a name has 1 to 64 characters: letters, digits and . _ - @ +; the first is a letter or a digit";
    let right = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-@+".contains(&b));
    if right { Ok(()) } else { Err(RIGHT) }
}

/// Checks a model id or an alias. It may hold `/`, as the ids of many providers do. The error says
/// what a right id looks like.
pub fn of_model(id: &str) -> Result<(), &'static str> {
    const RIGHT: &str = "a model id has 1 to 256 ASCII characters, but no space and none of * ? # % \" \\ \
                         ` < > { } | ^; a part between slashes must not be empty, `.` or `..`";
    let right = (1..=256).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"*?#%\"\\`<>{}|^".contains(&b))
        && id.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if right { Ok(()) } else { Err(RIGHT) }
}

/// Checks the id of a model that stands for others. It is an id but for its one `*`.
pub fn of_pattern(id: &str) -> Result<(), &'static str> {
    let wrong = "a pattern of model ids holds one `*`, and is a model id but for that";
    if id.matches('*').count() == 1 {
        of_model(&id.replace('*', "a"))
    } else {
        Err(wrong)
    }
}

/// Checks an alias that is a glob. It is an alias but for its wildcards.
pub fn of_alias_glob(glob: &str) -> Result<(), &'static str> {
    of_model(&glob.replace(['*', '?'], "a"))
}

/// Returns whether a name is a glob.
pub fn is_glob(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Returns the part of a glob before its first wildcard.
pub fn literal_prefix(glob: &str) -> &str {
    glob.split(['*', '?']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for right in ["a", "openai-main", "team.blue_2", "joe@acme.org", "0"] {
            assert_eq!(of_entry(right), Ok(()), "{right}");
        }
        for wrong in ["", "a/b", "a b", "-a", ".a", "ä", "a\n", &"a".repeat(65)] {
            assert!(of_entry(wrong).is_err(), "{wrong}");
        }
        for right in [
            "gpt-4o",
            "meta-llama/Llama-3:free",
            "ft:gpt-4o:acme::x",
            "@cf/x/y",
            "a.b",
        ] {
            assert_eq!(of_model(right), Ok(()), "{right}");
        }
        for (pattern, right) in [
            ("openai/*", true),
            ("*", true),
            ("a-*-b", true),
            ("*/*", false),
            ("a?/*", false),
            ("/*", false),
        ] {
            assert_eq!(of_pattern(pattern).is_ok(), right, "{pattern}");
        }
        for wrong in [
            "",
            "a b",
            "/a",
            "a/",
            "a//b",
            "a/../b",
            ".",
            "gpt-*",
            "a?b",
            "a%2Fb",
            "ä",
            "a\t",
            &"a".repeat(257),
        ] {
            assert!(of_model(wrong).is_err(), "{wrong}");
        }
    }
}
