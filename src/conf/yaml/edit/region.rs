//! A [`TextRegion`] says where a part of a text stands, to the byte.
//!
//! Only the places along one path are kept; all others are passed over, so that a large file costs
//! little more than its parsing. The parser's positions are not trusted where the text itself gives
//! the answer.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};

use crate::conf::yaml::Step;

/// A value's place.
#[derive(Debug)]
pub(super) struct TextRegion<'t> {
    /// The first byte. A map in block style begins with its first key.
    pub(super) start: usize,
    /// The byte after the last one; `None` if it is unknown, as for a block scalar.
    pub(super) end: Option<usize>,
    /// True if the value has an anchor, so that other places may use it too.
    pub(super) anchored: bool,
    pub(super) kind: RegionKind<'t>,
}

/// The value at a place.
#[derive(Debug)]
pub(super) enum RegionKind<'t> {
    /// A scalar on one line.
    Scalar(Cow<'t, str>, Quotes),
    List {
        flow: bool,
        items: Vec<TextRegion<'t>>,
    },
    Map {
        flow: bool,
        entries: Vec<EntryRegion<'t>>,
    },
    Alias,
    /// A scalar of another kind, or a value that is not on the path.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    Single,
    Double,
}

/// A key of a map with its value.
#[derive(Debug)]
pub(super) struct EntryRegion<'t> {
    pub(super) name: Cow<'t, str>,
    pub(super) key: TextRegion<'t>,
    pub(super) value: TextRegion<'t>,
}

/// Finds the place of the document, with the places along the path. Returns `None` if one of them
/// is unknown.
pub(super) fn find_region<'t>(text: &'t str, path: &[Step<'_>]) -> Option<TextRegion<'t>> {
    let mut reader = RegionFinder {
        text,
        lines: line_starts(text),
        ascii: text.is_ascii(),
        parser: Parser::new_from_str(text),
    };
    loop {
        let (event, span) = reader.next()?;
        if !matches!(
            event,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_)
        ) {
            return reader.read_region(event, span, Some(path));
        }
    }
}

/// Returns the byte at which each line begins. YAML's line ends are `\n`, `\r\n` and `\r`.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = memchr::memchr2_iter(b'\n', b'\r', bytes);
    let ends =
        ends.filter(|end| bytes.get(*end) == Some(&b'\n') || bytes.get(end + 1) != Some(&b'\n'));
    std::iter::once(0).chain(ends.map(|end| end + 1)).collect()
}

