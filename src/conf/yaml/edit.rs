//! An edit changes a YAML text and leaves everything else as it is: comments, order, quotes,
//! indentation and line ends, byte for byte.
//!
//! Block style and flow style are edited where they stand. An alias, an anchor or a scalar of
//! several lines cannot be edited surely: it is refused with its place. **Invariant:** the new text
//! reads as the old tree with exactly these changes; that is checked each time.

use std::ops::Range;

use super::pairs::without_pairs;
use super::{Entry, Node, Path, Step, Value, parse};
use crate::base::problem::Problem;
use new::new_entry;
use path::PathInText;
use region::{RegionKind, TextRegion, find_region};

mod new;
mod path;
mod region;

pub use new::NewValue;

/// A change of one place.
#[derive(Clone)]
pub enum Change<'c> {
    /// Sets the value of a map's entry. An entry that is missing is added after the others,
    /// together with the maps around it.
    Set(Vec<Step<'c>>, NewValue),
    /// Removes a map's entry or a list's item. If it is the only entry of a map, `{}` is left.
    Remove(Vec<Step<'c>>),
    /// Adds an item to a list, as its last.
    Push(Vec<Step<'c>>, NewValue),
    /// Turns an entry that is a scalar into a list of two, under another name. A comment after the
    /// scalar on its line stays with the first item.
    Split(Vec<Step<'c>>, &'c str, [NewValue; 2]),
}

/// Makes the changes, one after the other, and returns the text and the line where the first of
/// them is now. If one is refused, none is made, and the error gives the reason.
pub fn apply_changes(
    text: &str,
    changes: &[Change<'_>],
) -> Result<(String, Option<usize>), Problem> {
    // In JSON, a character that is written as a pair of escapes stays as the character itself.
    let (text, _) = without_pairs(text);
    let text = &*text;
    let (mut expected, faults) = parse(text)?;
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault);
    }
    let mut edited = text.to_owned();
    for change in changes {
        edited = change
            .apply_to_text(&edited)
            .map_err(|why| change.refusal(&edited, why))?;
        change.apply_to_tree(&mut expected);
    }
    // Any mistake of the parts above is found here.
    let read = parse(&edited)
        .ok()
        .filter(|(tree, faults)| faults.is_empty() && tree.is_same(&expected));
    let first = changes.first();
    let line = read.map(|(tree, _)| {
        first.and_then(|change| on_path(change.path(), &Path::Root, &|path| tree.line_of(path)))
    });
    match (line, first) {
        (None, Some(change)) => Err(change.refusal(text, UNSURE)),
        (line, _) => Ok((edited, line.flatten())),
    }
}

/// Writes a map as a document of its own, in block style.
pub fn write_document(new: &NewValue) -> String {
    format!("{}\n", new.block(0, 2, "\n").trim_start())
}

/// A range of bytes, and the text that replaces them.
type Splice = (Range<usize>, String);

const UNSURE: &str = "is written in a form that this command cannot edit safely";
const ALIAS: &str = "is an alias (`*`) of a value in another place";
const ANCHORED: &str = "has an anchor (`&`), so other places may use the same value";
const LAST: &str = "is the only entry: the map or list would be empty without it";

impl Change<'_> {
    fn path(&self) -> &[Step<'_>] {
        match self {
            Self::Set(path, _)
            | Self::Remove(path)
            | Self::Push(path, _)
            | Self::Split(path, ..) => path,
        }
    }

    fn refusal(&self, text: &str, why: &str) -> Problem {
        // After an alias, the lines go back to the text that it stands for. The largest line is the
        // path's own.
        let tree = parse(text).ok().map(|(tree, _)| tree);
        let lines = (1..=self.path().len()).filter_map(|depth| {
            let tree = tree.as_ref()?;
            on_path(self.path().get(..depth)?, &Path::Root, &|path| {
                tree.line_of(path)
            })
        });
        let line = lines.max();
        let path = on_path(self.path(), &Path::Root, &|path| path.to_string());
        Problem {
            line,
            path,
            message: why.to_owned(),
            ..Problem::default()
        }
    }

    /// Makes this change to a text.
    fn apply_to_text(&self, text: &str) -> Result<String, &'static str> {
        let root = find_region(text, self.path()).ok_or(UNSURE)?;
        let target = PathInText::locate(text, &root, self.path())?;
        if !target.is_whole() && !matches!(self, Self::Set(..)) {
            return Err(UNSURE);
        }
        let mut splices = match self {
            Self::Set(_, new) => target.set(new)?,
            Self::Remove(_) => target.remove()?,
            Self::Push(_, item) => target.push(item)?,
            Self::Split(_, name, items) => target.split(name, items)?,
        };
        splices.sort_by_key(|(range, _)| range.start);
        let mut edited = String::with_capacity(text.len() + 256);
        let mut offset = 0;
        for (range, by) in splices {
            edited.push_str(text.get(offset..range.start).ok_or(UNSURE)?);
            edited.push_str(&by);
            offset = range.end;
        }
        edited.push_str(text.get(offset..).ok_or(UNSURE)?);
        Ok(edited)
    }

    /// Makes this change to a tree. A change that does not fit the tree does nothing: the
    /// comparison of the trees finds it.
    fn apply_to_tree(&self, tree: &mut Node<'_>) {
        let Some((last, above)) = self.path().split_last() else {
            return;
        };
        match self {
            Self::Set(path, new) => set_value(tree, path, new),
            Self::Push(path, item) => {
                if let Some(Value::List(items)) =
                    find_inside(tree, path).map(|node| &mut node.value)
                {
                    items.push(item.node());
                }
            }
            Self::Remove(_) => match (find_inside(tree, above).map(|node| &mut node.value), last) {
                (Some(Value::Map(entries)), Step::Key(key)) => {
                    entries.retain(|entry| entry.key != *key)
                }
                (Some(Value::List(items)), Step::Index(index)) if *index < items.len() => {
                    drop(items.remove(*index))
                }
                _ => {}
            },
            Self::Split(_, name, items) => {
                if let (Some(Value::Map(entries)), Step::Key(key)) =
                    (find_inside(tree, above).map(|node| &mut node.value), last)
                    && let Some(found) = entries.iter_mut().find(|entry| entry.key == *key)
                {
                    *found = new_entry(name, &NewValue::List(items.to_vec()));
                }
            }
        }
    }
}

