//! A path in a text is the chain of places that a [`Path`](crate::conf::yaml::Path) leads through,
//! as far as they are written. A change at the end of the path becomes the bytes that change.

use super::new::{Style, write_scalar};
use super::region::EntryRegion;
use super::{
    ALIAS, ANCHORED, LAST, NewValue, RegionKind, Splice, TextRegion, UNSURE, wrap_in_maps,
};
use crate::conf::yaml::Step;

type Splices = Result<Vec<Splice>, &'static str>;

/// The places that a path leads through in a text.
pub(super) struct PathInText<'p, 't> {
    text: &'t str,
    /// The places from the document to the innermost one that is written.
    chain: Vec<&'p TextRegion<'t>>,
    /// The rest of the path, which is not written.
    missing: &'p [Step<'p>],
    /// The last step that is written: the entry or item that the chain ends with.
    last_step: Option<Step<'p>>,
}

impl<'p, 't> PathInText<'p, 't> {
    pub(super) fn locate(
        text: &'t str,
        root: &'p TextRegion<'t>,
        path: &'p [Step<'p>],
    ) -> Result<Self, &'static str> {
        let mut found = PathInText {
            text,
            chain: vec![root],
            missing: path,
            last_step: None,
        };
        let mut region = root;
        while let Some((step, rest)) = found.missing.split_first() {
            if region.anchored {
                return Err(ANCHORED);
            }
            let next = match (&region.kind, step) {
                (RegionKind::Map { entries, .. }, Step::Key(key)) => entries
                    .iter()
                    .find(|entry| entry.name == *key)
                    .map(|entry| &entry.value),
                (RegionKind::List { items, .. }, Step::Index(index)) => {
                    Some(items.get(*index).ok_or(UNSURE)?)
                }
                (RegionKind::Alias, _) => return Err(ALIAS),
                _ => return Err(UNSURE),
            };
            let Some(next) = next else { break };
            (region, found.missing, found.last_step) = (next, rest, Some(*step));
            found.chain.push(next);
        }
        if matches!(region.kind, RegionKind::Alias) {
            return Err(ALIAS);
        }
        if region.anchored {
            Err(ANCHORED)
        } else {
            Ok(found)
        }
    }

    /// Returns whether the whole path is written.
    pub(super) fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    pub(super) fn set(&self, new: &NewValue) -> Splices {
        match self.missing.split_first() {
            None => self.replace(new),
            Some((Step::Key(key), rest)) => {
                self.insert(key, &wrap_in_maps(rest, new).ok_or(UNSURE)?)
            }
            Some((Step::Hidden(_) | Step::Index(_), _)) => Err(UNSURE),
        }
    }

    fn innermost(&self) -> Result<&'p TextRegion<'t>, &'static str> {
        self.chain.last().copied().ok_or(UNSURE)
    }

    /// Returns the list or map around the innermost place.
    fn enclosing(&self) -> Result<&'p TextRegion<'t>, &'static str> {
        self.chain.iter().rev().nth(1).copied().ok_or(UNSURE)
    }

    fn replace(&self, new: &NewValue) -> Splices {
        let region = self.innermost()?;
        let (RegionKind::Scalar(_, quotes), Some(end)) = (&region.kind, region.end) else {
            return Err(UNSURE);
        };
        let flow = matches!(
            self.enclosing()?.kind,
            RegionKind::Map { flow: true, .. } | RegionKind::List { flow: true, .. }
        );
        let mut splices = vec![(region.start..end, new.instead_of(*quotes, flow))];
        if let Some(line) = self.rest_of_line(end)
            && !flow
            && let Some(note) = new.note()
        {
            let behind = self.text.get(end..line).unwrap_or_default();
            if behind.trim().is_empty() {
                splices.push((end..end, format!(" # {note}")));
            } else if let Some(old) = behind.trim().strip_prefix('#').map(str::trim)
                && old.ends_with('…')
                && !old.contains(char::is_whitespace)
            {
                let note_start = end + behind.find(old).ok_or(UNSURE)?;
                splices.push((note_start..note_start + old.len(), note.to_owned()));
            }
        }
        Ok(splices)
    }

    fn insert(&self, key: &str, new: &NewValue) -> Splices {
        let map = self.innermost()?;
        let RegionKind::Map { flow, entries } = &map.kind else {
            return Err(UNSURE);
        };
        if *flow {
            // `{}` has no style of its own. If there is a note to write, the map gets a style that
            // has room for it.
            if entries.is_empty()
                && new.is_noted()
                && let Some(splices) = self.in_place_of_braces(map, key, new)
            {
                return Ok(splices);
            }
            let last = entries.last().map(|entry| &entry.value);
            let entry = format!("{}: {}", write_scalar(key, Style::Flow), new.flow());
            // `{ key: value }` has blanks inside its braces.
            return self.in_brackets(map, last, &entry, " ");
        }
        let first = entries.first().ok_or(UNSURE)?;
        let end = map.end.ok_or(UNSURE)?;
        let indent = self.indent(first.key.start)?;
        let line = self.behind_comments(self.rest_of_line(end).ok_or(UNSURE)?, indent);
        Ok(vec![(
            line..line,
            self.on_lines(line, indent, self.step(indent), key, new),
        )])
    }

    /// Writes an entry of a map in block style on lines of its own, after the line that ends here.
    fn on_lines(
        &self,
        line: usize,
        indent: usize,
        step: usize,
        key: &str,
        new: &NewValue,
    ) -> String {
        let eol = self.eol(line);
        format!(
            "{eol}{:indent$}{}:{}",
            "",
            write_scalar(key, Style::Block),
            new.block(indent + step, step, eol)
        )
    }

    pub(super) fn push(&self, item: &NewValue) -> Splices {
        let list = self.innermost()?;
        let RegionKind::List { flow, items } = &list.kind else {
            return Err(UNSURE);
        };
        if *flow {
            return self.in_brackets(list, items.last(), &item.flow(), "");
        }
        let (dash, _) = self.dash(items.first().ok_or(UNSURE)?.start)?;
        let line = self.behind_comments(
            self.rest_of_line(list.end.ok_or(UNSURE)?).ok_or(UNSURE)?,
            dash,
        );
        let eol = self.eol(line);
        Ok(vec![(
            line..line,
            format!("{eol}{:dash$}- {}", "", behind_a_dash(item)),
        )])
    }

    /// Adds an entry or item at the end of a map or list in flow style. `blank` stands inside the
    /// brackets of one that was empty.
    fn in_brackets(
        &self,
        enclosing: &TextRegion<'_>,
        last: Option<&TextRegion<'_>>,
        new: &str,
        blank: &str,
    ) -> Splices {
        if let Some(last) = last {
            let end = last.end.ok_or(UNSURE)?;
            return Ok(vec![(end..end, format!(", {new}"))]);
        }
        let inner = enclosing.start + 1..enclosing.end.ok_or(UNSURE)?.saturating_sub(1);
        if !self
            .text
            .get(inner.clone())
            .is_some_and(|inner| inner.bytes().all(|b| b == b' '))
        {
            return Err(UNSURE);
        }
        Ok(vec![(inner, format!("{blank}{new}{blank}"))])
    }

    pub(super) fn remove(&self) -> Splices {
        let region = self.innermost()?;
        match (&self.enclosing()?.kind, self.last_step) {
            (RegionKind::Map { flow, entries }, Some(Step::Key(key))) => {
                let index = entries
                    .iter()
                    .position(|entry| entry.name == key)
                    .ok_or(UNSURE)?;
                let spans: Vec<_> = entries
                    .iter()
                    .map(|entry| (entry.key.start, entry.value.end))
                    .collect();
                if *flow {
                    return self.out_of_brackets(&spans, index);
                }
                let start = entries.get(index).ok_or(UNSURE)?.key.start;
                let indent = self.indent_of_line(start)?;
                let mut splices = match spans.len() {
                    1 => vec![self.emptied()?],
                    _ => Vec::new(),
                };
                splices.extend(self.lines(start, region.end.ok_or(UNSURE)?, Some(indent))?);
                Ok(splices)
            }
            (RegionKind::List { flow, items }, Some(Step::Index(index))) => {
                let spans: Vec<_> = items.iter().map(|item| (item.start, item.end)).collect();
                match (flow, spans.len()) {
                    (true, _) => self.out_of_brackets(&spans, index),
                    (false, 1) => Err(LAST),
                    (false, _) => {
                        let (_, dash) = self.dash(region.start)?;
                        self.lines(dash, region.end.ok_or(UNSURE)?, None)
                    }
                }
            }
            _ => Err(UNSURE),
        }
    }

    /// Adds the first entry of a map that is written `{}` after a key in block style. The entry
    /// gets lines of its own.
    fn in_place_of_braces(
        &self,
        map: &TextRegion<'_>,
        key: &str,
        new: &NewValue,
    ) -> Option<Vec<Splice>> {
        let (start, colon) = self.colon_before(map, self.enclosing().ok()?).ok()?;
        let end = map.end?;
        let inside = self
            .text
            .get(map.start..end)?
            .strip_prefix('{')?
            .strip_suffix('}')?;
        let between = self.text.get(colon..map.start)?;
        if !inside.trim().is_empty() || inside.contains('\n') || !between.bytes().all(|b| b == b' ')
        {
            return None;
        }
        let line = self.rest_of_line(end)?;
        let indent = self.indent(start).ok()?;
        let step = self.step(indent);
        Some(vec![
            (colon..end, String::new()),
            (
                line..line,
                self.on_lines(line, indent + step, step, key, new),
            ),
        ])
    }

    /// Finds the key in block style that stands before a value, in the map around the value.
    /// Returns the key's first byte, and the byte after its colon.
    fn colon_before(
        &self,
        value: &TextRegion<'_>,
        enclosing: &TextRegion<'_>,
    ) -> Result<(usize, usize), &'static str> {
        let RegionKind::Map {
            flow: false,
            entries,
        } = &enclosing.kind
        else {
            return Err(LAST);
        };
        let key = &entries
            .iter()
            .find(|entry| entry.value.start == value.start)
            .ok_or(LAST)?
            .key;
        let end = key.end.ok_or(UNSURE)?;
        let behind = self.text.get(end..value.start).ok_or(UNSURE)?;
        let colon = behind.find(':').filter(|colon| {
            behind
                .get(..*colon)
                .is_some_and(|before| before.trim().is_empty())
        });
        Ok((key.start, end + colon.ok_or(UNSURE)? + 1))
    }

    /// Writes `{}` after the colon of a map in block style that loses its only entry.
    fn emptied(&self) -> Result<Splice, &'static str> {
        let map = self.enclosing()?;
        let (_, colon) = self.colon_before(map, self.chain.iter().rev().nth(2).ok_or(LAST)?)?;
        // The map must begin on a line of its own.
        if self.rest_of_line(colon).is_none_or(|end| end >= map.start) {
            return Err(UNSURE);
        }
        Ok((colon..colon, " {}".to_owned()))
    }

    /// Removes one item or entry from a list or map in flow style, with one comma.
    fn out_of_brackets(&self, spans: &[(usize, Option<usize>)], index: usize) -> Splices {
        let (start, end) = *spans.get(index).ok_or(UNSURE)?;
        let before = index.checked_sub(1).and_then(|before| spans.get(before));
        let range = match (spans.get(index + 1), before) {
            (Some((next, _)), _) => start..*next,
            (None, Some((_, before))) => before.ok_or(UNSURE)?..end.ok_or(UNSURE)?,
            (None, None) => start..end.ok_or(UNSURE)?,
        };
        // A comment in the range may be about a neighbour.
        if self
            .text
            .get(range.clone())
            .is_none_or(|text| text.contains('#'))
        {
            return Err(UNSURE);
        }
        Ok(vec![(range, String::new())])
    }

    /// Removes whole lines: from the line in which something starts to the line in which it ends.
    /// With `indent`, it is an entry with that indentation. The comments below that are indented
    /// deeper belong to the entry, and are removed too.
    fn lines(&self, start: usize, end: usize, indent: Option<usize>) -> Splices {
        let start = self.line_start(start);
        let end = self.rest_of_line(end).ok_or(UNSURE)?;
        let end = indent.map_or(end, |indent| self.behind_comments(end, indent));
        let behind = end + self.line_end(end).len();
        if behind > end {
            return Ok(vec![(start..behind, String::new())]);
        }
        // This is the last line of a file that does not end with a line end.
        let before = self.text.get(..start).ok_or(UNSURE)?;
        let before = before
            .strip_suffix('\n')
            .map_or(before, |before| before.strip_suffix('\r').unwrap_or(before));
        Ok(vec![(before.len()..end, String::new())])
    }

    pub(super) fn split(&self, name: &str, items: &[NewValue; 2]) -> Splices {
        let [first, second] = items;
        let (region, Some(Step::Key(key))) = (self.innermost()?, self.last_step) else {
            return Err(UNSURE);
        };
        let RegionKind::Map { flow, entries } = &self.enclosing()?.kind else {
            return Err(UNSURE);
        };
        let EntryRegion { key, .. } = entries
            .iter()
            .find(|entry| entry.name == key)
            .ok_or(UNSURE)?;
        let (RegionKind::Scalar(..), Some(end)) = (&region.kind, region.end) else {
            return Err(UNSURE);
        };
        // If the value stands on a line of its own, a comment may stand after the key.
        let between = self
            .text
            .get(key.end.ok_or(UNSURE)?..region.start)
            .ok_or(UNSURE)?;
        if between.contains('#') {
            return Err(UNSURE);
        }
        let name = write_scalar(name, if *flow { Style::Flow } else { Style::Block });
        if *flow {
            return Ok(vec![(
                key.start..end,
                format!("{name}: [{}, {}]", first.flow(), second.flow()),
            )]);
        }
        let indent = self.indent(key.start)?;
        let line = self.rest_of_line(end).ok_or(UNSURE)?;
        let (eol, dash) = (self.eol(line), indent + self.step(indent));
        Ok(vec![
            (
                key.start..end,
                format!("{name}:{eol}{:dash$}- {}", "", behind_a_dash(first)),
            ),
            (
                line..line,
                format!("{eol}{:dash$}- {}", "", behind_a_dash(second)),
            ),
        ])
    }

    // Lines.

    fn line_start(&self, offset: usize) -> usize {
        self.text
            .get(..offset)
            .and_then(|before| before.rfind(['\n', '\r']))
            .map_or(0, |end| end + 1)
    }

    /// Returns the end of this line, if nothing but a comment follows on it.
    fn rest_of_line(&self, offset: usize) -> Option<usize> {
        let behind = self.text.get(offset..)?;
        let rest = behind.get(..behind.find(['\n', '\r']).unwrap_or(behind.len()))?;
        let trimmed = rest.trim_start_matches([' ', '\t']);
        (trimmed.is_empty() || (trimmed.starts_with('#') && trimmed.len() < rest.len()))
            .then_some(offset + rest.len())
    }

    /// Returns the line end at this byte.
    fn line_end(&self, offset: usize) -> &'static str {
        let behind = self.text.get(offset..).unwrap_or_default();
        ["\r\n", "\n", "\r"]
            .into_iter()
            .find(|end| behind.starts_with(end))
            .unwrap_or_default()
    }

    /// Returns the line end to write here: this line's own, or, at the end of a text, that of the
    /// first line.
    fn eol(&self, offset: usize) -> &'static str {
        let first = self.text.find(['\n', '\r']).unwrap_or(self.text.len());
        [offset, first]
            .into_iter()
            .map(|offset| self.line_end(offset))
            .find(|end| !end.is_empty())
            .unwrap_or("\n")
    }

    /// Passes over comments on the next lines that are indented deeper: they belong to the entry
    /// above them.
    fn behind_comments(&self, mut line: usize, indent: usize) -> usize {
        loop {
            let next = line + self.line_end(line).len();
            let Some(text) = self.text.get(next..).filter(|_| next > line) else {
                return line;
            };
            let text = text
                .get(..text.find(['\n', '\r']).unwrap_or(text.len()))
                .unwrap_or_default();
            let trimmed = text.trim_start_matches(' ');
            if !trimmed.starts_with('#') || text.len() - trimmed.len() <= indent {
                return line;
            }
            line = next + text.len();
        }
    }

    /// Returns the indentation of the first key of a map in block style. A dash before the key
    /// counts as a blank.
    fn indent(&self, key: usize) -> Result<usize, &'static str> {
        let start = self.line_start(key);
        let before = self.text.get(start..key).ok_or(UNSURE)?;
        if before.bytes().all(|b| b" -".contains(&b)) {
            Ok(before.len())
        } else {
            Err(UNSURE)
        }
    }

    /// Returns the indentation of a key that stands first on its line.
    fn indent_of_line(&self, offset: usize) -> Result<usize, &'static str> {
        let before = self
            .text
            .get(self.line_start(offset)..offset)
            .ok_or(UNSURE)?;
        if before.bytes().all(|b| b == b' ') {
            Ok(before.len())
        } else {
            Err(UNSURE)
        }
    }

    /// Returns the indentation of an item's dash, and the byte of the dash.
    fn dash(&self, item: usize) -> Result<(usize, usize), &'static str> {
        let start = self.line_start(item);
        let before = self.text.get(start..item).ok_or(UNSURE)?;
        let indent = before
            .strip_suffix(' ')
            .map(|before| before.trim_end_matches(' '))
            .and_then(|before| before.strip_suffix('-'));
        let indent = indent
            .filter(|indent| indent.bytes().all(|b| b == b' '))
            .ok_or(UNSURE)?
            .len();
        Ok((indent, start + indent))
    }

    /// Returns the indentation of a map's entries below `indent`. It is the same step by which
    /// `indent` is deeper than what is around it.
    fn step(&self, indent: usize) -> usize {
        let indents = self.chain.iter().filter_map(|region| {
            let RegionKind::Map {
                flow: false,
                entries,
            } = &region.kind
            else {
                return None;
            };
            self.indent(entries.first()?.key.start).ok()
        });
        indents
            .filter(|other| *other < indent)
            .max()
            .map_or(2, |outer| indent - outer)
    }
}

/// Writes an item of a list in block style. A map is written on the same line.
fn behind_a_dash(item: &NewValue) -> String {
    let note = item
        .note()
        .map(|note| format!(" # {note}"))
        .unwrap_or_default();
    format!("{}{note}", item.flow())
}
