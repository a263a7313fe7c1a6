//! The rules of the house that no lint checks. No modules import each other in a circle. Names say
//! something, functions read from the top, comments and files stay within bounds. Each exception
//! is named with its reason, and must be removed from here when it no longer is one.

use crate::layering::{code_of, rust_files, sources};
use crate::support::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Groups of modules that still import each other, each with the folder that they are in.
const STILL: &[(&str, &[&str])] = &[];

/// Files and folders with closures of several lines that have a name: still to be cleaned.
const WITH_LONG_CLOSURES: &[&str] = &[];

/// Files and folders with functions that take a tuple or an array apart: still to be cleaned.
const WITH_PATTERN_PARAMETERS: &[&str] = &[];

/// How many names of each crate may still be words of the list in CONTRIBUTING.md.
const STILL_NAMED: &[(&str, usize)] = &[("crates/cli/src", 2), ("src", 32)];

/// Files with more than 600 lines before their tests.
const LONG_FILES: &[(&str, &str)] = &[];

/// Files with comments of more than 100 columns.
const WIDE_COMMENTS: &[(&str, &str)] = &[];

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for root in roots() {
        let files = sources(&root).into_iter();
        let files = files.map(|(file, code)| (module_of(file.strip_prefix(&root).unwrap()), code));
        circles.extend(
            circles_of(&files.collect())
                .into_iter()
                .map(|(parent, names)| {
                    let parent = if parent.is_empty() {
                        root.clone()
                    } else {
                        format!("{root}/{}", parent.join("/"))
                    };
                    (parent, names)
                }),
        );
    }
    let still: Vec<(String, Vec<String>)> = STILL
        .iter()
        .map(|(parent, names)| {
            (
                (*parent).to_owned(),
                names.iter().map(|name| (*name).to_owned()).collect(),
            )
        })
        .collect();
    assert_eq!(
        circles, still,
        "left: circles that there are; right: those that the list STILL names"
    );
}

#[test]
fn a_circle_would_be_seen() {
    let file = |path: &str, source: &str| (module_of(Path::new(path)), code_of(source));
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        let files = files
            .iter()
            .map(|(path, source)| file(path, source))
            .collect();
        let found: Vec<_> = circles_of(&files)
            .into_iter()
            .map(|(parent, names)| format!("{}: {}", parent.join("::"), names.join(" ")))
            .collect();
        assert_eq!(found, expected);
    };
    // By `use`, by a path in the code, by a path that begins at an import.
    check(
        &[
            ("a.rs", "use crate::{b::{self, X}, c};"),
            ("b.rs", "fn f() -> super::a::Y {}"),
        ],
        &[": a b"],
    );
    check(
        &[
            ("a/mod.rs", "pub mod one; pub mod two;"),
            ("a/one.rs", "use crate::a; fn f() { a::two::g() }"),
            ("a/two.rs", "use super::one::f as other;"),
        ],
        &["a: one two"],
    );
    // Three in a row, and another circle below.
    check(
        &[
            ("a.rs", "use crate::b::deep::X;"),
            ("b.rs", "mod deep; mod flat;"),
            ("b/deep.rs", "use super::flat; use crate::c;"),
            ("b/flat.rs", "fn f() { crate::b::deep::g() }"),
            ("c.rs", "fn f() { crate::a::g::<u8>() }"),
        ],
        &[": a b c", "b: deep flat"],
    );
    // A parent and its child are one, comments, texts and tests do not count.
    check(
        &[
            ("a.rs", "mod one; use one::X; use crate::b;"),
            ("a/one.rs", "use super::Y; use crate::b::Z;"),
            (
                "b.rs",
                "//! [`crate::a`]\nconst A: &str = \"crate::a::X\";\n#[cfg(test)]\nmod tests { use crate::a; }",
            ),
        ],
        &[],
    );
}

#[test]
fn no_closure_with_a_name_has_several_lines() {
    check_folders(long_closures, WITH_LONG_CLOSURES);
    for (code, expected) in [
        ("let mut add = |n| {\n    n + 1\n};", &["add"][..]),
        (
            "let text: &dyn Fn() -> u8 =\n    &1;\nlet a = |n| n + 1;",
            &[],
        ),
        (
            "let read: Reader = async move |n| n\n    .read();",
            &["read"],
        ),
        (
            "let add = move |n|\n    n; let sums = lines.map(|line| {\n    line\n});",
            &["add"],
        ),
    ] {
        assert_eq!(long_closures(code), expected, "{code}");
    }
}

