//! Every link within the repository leads to a file and a heading that exist, and the book lists
//! every chapter.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};

use super::pages::Page;
use crate::support::root;

const BOOK: &str = "docs/src";
/// The book's table of contents.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// The folder of pages on decisions.
const DECISIONS: &str = "docs/decisions";
/// Pages for contributors, which are no part of the book.
const OTHER_PAGES: [&str; 4] = [
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut pages = Page::all();
    pages.extend(OTHER_PAGES.iter().map(|path| Page::read(*path)));
    pages.extend(decisions().into_iter().map(Page::read));
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|page| broken(page, &|path| read(path)))
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn the_index_lists_every_decision() {
    let index = Path::new(DECISIONS).join("README.md");
    let page = Page::read(&index);
    let linked = links(&page)
        .into_iter()
        .filter_map(|(_, link)| Some(target(&page.path, &link)?.0));
    let listed: BTreeSet<PathBuf> = linked.filter(|path| path.starts_with(DECISIONS)).collect();
    let mut all = decisions();
    assert!(all.remove(&index) && all.len() >= 6, "{all:?}");
    assert_eq!(listed, all, "what the index lists, and what there is");
}

#[test]
fn the_book_lists_every_chapter() {
    if !root().join(SUMMARY).exists() {
        return;
    }
    let summary = Page::read(SUMMARY);
    let listed: BTreeSet<PathBuf> = links(&summary)
        .into_iter()
        .filter_map(|(_, link)| Some(target(&summary.path, &link)?.0))
        .collect();
    let chapters: BTreeSet<PathBuf> = Page::all()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path.starts_with("docs") && path != Path::new(SUMMARY))
        .collect();
    assert_eq!(listed, chapters, "what {SUMMARY} lists, and what there is");
}

#[test]
fn the_readme_is_read_in_one_sitting() {
    if !root().join(SUMMARY).exists() {
        return;
    }
    let lines = Page::read("README.md").text.lines().count();
    assert!(
        lines <= 300,
        "README.md has {lines} lines, and may have 300: the rest belongs to the book"
    );
}

#[test]
fn a_broken_link_is_seen() {
    let text = "# One\n\n[a](#one) [b](#two) [c](other.md#there) [d](other.md#not-there)\n`[no](link.md)`\n```text\n[nor](this.md)\n```\n\
                [e](../gone.md) [f](https://example.com/#x) [g][ref] ![h](gone.png)\n\n[ref]: gone.txt\n[ok]: other.md\n\n## A `code`, and *more*: x_y\n\n## One\n\
                [i](#a-code-and-more-x_y) [j](#one-1) [k](#one-2) [l](<other.md>) [m](/absolute.md) [n](../../README.md)\n";
    let page = Page {
        path: "docs/src/page.md".into(),
        text: text.to_owned(),
    };
    let other = |path: &Path| match path.to_str() {
        Some("docs/src/page.md") => Some(text.to_owned()),
        Some("docs/src/other.md" | "README.md") => Some("## There\n".to_owned()),
        _ => None,
    };
    let expected = [
        "docs/src/page.md:3: #two: there is no such heading in docs/src/page.md",
        "docs/src/page.md:3: other.md#not-there: there is no such heading in docs/src/other.md",
        "docs/src/page.md:8: ../gone.md: docs/gone.md does not exist",
        "docs/src/page.md:8: gone.png: docs/src/gone.png does not exist",
        "docs/src/page.md:10: gone.txt: docs/src/gone.txt does not exist",
        "docs/src/page.md:16: #one-2: there is no such heading in docs/src/page.md",
        "docs/src/page.md:16: /absolute.md: must be relative",
        "docs/src/page.md:16: ../../README.md: README.md is no chapter, and the book's page of it would be missing",
    ];
    assert_eq!(broken(&page, &other), expected);
}

/// Returns the pages on decisions.
fn decisions() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(root().join(DECISIONS)).expect(DECISIONS);
    entries
        .map(|entry| Path::new(DECISIONS).join(entry.expect("an entry").file_name()))
        .collect()
}

/// The text of a file of the repository; of a folder, nothing.
fn read(path: &Path) -> Option<String> {
    let path = root().join(path);
    if path.is_dir() {
        Some(String::new())
    } else {
        std::fs::read(path)
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What is wrong with the links of a page.
fn broken(page: &Page, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let wrong = |(line, link): (usize, String)| {
        let is_chapter = |path: &Path| path.starts_with(BOOK);
        let why = if link.starts_with('/') {
            "must be relative".to_owned()
        } else {
            let (path, anchor) = target(&page.path, &link)?;
            let text = read(&path);
            match (text, anchor) {
                (None, _) => format!("{} does not exist", path.display()),
                // mdBook takes every Markdown file for a chapter of the book.
                (Some(_), _)
                    if is_chapter(&page.path)
                        && !is_chapter(&path)
                        && path.extension().is_some_and(|e| e == "md") =>
                {
                    format!(
                        "{} is no chapter, and the book's page of it would be missing",
                        path.display()
                    )
                }
                (Some(text), Some(anchor)) if !anchors(&text).contains(&anchor) => {
                    format!("there is no such heading in {}", path.display())
                }
                (Some(_), _) => return None,
            }
        };
        Some(format!("{}: {link}: {why}", page.place(line)))
    };
    links(page).into_iter().filter_map(wrong).collect()
}

/// The file and the anchor that a link of this page leads to; none if it leads elsewhere.
fn target(page: &Path, link: &str) -> Option<(PathBuf, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| {
        (path, Some(anchor.to_owned()))
    });
    let mut whole = if path.is_empty() {
        page.to_owned()
    } else {
        page.parent().unwrap_or(Path::new("")).to_owned()
    };
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    Some((whole, anchor))
}

/// The links of a page with their lines: `[text](link)`, `![text](link)` and `[name]: link`.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in page.prose() {
        let line = without_code(line);
        let definition = line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        if let Some((_, link)) = definition {
            found.push((number, link.trim().to_owned()));
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let link = rest
                .split(')')
                .next()
                .unwrap_or_default()
                .split(" \"")
                .next()
                .unwrap_or_default();
            found.push((number, link.trim_matches(['<', '>']).to_owned()));
        }
    }
    found
}

/// A line without what stands in backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The anchors of a page's headings. GitHub and mdBook make the same of what we write.
fn anchors(text: &str) -> HashSet<String> {
    let page = Page {
        path: PathBuf::new(),
        text: text.to_owned(),
    };
    let mut found = HashSet::new();
    for (_, line) in page.prose() {
        let Some(heading) = line
            .trim_start_matches('#')
            .strip_prefix(' ')
            .filter(|_| line.starts_with('#'))
        else {
            continue;
        };
        let slug = slug(heading);
        let free = (0..).map(|number| {
            if number == 0 {
                slug.clone()
            } else {
                format!("{slug}-{number}")
            }
        });
        let free = free.into_iter().find(|slug| !found.contains(slug));
        found.extend(free);
    }
    found
}

/// The anchor of a heading: letters, digits, `_` and `-` stay, blanks become `-`, all else goes.
pub fn slug(heading: &str) -> String {
    let text: String = heading.trim().to_lowercase();
    // Of a link in a heading its text stays.
    let text = text.split("](").enumerate().map(|(nth, part)| match nth {
        0 => part,
        _ => part.split_once(')').map_or(part, |(_, after)| after),
    });
    let letters = text.collect::<String>();
    let letters = letters.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    letters.collect()
}
