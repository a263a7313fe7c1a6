//! The rules of the house that no lint checks. No modules import each other in a circle. Names,
//! structs, comments and files stay within bounds. Each exception is named with its reason, and
//! must be removed from here when it no longer is one.

use crate::layering::{code_of, rust_files, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Groups of modules that still import each other, each with the folder that they are in.
const STILL: &[(&str, &[&str])] = &[];

/// Names of types that are defined more than three times.
const COMMON_NAMES: &[(&str, &str)] = &[];

/// Structs with more than 20 fields.
const LARGE_STRUCTS: &[(&str, &str)] = &[(
    "Account",
    "as written: each field is a key of the file, and serde cannot flatten where unknown keys are refused",
)];

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
fn no_name_is_given_to_more_than_three_types() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, code) in all_sources() {
        // An associated type has the name that its trait gives it.
        let is_own =
            |line: &&str| !line.trim_start().starts_with("type ") || !line.starts_with(' ');
        for name in code
            .lines()
            .filter(is_own)
            .filter_map(|line| type_name(line.trim_start()))
        {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    let common: Vec<_> = counts
        .into_iter()
        .filter(|(_, count)| *count > 3)
        .map(|(name, _)| name)
        .collect();
    check_exceptions(&common, COMMON_NAMES);
}

#[test]
fn no_struct_has_more_than_twenty_fields() {
    let large: Vec<_> = all_sources()
        .iter()
        .flat_map(|(_, code)| large_structs(code))
        .collect();
    check_exceptions(&large, LARGE_STRUCTS);
    let fields = (0..21)
        .map(|n| format!("    pub(super) field_{n}: Vec<(u8, u8)>,\n"))
        .collect::<String>();
    assert_eq!(
        large_structs(&format!(
            "pub struct Large<'a> {{\n{fields}}}\nstruct Small {{\n    a: u8,\n}}\n"
        )),
        ["Large"]
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
    for root in roots() {
        let lib = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(&root)
            .join("lib.rs");
        assert_eq!(
            missing_in_map(&std::fs::read_to_string(lib).unwrap()),
            Vec::<&str>::new(),
            "{root}/lib.rs"
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
        let source =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
        (file.to_str().unwrap().to_owned(), source)
    })
}

/// Returns the name of the type that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(line) if line.starts_with('(') => line.split_once(") ")?.1,
        Some(line) => line.strip_prefix(' ')?,
        None => line,
    };
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let name = ["struct ", "enum ", "trait ", "type "]
        .iter()
        .find_map(|word| line.strip_prefix(word))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

fn large_structs(code: &str) -> Vec<String> {
    let mut large = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(name) =
            type_name(line).filter(|_| line.contains("struct ") && line.ends_with('{'))
        else {
            continue;
        };
        let is_field = |line: &&str| {
            line.starts_with("    ") && !line.starts_with("     ") && line.contains(": ")
        };
        let fields = lines
            .by_ref()
            .take_while(|line| *line != "}")
            .filter(is_field)
            .count();
        if fields > 20 {
            large.push(name.to_owned());
        }
    }
    large
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