#[test]
fn no_parameter_of_a_function_is_taken_apart() {
    check_folders(pattern_parameters, WITH_PATTERN_PARAMETERS);
    for (code, expected) in [
        ("fn add((a, b): (u8, u8)) {}", &["add"][..]),
        (
            "fn add<F: Fn(u8, u8) -> u8>(a: F, [b, c]: [u8; 2]) {}",
            &["add"],
        ),
        (
            "fn add(&self, #[expect(a)] &(a, b): &(u8, u8)) {}",
            &["add"],
        ),
        (
            "fn add(a: (u8, [u8; 2]), b: fn((u8, u8))) { sums.map(|(a, b)| a) }",
            &[],
        ),
    ] {
        assert_eq!(pattern_parameters(code), expected, "{code}");
    }
}

#[test]
fn no_identifier_is_a_word_that_names_nothing() {
    let words = words_that_name_nothing(include_str!("../../CONTRIBUTING.md"));
    assert!(words.len() > 20, "{words:?}");
    for root in roots() {
        let found: Vec<_> = sources(&root)
            .iter()
            .flat_map(|(file, code)| {
                let names = names_among(&words, code).into_iter();
                names.map(|name| format!("{}: {name}", file.display()))
            })
            .collect();
        let most = STILL_NAMED
            .iter()
            .find(|(folder, _)| *folder == root)
            .map_or(0, |(_, most)| *most);
        println!("{root}: {} names", found.len());
        assert!(
            found.len() <= most,
            "{root}: {} names are in the list of CONTRIBUTING.md, and {most} are left to rename:\n{}",
            found.len(),
            found.join("\n")
        );
    }
    let words = ["told", "at"].map(str::to_owned);
    for (code, expected) in [
        (
            "fn told(a: u8) { at(a); let at = b.told(); at + 1 }",
            &["told", "at", "at"][..],
        ),
        (
            "struct A { pub(crate) told: u8 } enum B { At(u8), C }",
            &["told", "At"],
        ),
        (
            "mod at; const TOLD: u8 = 1; use serde::at; |at: u8| C::TOLD",
            &["at", "TOLD", "at"],
        ),
        (
            "told!(); serde::told(); is_told = b.at; fn f<'at>() {}",
            &[],
        ),
    ] {
        assert_eq!(names_among(&words, code), expected, "{code}");
    }
}

/// Returns the words of the table in CONTRIBUTING.md, in lower case.
fn words_that_name_nothing(page: &str) -> Vec<String> {
    let (_, section) = page.split_once("\n## Words that name nothing\n").unwrap();
    let section = section.split("\n## ").next().unwrap_or(section);
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split([',', ' ', '`']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns each token that is one of these words in any case, and that is a name of ours: not a
/// call, a field or a path, since what they lead to is found where it is defined.
fn names_among<'c>(words: &[String], code: &'c str) -> Vec<&'c str> {
    let tokens = tokens(code);
    let is_own = |index: usize, token: &str| {
        let before = index.checked_sub(1).map_or("", |before| tokens[before]);
        let after = tokens.get(index + 1).copied().unwrap_or_default();
        let is_call = after == "(" && before != "fn" && token.starts_with(char::is_lowercase);
        !matches!(before, "." | "::" | "'") && !matches!(after, "!" | "::") && !is_call
    };
    let named = tokens.iter().enumerate();
    named
        .filter(|(index, token)| words.contains(&token.to_lowercase()) && is_own(*index, token))
        .map(|(_, token)| *token)
        .collect()
}

