//! The pages that people read: the README, and the book's chapters.

use std::fmt;
use std::path::PathBuf;

use crate::support::root;

/// A page.
pub struct Page {
    /// From the repository's root on.
    pub path: PathBuf,
    pub text: String,
}

/// A block of code.
#[derive(Debug)]
pub struct CodeBlock {
    pub place: PageLine,
    pub kind: String,
    pub text: String,
    pub expects_error: bool,
}

/// A line of a page, written as editors take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLine {
    pub path: PathBuf,
    pub line: usize,
}

impl fmt::Display for PageLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

impl CodeBlock {
    /// The file of the home folder that the first line names, from there on.
    pub fn file_of_home(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        first
            .strip_prefix("# ~/")
            .or_else(|| first.strip_prefix("// ~/"))
    }
}

impl Page {
    pub fn read(path: impl Into<PathBuf>) -> Page {
        let path = path.into();
        let text = std::fs::read_to_string(root().join(&path))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Page { path, text }
    }

    /// The README, then the chapters by their names.
    pub fn all() -> Vec<Page> {
        let mut pages = vec![Page::read("README.md")];
        let mut paths = Vec::new();
        let mut folders = vec![PathBuf::from("docs/src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root().join(&folder)).expect("docs/src") {
                let path = folder.join(entry.expect("an entry").file_name());
                if root().join(&path).is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "md") {
                    paths.push(path);
                }
            }
        }
        paths.sort();
        pages.extend(paths.into_iter().map(Page::read));
        pages
    }

    pub fn place(&self, line: usize) -> PageLine {
        PageLine {
            path: self.path.clone(),
            line,
        }
    }

    pub fn blocks(&self) -> Vec<CodeBlock> {
        let mut blocks = Vec::new();
        let mut open: Option<CodeBlock> = None;
        let mut before = "";
        for (number, line) in self.text.lines().enumerate() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, Some(kind)) => {
                    let (place, kind) = (self.place(number + 1), kind.trim().to_owned());
                    let expects_error = before == "<!-- an error is expected -->";
                    open = Some(CodeBlock {
                        place,
                        kind,
                        text: String::new(),
                        expects_error,
                    });
                }
                (Some(_), Some(_)) => {
                    blocks.extend(open.take());
                    before = "";
                }
                (Some(block), None) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) if !line.trim().is_empty() => before = line.trim(),
                (None, None) => {}
            }
        }
        assert!(
            open.is_none(),
            "{}: a block is left open",
            self.path.display()
        );
        blocks
    }

    /// The lines outside of blocks, with their numbers.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut in_block = false;
        self.text
            .lines()
            .enumerate()
            .filter_map(move |(number, line)| {
                let fence = line.trim_start().starts_with("```");
                in_block ^= fence;
                (!fence && !in_block).then_some((number + 1, line))
            })
    }
}

#[test]
fn blocks_are_found_with_their_kinds() {
    let text =
        "# A\n```sh\nls\n```\n\n<!-- an error is expected -->\n```sh\ncurl\n```\ntext\n```yaml\na: 1\n```\n".to_owned();
    let page = Page {
        path: "a.md".into(),
        text,
    };
    let blocks = page.blocks();
    let found: Vec<_> = blocks
        .iter()
        .map(|b| {
            (
                b.place.line,
                b.kind.as_str(),
                b.text.as_str(),
                b.expects_error,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (2, "sh", "ls\n", false),
            (7, "sh", "curl\n", true),
            (11, "yaml", "a: 1\n", false)
        ]
    );
    assert_eq!(blocks[1].place.to_string(), "a.md:7");
    assert_eq!(
        page.prose().collect::<Vec<_>>(),
        [
            (1, "# A"),
            (5, ""),
            (6, "<!-- an error is expected -->"),
            (10, "text")
        ]
    );
}
