//! A place in a body, and the name that leads to it.

/// A place in a body: a member or an element, and the place of the object or the list around it.
#[derive(Clone, Copy)]
pub(super) struct BodyPlace<'p> {
    above: Option<&'p BodyPlace<'p>>,
    part: Part<'p>,
}

#[derive(Clone, Copy)]
enum Part<'p> {
    Name(&'p [u8]),
    Index(usize),
}

/// The most names that are shown of a place, and the most bytes of each.
const SHOWN_NAMES: usize = 3;
const SHOWN_BYTES: usize = 40;

impl<'p> BodyPlace<'p> {
    /// Returns the place of a field.
    pub(super) fn at_field(field: &'p [u8]) -> Self {
        Self {
            above: None,
            part: Part::Name(field),
        }
    }

    /// Returns the place of a member.
    pub(super) fn member(&'p self, name: &'p [u8]) -> Self {
        Self {
            above: Some(self),
            part: Part::Name(name),
        }
    }

    /// Returns the place of an element.
    pub(super) fn element(&'p self, index: usize) -> Self {
        Self {
            above: Some(self),
            part: Part::Index(index),
        }
    }

    /// Returns whether this is a field, or an element of one.
    pub(super) fn is_outside(&self) -> bool {
        match (self.part, self.above) {
            (Part::Name(_), above) => above.is_none(),
            (Part::Index(_), above) => above.is_none_or(BodyPlace::is_outside),
        }
    }

    /// Returns the member's name. For an element, the name of its list.
    pub(super) fn name(&self) -> &'p [u8] {
        match (self.part, self.above) {
            (Part::Name(name), _) => name,
            (Part::Index(_), above) => above.map_or(b"", BodyPlace::name),
        }
    }

    /// Writes the beginning of the place for the caller: `messages[1].content[0].image_url`.
    pub(super) fn shown(&self) -> String {
        let parts: Vec<Part<'_>> = std::iter::successors(Some(self), |place| place.above)
            .map(|place| place.part)
            .collect();
        let mut shown = String::new();
        let mut names = 0;
        for part in parts.into_iter().rev() {
            match part {
                _ if names == SHOWN_NAMES => break,
                Part::Index(index) => shown.push_str(&format!("[{index}]")),
                Part::Name(name) => {
                    names += 1;
                    shown.push_str(if names == 1 { "" } else { "." });
                    shown.push_str(&String::from_utf8_lossy(
                        name.get(..SHOWN_BYTES).unwrap_or(name),
                    ));
                }
            }
        }
        shown
    }
}

/// A name without its case, its underscores and its hyphens. Servers read `cachedContent` and
/// `cached_content` alike, and some read names in any case.
pub(super) struct Folded {
    bytes: [u8; 48],
    len: usize,
}

impl Folded {
    /// Folds a name. One that is too long for every table folds to nothing.
    pub(super) fn fold(name: &[u8]) -> Self {
        let mut folded = Self {
            bytes: [0; 48],
            len: 0,
        };
        for letter in String::from_utf8_lossy(name)
            .chars()
            .filter(|letter| !matches!(letter, '_' | '-'))
        {
            let letter = match letter {
                '\u{17f}' => 's',
                '\u{212a}' => 'k',
                letter => letter.to_ascii_lowercase(),
            };
            let end = folded.len + letter.len_utf8();
            let Some(room) = folded.bytes.get_mut(folded.len..end) else {
                folded.len = 0;
                break;
            };
            letter.encode_utf8(room);
            folded.len = end;
        }
        folded
    }

    /// Returns the folded name.
    pub(super) fn word(&self) -> &str {
        self.bytes
            .get(..self.len)
            .and_then(|word| str::from_utf8(word).ok())
            .unwrap_or_default()
    }
}