/// Returns the names of closures that take more than one line.
fn long_closures(code: &str) -> Vec<&str> {
    let statements = code
        .match_indices("let ")
        .filter(|(index, _)| !code[..*index].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    let closures = statements.filter_map(|(index, _)| {
        let statement = &code[index..index + closing(&code[index..], ";")];
        let (name, value) = statement["let ".len()..].split_once('=')?;
        let name = name.trim_start_matches("mut ").trim_start();
        let words = ["async", "move"];
        let value = value
            .split_whitespace()
            .find(|word| !words.contains(word))?;
        let is_closure = is_name(name) && value.starts_with('|') && statement.contains('\n');
        is_closure.then(|| tokens(name)[0])
    });
    closures.collect()
}

/// Returns the functions that take a tuple or an array apart among their parameters.
fn pattern_parameters(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (index, _) in code.match_indices("fn ") {
        let definition = code[index + "fn ".len()..].trim_start();
        let opening = first_outside(definition, '(');
        let end = opening + closing(&definition[opening..], ")");
        let mut parameters = definition.get(opening + 1..end).unwrap_or_default();
        while !parameters.is_empty() {
            let (parameter, rest) = parameters.split_at(first_outside(parameters, ','));
            let pattern = match parameter.trim_start().strip_prefix("#[") {
                Some(attribute) => &attribute[closing(attribute, "]") + 1..],
                None => parameter,
            };
            let pattern = pattern.trim_start_matches(['&', ' ', '\n']);
            if pattern.trim_start_matches("mut ").starts_with(['(', '[']) {
                found.push(tokens(definition)[0]);
            }
            parameters = rest.get(1..).unwrap_or_default();
        }
    }
    found
}

/// Returns where one of these ends stands that is in no bracket, or that closes the first bracket.
fn closing(code: &str, ends: &str) -> usize {
    let mut depth = 0;
    for (index, c) in code.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth <= 0 && ends.contains(c) {
            return index;
        }
    }
    code.len()
}

/// Returns where a character stands that is in no bracket and in no generics.
fn first_outside(code: &str, character: char) -> usize {
    let (mut depth, mut before) = (0, ' ');
    for (index, c) in code.char_indices() {
        match c {
            c if c == character && depth == 0 => return index,
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if !matches!(before, '-' | '=') => depth -= 1,
            _ => {}
        }
        before = c;
    }
    code.len()
}

/// Requires that what is looked for is found in these folders, in each of them, and nowhere else.
#[track_caller]
fn check_folders(find: fn(&str) -> Vec<&str>, folders: &[&str]) {
    let mut missing: BTreeSet<&str> = folders.iter().copied().collect();
    let mut breaches = Vec::new();
    for (file, code) in all_sources() {
        let found = find(&code);
        match folders.iter().find(|folder| file.starts_with(folder)) {
            Some(folder) if !found.is_empty() => drop(missing.remove(folder)),
            Some(_) => {}
            None => breaches.extend(
                found
                    .iter()
                    .map(|name| format!("{}: {name}", file.display())),
            ),
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    assert!(
        missing.is_empty(),
        "nothing is left in {missing:?}: take it from the list"
    );
}

#[test]
fn no_comment_is_wider_than_a_hundred_columns() {
    let mut wide = BTreeSet::new();
    for file in [
        "src",
        "crates",
        "tests",
        "benches",
        "examples",
        "fuzz/fuzz_targets",
    ]
    .into_iter()
    .flat_map(rust_files)
    {
        let source = std::fs::read_to_string(&file).unwrap();
        let mut in_fence = false;
        for line in source.lines() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                continue;
            };
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            in_fence ^= comment.starts_with("```");
            if line.chars().count() > 100 && !in_fence && !comment.contains("://") {
                wide.insert(file.display().to_string());
            }
        }
    }
    check_exceptions(&Vec::from_iter(wide), WIDE_COMMENTS);
}

/// Returns whether a word of a test's name says where the test belongs: `f07`, `alone`.
fn is_group(word: &str) -> bool {
    let mut letters = word.chars();
    let is_code = letters.next().is_some_and(|c| c.is_ascii_lowercase())
        && letters.as_str().len() == 2
        && letters.all(|c| c.is_ascii_digit());
    is_code || ["alone", "all", "real"].contains(&word)
}

fn words_of_a_tests_name(name: &str) -> usize {
    name.split('_').skip_while(|word| is_group(word)).count()
}

/// Returns the names of the tests in a source, unit and integration tests alike.
fn test_names(source: &str) -> impl Iterator<Item = &str> {
    let tests = source.split("#[test]").skip(1);
    let tests = tests.chain(source.split("#[tokio::test").skip(1));
    tests.filter_map(|test| test.split_once("fn ")?.1.split('(').next())
}