fn on_path<T>(steps: &[Step<'_>], path: &Path<'_>, then: &dyn Fn(&Path<'_>) -> T) -> T {
    match steps.split_first() {
        Some((step, rest)) => on_path(rest, &Path::In(path, *step), then),
        None => then(path),
    }
}

fn find_inside<'n, 't>(tree: &'n mut Node<'t>, path: &[Step<'_>]) -> Option<&'n mut Node<'t>> {
    path.iter()
        .try_fold(tree, |node, step| match (&mut node.value, step) {
            (Value::Map(entries), Step::Key(key)) => entries
                .iter_mut()
                .find(|entry| entry.key == *key)
                .map(|entry| &mut entry.node),
            (Value::List(items), Step::Index(index)) => items.get_mut(*index),
            _ => None,
        })
}

fn set_value(node: &mut Node<'_>, path: &[Step<'_>], new: &NewValue) {
    let Some((step, rest)) = path.split_first() else {
        *node = new.node();
        return;
    };
    match (&mut node.value, step) {
        (Value::Map(entries), Step::Key(key)) => {
            match entries.iter_mut().find(|entry| entry.key == *key) {
                Some(Entry { node, .. }) => set_value(node, rest, new),
                None => {
                    if let Some(new) = wrap_in_maps(rest, new) {
                        entries.push(new_entry(key, &new));
                    }
                }
            }
        }
        (Value::List(items), Step::Index(index)) => {
            if let Some(item) = items.get_mut(*index) {
                set_value(item, rest, new);
            }
        }
        _ => {}
    }
}

/// Puts the maps of a path around a value.
fn wrap_in_maps(path: &[Step<'_>], new: &NewValue) -> Option<NewValue> {
    path.iter()
        .rev()
        .try_fold(new.clone(), |new, step| match step {
            Step::Key(key) => Some(NewValue::Map(vec![((*key).to_owned(), new)])),
            Step::Hidden(_) | Step::Index(_) => None,
        })
}

#[cfg(test)]
mod tests;
