//! Any text is read as YAML or refused with its line, also as a catalog. The editor makes the
//! changes that were asked for, and no others.
//!
//! The first four bytes choose the place and the change; the rest is the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use portcullis::catalog::raw;
use portcullis::conf::yaml::edit::{Change, NewValue, apply_changes};
use portcullis::conf::yaml::{Node, Step, Value, parse, read};

fuzz_target!(|input: &[u8]| {
    let [a, b, c, which, text @ ..] = input else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let (tree, faults) = match parse(text) {
        Ok(read) => read,
        Err(fault) => {
            assert!(fault.line > Some(0) && !fault.message.is_empty());
            return;
        }
    };
    // A carriage return ends a line in YAML, too.
    let mut found = Vec::new();
    drop(read::read_value::<raw::Catalog>(
        &tree,
        raw::KIND,
        &mut found,
    ));
    assert!(faults.iter().chain(&found).all(|fault| {
        fault
            .line
            .is_some_and(|line| line > 0 && line <= text.split(['\n', '\r']).count())
    }));

    let mut path = Vec::new();
    let node = walk(&tree, &[*a, *b, *c], &mut path);
    let new = || NewValue::text(if which & 8 == 0 { "x" } else { "a: b # c" });
    let is_scalar = matches!(node.value, Value::Plain(_) | Value::Quoted(_));
    let change = match which % 4 {
        0 if is_scalar => Change::Set(path, new()),
        0 => {
            path.push(Step::Key("new-one"));
            Change::Set(path, NewValue::map([("k", new())]))
        }
        1 => Change::Remove(path),
        2 => Change::Push(path, new()),
        _ => Change::Split(path, "two", [new(), new()]),
    };
    let Ok((edited, _)) = apply_changes(text, std::slice::from_ref(&change)) else {
        return;
    };
    let (after, faults) = parse(&edited).expect("what comes out is read");
    assert!(faults.is_empty());
    // The comments and the other lines stay as they were, byte for byte.
    let (front, back) = common(text.as_bytes(), edited.as_bytes());
    let gone = text.get(front..text.len() - back).unwrap_or_default();
    match change {
        // If it was the only entry of a map, `{}` is left.
        Change::Remove(_) => {
            assert!(edited.len() < text.len() + " {}\n".len() && !after.is_same(&tree))
        }
        // A scalar goes, which may stand below its key; or, in an empty map or list, what stands
        // between its brackets. A comment never goes.
        Change::Set(..) | Change::Split(..) | Change::Push(..) => {
            assert!(
                gone.lines().filter(|line| !line.trim().is_empty()).count() < 3,
                "{gone:?} went from {text:?}, which is {edited:?}"
            );
            let is_own = matches!(&node.value, Value::Plain(word) | Value::Quoted(word) if word.contains('#'));
            for comment in gone
                .lines()
                .filter_map(|line| line.get(line.find(" #")?..))
                .filter(|_| !is_own)
            {
                assert!(
                    edited.contains(comment.trim_end()),
                    "{comment:?} went from {text:?}, which is {edited:?}"
                );
            }
        }
    }
    // The same change once more changes nothing.
    if let Change::Set(path, new @ NewValue::Text(_)) = change {
        assert_eq!(
            apply_changes(&edited, &[Change::Set(path, new)]).map(|(text, _)| text),
            Ok(edited)
        );
    }
});

/// Walks to some place in the tree, and notes the way there.
fn walk<'n>(tree: &'n Node<'n>, choices: &[u8], path: &mut Vec<Step<'n>>) -> &'n Node<'n> {
    let mut node = tree;
    for choice in choices {
        let at = usize::from(*choice);
        node = match &node.value {
            Value::Map(entries) if !entries.is_empty() => {
                let entry = &entries[at % entries.len()];
                path.push(Step::Key(&entry.key));
                &entry.node
            }
            Value::List(items) if !items.is_empty() => {
                path.push(Step::Index(at % items.len()));
                &items[at % items.len()]
            }
            Value::Map(_) | Value::List(_) | Value::Plain(_) | Value::Quoted(_) => return node,
        };
    }
    node
}

/// Returns how many bytes two texts have in common at each end.
fn common(a: &[u8], b: &[u8]) -> (usize, usize) {
    let front = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - front;
    (
        front,
        a.iter()
            .rev()
            .zip(b.iter().rev())
            .take(most)
            .take_while(|(a, b)| a == b)
            .count(),
    )
}