#[test]
fn a_tests_name_has_at_most_nine_words() {
    let mut long = Vec::new();
    for file in ["src", "crates", "tests"].into_iter().flat_map(rust_files) {
        let source = std::fs::read_to_string(&file).unwrap();
        let names = test_names(&source).filter(|name| words_of_a_tests_name(name) > 9);
        long.extend(names.map(str::to_owned));
    }
    let source = "#[test]\nfn one() {}\n#[tokio::test(flavor = \"a\")]\nasync fn two() {}";
    assert_eq!(Vec::from_iter(test_names(source)), ["one", "two"]);
    assert_eq!(words_of_a_tests_name("f07_d11_reloads_lose_nothing"), 3);
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn no_file_is_longer_than_six_hundred_lines() {
    let length = |source: &str| {
        source
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or(source)
            .lines()
            .count()
    };
    let mut lengths: Vec<_> = texts()
        .map(|(file, source)| (length(&source), file))
        .collect();
    lengths.sort();
    println!(
        "{} files, median {} lines",
        lengths.len(),
        lengths[lengths.len() / 2].0
    );
    let mut long: Vec<_> = lengths
        .into_iter()
        .filter(|(length, _)| *length > 600)
        .map(|(_, file)| file)
        .collect();
    long.sort();
    check_exceptions(&long, LONG_FILES);
}

#[test]
fn the_map_names_each_module_of_the_top_level() {
    for folder in roots() {
        let lib = root().join(&folder).join("lib.rs");
        assert_eq!(
            missing_in_map(&std::fs::read_to_string(lib).unwrap()),
            Vec::<&str>::new(),
            "{folder}/lib.rs"
        );
    }
    let lib = "//! | [`named`] | what it is |\n//! | `parts::first` | a part |\nmod parts;\npub mod named;\npub mod left_out;\n";
    assert_eq!(missing_in_map(lib), ["left_out"]);
}

/// Returns the modules that no row of a crate's map names, neither themselves nor a part of them.
fn missing_in_map(lib: &str) -> Vec<&str> {
    let rows = lib
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split(" | ").next());
    let named: Vec<&str> = rows
        .filter_map(|cell| cell.split('`').nth(1)?.split("::").next())
        .collect();
    let modules = lib.lines().filter_map(|line| {
        line.strip_prefix("pub ")
            .unwrap_or(line)
            .strip_prefix("mod ")
    });
    modules
        .filter_map(|module| module.strip_suffix(';'))
        .filter(|module| !named.contains(module))
        .collect()
}

/// Requires that the list names all exceptions that there are, and no other.
#[track_caller]
fn check_exceptions(found: &[String], named: &[(&str, &str)]) {
    assert!(
        named.iter().all(|(_, reason)| reason.len() > 10),
        "each exception has a reason"
    );
    let named: Vec<_> = named.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        found, named,
        "left: exceptions that there are; right: those that the list names"
    );
}

/// Returns the folders with the sources of each crate.
fn roots() -> Vec<String> {
    let root = root();
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten();
    let mut roots: Vec<_> = crates
        .map(|entry| {
            format!(
                "crates/{}/src",
                entry.unwrap().file_name().to_str().unwrap()
            )
        })
        .collect();
    roots.push("src".to_owned());
    roots.sort();
    roots
}

fn all_sources() -> Vec<(PathBuf, String)> {
    roots().iter().flat_map(|root| sources(root)).collect()
}

/// Returns each source file's path and whole text; tests are left out.
fn texts() -> impl Iterator<Item = (String, String)> {
    all_sources().into_iter().map(|(file, _)| {
        let source = std::fs::read_to_string(root().join(&file)).unwrap();
        (file.to_str().unwrap().to_owned(), source)
    })
}

/// A module by the names on the way to it; the root of its crate has none.
type Module = Vec<String>;

/// Returns which module a file holds.
fn module_of(file: &Path) -> Module {
    let mut module: Module = file
        .with_extension("")
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    if module
        .last()
        .is_some_and(|name| ["mod", "lib", "main"].contains(&&**name))
    {
        module.pop();
    }
    module
}