struct RegionFinder<'t> {
    text: &'t str,
    lines: Vec<usize>,
    ascii: bool,
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> RegionFinder<'t> {
    fn next(&mut self) -> Option<(Event<'t>, Span)> {
        self.parser.next_event()?.ok()
    }

    /// Returns the byte of a place from its line and column. The parser's index cannot be used: it
    /// counts characters, but bytes in some comments.
    fn byte(&self, marker: Marker) -> Option<usize> {
        let start = *self.lines.get(marker.line().checked_sub(1)?)?;
        if self.ascii {
            return Some(start + marker.col()).filter(|byte| *byte <= self.text.len());
        }
        let line = self.text.get(start..)?;
        let mut bytes = line
            .char_indices()
            .map(|(offset, _)| offset)
            .chain([line.len()]);
        bytes.nth(marker.col()).map(|offset| start + offset)
    }

    /// Reads on to the end of a value. `path` is the part of the path that lies inside the value;
    /// `None` if the value is not on the path.
    fn read_region(
        &mut self,
        event: Event<'t>,
        span: Span,
        path: Option<&[Step<'_>]>,
    ) -> Option<TextRegion<'t>> {
        let start = self.byte(span.start)?;
        let (anchored, (end, kind)) = match event {
            Event::Scalar(text, style, anchor, _) => {
                (anchor > 0, self.scalar(start, span, text, style))
            }
            Event::Alias(_) => {
                let end = self.byte(span.end).filter(|end| *end > start);
                (false, (end, RegionKind::Alias))
            }
            Event::SequenceStart(anchor, _) => (anchor > 0, self.list(path)?),
            Event::MappingStart(anchor, _) => (anchor > 0, self.map(path)?),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return None,
        };
        Some(TextRegion {
            start,
            end,
            anchored,
            kind,
        })
    }

    fn scalar(
        &self,
        start: usize,
        span: Span,
        text: Cow<'t, str>,
        style: ScalarStyle,
    ) -> (Option<usize>, RegionKind<'t>) {
        let (quotes, end) = match style {
            ScalarStyle::SingleQuoted => (Quotes::Single, self.quote_end(start, '\'')),
            ScalarStyle::DoubleQuoted => (Quotes::Double, self.quote_end(start, '"')),
            // For quoted scalars the parser's end cannot be used: it includes blanks and a comment.
            ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => {
                (Quotes::None, self.byte(span.end))
            }
        };
        let end = end.filter(|end| *end > start);
        let Some(written) = end.and_then(|end| self.text.get(start..end)) else {
            return (None, RegionKind::Other);
        };
        let on_one_line = !written.contains(['\n', '\r']);
        if quotes == Quotes::None
            && !(style == ScalarStyle::Plain && on_one_line && written == text)
        {
            return (None, RegionKind::Other);
        }
        (
            end,
            if on_one_line {
                RegionKind::Scalar(text, quotes)
            } else {
                RegionKind::Other
            },
        )
    }

    /// Returns the byte after the quote that closes the one at `start`.
    fn quote_end(&self, start: usize, quote: char) -> Option<usize> {
        let mut inside = self.text.get(start..)?.strip_prefix(quote)?.char_indices();
        while let Some((offset, c)) = inside.next() {
            if c == quote {
                // Two single quotes stand for one.
                if quote == '\'' && inside.as_str().starts_with(quote) {
                    inside.next();
                    continue;
                }
                return Some(start + 1 + offset + 1);
            }
            if c == '\\' && quote == '"' {
                inside.next();
            }
        }
        None
    }

    fn list(&mut self, path: Option<&[Step<'_>]>) -> Option<(Option<usize>, RegionKind<'t>)> {
        let mut items = Vec::new();
        let mut last = None;
        let mut count = 0;
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                let end = self.bracket_end(span, ']');
                let flow = end.is_some();
                let kind = path.map_or(RegionKind::Other, |_| RegionKind::List { flow, items });
                return Some((end.or(last), kind));
            }
            let inside = path.and_then(|path| match path {
                [Step::Index(index), rest @ ..] if *index == count => Some(rest),
                _ => None,
            });
            let item = self.read_region(event, span, inside)?;
            last = item.end;
            count += 1;
            if path.is_some() {
                items.push(item);
            }
        }
    }

    fn map(&mut self, path: Option<&[Step<'_>]>) -> Option<(Option<usize>, RegionKind<'t>)> {
        let mut entries: Vec<EntryRegion<'t>> = Vec::new();
        let mut last = None;
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                let end = self.bracket_end(span, '}');
                let flow = end.is_some();
                let kind = path.map_or(RegionKind::Other, |_| RegionKind::Map { flow, entries });
                return Some((end.or(last), kind));
            }
            let key = self.read_region(event, span, None)?;
            let inside = path.and_then(|path| match (path, &key.kind) {
                ([Step::Key(step), rest @ ..], RegionKind::Scalar(name, _)) if name == step => {
                    Some(rest)
                }
                _ => None,
            });
            let (event, span) = self.next()?;
            let value = self.read_region(event, span, inside)?;
            last = value.end;
            if path.is_some() {
                let name = if let RegionKind::Scalar(name, _) = &key.kind {
                    name.clone()
                } else {
                    Cow::Borrowed("")
                };
                entries.push(EntryRegion { name, key, value });
            }
        }
    }

    /// Returns the byte after a bracket that closes a list or map in flow style.
    fn bracket_end(&self, span: Span, bracket: char) -> Option<usize> {
        let (start, end) = (self.byte(span.start)?, self.byte(span.end)?);
        // The span is empty if no bracket is written.
        let mut rest = self.text.get(start..).filter(|_| end > start)?;
        // If a comma stands before the bracket, the parser gives the place of the comma.
        if let Some(behind) = rest.strip_prefix(',') {
            rest = behind.trim_start();
            while rest.starts_with('#') {
                rest = rest
                    .trim_start_matches(|c| c != '\n' && c != '\r')
                    .trim_start();
            }
        }
        Some(self.text.len() - rest.strip_prefix(bracket)?.len())
    }
}
