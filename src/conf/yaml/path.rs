//! A path is a place in a YAML text: keys of maps, and indexes in lists. Messages show it.

/// A place in a document, as a chain towards its root.
#[derive(Clone, Copy)]
pub enum Path<'p> {
    /// The document.
    Root,
    /// A place inside another one.
    In(&'p Path<'p>, Step<'p>),
}

/// One step of a path.
#[derive(Clone, Copy)]
pub enum Step<'p> {
    /// Into a map, by a key.
    Key(&'p str),
    /// Into a map, by a key that must not be shown. It is no word of ours and no id, so it may be a
    /// secret in the wrong place.
    Hidden(&'p str),
    /// Into a list, by an index that counts from 0.
    Index(usize),
}

impl<'p> Path<'p> {
    /// Returns the place of a key in this map.
    pub fn key(&'p self, key: &'p str) -> Self {
        Self::In(self, Step::Key(key))
    }

    /// Returns the place of a key in this map. Messages show the key only if `is_shown`.
    pub fn entry(&'p self, key: &'p str, is_shown: bool) -> Self {
        Self::In(
            self,
            if is_shown {
                Step::Key(key)
            } else {
                Step::Hidden(key)
            },
        )
    }

    /// Returns the innermost key of the path. [`Shows`](super::Shows) takes it as the key above.
    pub fn section(&'p self) -> Option<&'p str> {
        self.steps().find_map(|step| match step {
            Step::Key(key) | Step::Hidden(key) => Some(*key),
            Step::Index(_) => None,
        })
    }

    /// Returns whether a part of the path must not be shown.
    pub fn hides(&self) -> bool {
        self.steps().any(|step| matches!(step, Step::Hidden(_)))
    }

    /// Returns the place of an item in this list.
    pub fn index(&'p self, index: usize) -> Self {
        Self::In(self, Step::Index(index))
    }

    /// Returns the steps, from the innermost outwards.
    pub(super) fn steps(&'p self) -> impl Iterator<Item = &'p Step<'p>> {
        let mut current = self;
        std::iter::from_fn(move || match current {
            Path::Root => None,
            Path::In(parent, step) => {
                current = parent;
                Some(step)
            }
        })
    }
}

/// Writes a path as `models.fast.targets[1].account`.
impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Path::In(parent, step) = self else {
            return Ok(());
        };
        parent.fmt(f)?;
        if matches!(step, Step::Key(_) | Step::Hidden(_)) && matches!(parent, Path::In(..)) {
            f.write_str(".")?;
        }
        match step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Hidden(_) => f.write_str("…"),
            Step::Key(key) => {
                if key
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-/:@+".contains(&b))
                    && !key.is_empty()
                {
                    f.write_str(crate::base::problem::unless_secret(key))
                } else {
                    f.write_str(&crate::base::problem::quote_safely(key))
                }
            }
        }
    }
}