/// Returns the groups of siblings that import each other in a circle, each with their parent.
fn circles_of(files: &Vec<(Module, String)>) -> Vec<(Module, Vec<String>)> {
    let modules: BTreeSet<Module> = files.iter().map(|(module, _)| module.clone()).collect();
    let mut edges: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, code) in files {
        for target in imports(module, code, &modules) {
            let same = module
                .iter()
                .zip(&target)
                .take_while(|(a, b)| a == b)
                .count();
            if let (Some(from), Some(to)) = (module.get(same), target.get(same)) {
                let siblings = edges.entry(module[..same].to_vec()).or_default();
                siblings.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let groups = edges.iter().flat_map(|(parent, edges)| {
        groups(edges)
            .into_iter()
            .map(|group| (parent.clone(), group))
    });
    groups.collect()
}

/// Returns the groups in which each can be reached from each other one.
fn groups(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut todo = vec![from];
        while let Some(next) = todo.pop() {
            todo.extend(
                edges
                    .get(next)
                    .into_iter()
                    .flatten()
                    .filter(|name| reached.insert((*name).clone())),
            );
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|name| (name, reached(name))).collect();
    let group = |name: &String| -> Vec<String> {
        let others = reached[name]
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(name)));
        others.cloned().collect()
    };
    let groups: BTreeSet<_> = edges
        .keys()
        .map(group)
        .filter(|group| group.len() > 1)
        .collect();
    groups.into_iter().collect()
}

/// Returns the modules that a module's code names.
fn imports(module: &Module, code: &str, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_later_part = at > 0 && ["::", "."].contains(&tokens[at - 1]);
        at += 1;
        if *token == "use" {
            use_tree(&tokens, &mut at, &[], &mut paths);
        } else if is_name(token) && !is_later_part {
            let mut path = vec![*token];
            while tokens.get(at) == Some(&"::")
                && tokens.get(at + 1).is_some_and(|next| is_name(next))
            {
                path.push(tokens[at + 1]);
                at += 2;
            }
            if path.len() > 1 {
                paths.push((path, None));
            }
        }
    }
    // What is imported may be the beginning of another path.
    let mut imported: BTreeMap<&str, Module> = BTreeMap::new();
    for (path, name) in &paths {
        if let (Some(name), Some(target)) =
            (name, absolute(module, path, modules, &BTreeMap::new()))
            && modules.contains(&target)
        {
            imported.insert(name, target);
        }
    }
    let absolute = paths
        .iter()
        .filter_map(|(path, _)| absolute(module, path, modules, &imported));
    absolute.map(|path| deepest(path, modules)).collect()
}

/// Reads what follows `use`: each path, with the name that it is known by from now on.
fn use_tree<'c>(
    tokens: &[&'c str],
    at: &mut usize,
    before: &[&'c str],
    paths: &mut Vec<(Vec<&'c str>, Option<&'c str>)>,
) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match *token {
            "::" => {}
            "{" => {
                while tokens.get(*at).is_some_and(|token| *token != "}") {
                    use_tree(tokens, at, &path, paths);
                    *at += usize::from(tokens.get(*at) == Some(&","));
                }
                *at += 1;
                return;
            }
            "as" => {
                paths.push((path, tokens.get(*at).copied()));
                *at += 1;
                return;
            }
            "self" if !path.is_empty() => {}
            token if is_name(token) || token == "*" => path.push(token),
            _ => {
                *at -= 1;
                break;
            }
        }
    }
    let name = path.last().copied();
    paths.push((path, name));
}

/// Returns a path from the crate's root on, if it is one of this crate.
fn absolute(
    module: &Module,
    path: &[&str],
    modules: &BTreeSet<Module>,
    imported: &BTreeMap<&str, Module>,
) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let child = || [&**module, &[(*first).to_owned()]].concat();
    let mut found: Module = match *first {
        "crate" => Module::new(),
        "self" | "super" => module.clone(),
        name if modules.contains(&child()) || !imported.contains_key(name) => {
            Some(child()).filter(|child| modules.contains(child))?
        }
        name => imported.get(name)?.clone(),
    };
    if *first == "super" {
        found.pop();
    }
    for name in rest {
        match *name {
            "super" => drop(found.pop()),
            name => found.push(name.to_owned()),
        }
    }
    Some(found)
}

/// Returns the module that a path leads to or into.
fn deepest(mut path: Module, modules: &BTreeSet<Module>) -> Module {
    while !path.is_empty() && !modules.contains(&path) {
        path.pop();
    }
    path
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits code into words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = match c {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}
