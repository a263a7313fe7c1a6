//! A value that is about to be read, and where it stands: whatever is wrong with it is told by its
//! path.
//!
//! Every method that takes the value consumes exactly it. `null` is the same as nothing.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write;

use crate::neutral::{Number, Raw, Refused};
use crate::wire::json::{self, Broken, Cursor, Kind, Span};

/// A value not yet read.
pub(super) struct Value<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    /// How many elements of arrays were read so far, in the whole body.
    elements: &'c Cell<usize>,
    /// Where it stands.
    pub(super) place: Place<'c>,
}

/// Where a value stands. The path is only written where it must be shown.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    up: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Body,
    Field(&'p str),
    Index(usize),
}

/// A request may have so many messages, parts, calls, tools and the like together: what is kept of
/// a small one is many times its text.
pub(super) const MOST: usize = 100_000;

/// A refusal, boxed: it is rare, and results are everywhere.
pub(super) type ReadFault = Box<Refused>;

/// The name of a member.
pub(super) type Name<'a> = Cow<'a, str>;

impl<'c, 'a> Value<'c, 'a> {
    /// The whole body.
    pub(super) fn body(cursor: &'c mut Cursor<'a>, elements: &'c Cell<usize>) -> Self {
        Self { cursor, elements, place: Place { up: None, step: Step::Body } }
    }

    /// What it is.
    pub(super) fn kind(&mut self) -> Result<Kind, ReadFault> {
        self.cursor.kind().map_err(syntax)
    }

    /// Its text, without consuming it.
    pub(super) fn ahead(&mut self) -> Result<Raw<'a>, ReadFault> {
        Value { cursor: &mut self.cursor.clone(), elements: self.elements, place: self.place }.raw()
    }

    /// Passes over it.
    pub(super) fn skip(self) -> Result<(), ReadFault> {
        self.cursor.value().map(drop).map_err(syntax)
    }

    /// Its text, `null` included.
    pub(super) fn raw(self) -> Result<Raw<'a>, ReadFault> {
        self.scan().map(|(_, text)| Raw(text))
    }

    /// Whether it is more than nothing. Consumes it.
    pub(super) fn says_something(self) -> Result<bool, ReadFault> {
        self.raw().map(|Raw(text)| !matches!(text, "null" | "[]" | "{}" | r#""""#))
    }

    /// A string.
    pub(super) fn text(self) -> Result<Option<Cow<'a, str>>, ReadFault> {
        let span = self.cursor.value().map_err(syntax)?;
        match kind_of(json::slice(self.cursor.text(), &span)) {
            Kind::String => Ok(json::text_of(self.cursor.text(), &span)),
            Kind::Null => Ok(None),
            kind @ (Kind::Object | Kind::Array | Kind::Number | Kind::Bool) => Err(self.place.wrong("a string", kind)),
        }
    }

    /// A string if it is one; else `None`, and whether it says something.
    pub(super) fn text_or_not(mut self) -> Result<(Option<Cow<'a, str>>, bool), ReadFault> {
        if self.kind()? == Kind::String {
            return self.text().map(|text| (text, false));
        }
        self.says_something().map(|says| (None, says))
    }

    /// `true` or `false`.
    pub(super) fn flag(self) -> Result<Option<bool>, ReadFault> {
        Ok(self.of_kind(Kind::Bool, "true or false")?.map(|text| text == "true"))
    }

    /// A number.
    pub(super) fn number(self) -> Result<Option<Number<'a>>, ReadFault> {
        let place = self.place;
        let Some(text) = self.of_kind(Kind::Number, "a number")? else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(Number { text, value })),
            Ok(_) | Err(_) => Err(place.refuse("is out of range")),
        }
    }

    /// A whole number, be it written `12`, `12.0` or `1.2e1`.
    pub(super) fn integer(self) -> Result<Option<i64>, ReadFault> {
        let place = self.place;
        let text = self.of_kind(Kind::Number, "an integer")?;
        text.map(whole).transpose().map_err(|why| place.refuse(why))
    }

    /// A whole number that is not below `least`, nor below 0.
    pub(super) fn count(self, least: u64) -> Result<Option<u64>, ReadFault> {
        let place = self.place;
        let Some(number) = self.integer()? else { return Ok(None) };
        match u64::try_from(number) {
            Ok(number) if number >= least => Ok(Some(number)),
            Ok(_) | Err(_) => Err(place.refuse(&format!("must be at least {least}"))),
        }
    }

    /// An object, as it is written.
    pub(super) fn raw_object(mut self) -> Result<Option<Raw<'a>>, ReadFault> {
        if self.begins(Kind::Object, "an object")? { self.raw().map(Some) } else { self.skip().map(|()| None) }
    }

    /// An object whose members of these names are strings, all others being `other`'s; `None` if
    /// there is none.
    pub(super) fn texts<const N: usize>(
        self,
        names: [&'static str; N],
        mut other: impl FnMut(&Name<'a>, Value<'_, 'a>) -> Result<(), ReadFault>,
    ) -> Result<Option<[Option<Cow<'a, str>>; N]>, ReadFault> {
        let mut texts = [const { None }; N];
        let is_there = self.object(&names, |name, value| {
            match names.iter().zip(&mut texts).find(|(known, _)| *known == name) {
                Some((_, text)) => *text = value.text()?,
                None => other(name, value)?,
            }
            Ok(())
        })?;
        Ok(is_there.then_some(texts))
    }

    /// An object, of which `each` gets every member and consumes its value; false if there is none.
    /// A member that is one of `known` may stand there once only. There are at most 64 of those.
    pub(super) fn object(
        mut self,
        known: &[&'static str],
        mut each: impl FnMut(&Name<'a>, Value<'_, 'a>) -> Result<(), ReadFault>,
    ) -> Result<bool, ReadFault> {
        if !self.begins(Kind::Object, "an object")? {
            return self.skip().map(|()| false);
        }
        let Self { cursor, elements, place } = self;
        let mut seen: u64 = 0;
        let mut member = |cursor: &mut Cursor<'a>, key: Span| {
            let mut bit = 0;
            let mut find = |key: &[u8]| {
                let (name, number) = known.iter().zip(0..).find(|(name, _)| name.as_bytes() == key)?;
                bit = 1u64.checked_shl(number).unwrap_or_default();
                Some(Cow::Borrowed(*name))
            };
            let literal = json::slice(cursor.text(), &key);
            let as_written = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
            let name = find(as_written).unwrap_or_else(|| {
                let key = json::name_of(cursor.text(), &key);
                find(&key).unwrap_or_else(|| utf8(key))
            });
            let is_second = seen & bit != 0;
            seen |= bit;
            let place = Place { up: Some(&place), step: Step::Field(&name) };
            if is_second {
                return Err(place.refuse("is given more than once"));
            }
            each(&name, Value { cursor, elements, place })
        };
        let mut refused = None;
        let scanned = cursor.object(|cursor, key| member(cursor, key).map_err(|why| stop(&mut refused, why)));
        scanned.map(|_| true).map_err(|broken| refused.unwrap_or_else(|| syntax(broken)))
    }

    /// An object that must be there: an element of an array.
    pub(super) fn element(
        self,
        known: &[&'static str],
        each: impl FnMut(&Name<'a>, Value<'_, 'a>) -> Result<(), ReadFault>,
    ) -> Result<(), ReadFault> {
        let place = self.place;
        if self.object(known, each)? { Ok(()) } else { Err(place.wrong("an object", Kind::Null)) }
    }

    /// An array, of which `each` gets and consumes every element, with its index.
    pub(super) fn array(
        mut self,
        mut each: impl FnMut(usize, Value<'_, 'a>) -> Result<(), ReadFault>,
    ) -> Result<(), ReadFault> {
        if !self.begins(Kind::Array, "an array")? {
            return self.skip();
        }
        let Self { cursor, elements, place } = self;
        let mut refused = None;
        let scanned = cursor.array(|cursor, index| {
            let place = Place { up: Some(&place), step: Step::Index(index) };
            elements.set(elements.get() + 1);
            if elements.get() > MOST {
                return Err(stop(&mut refused, too_many()));
            }
            each(index, Value { cursor, elements, place }).map_err(|why| stop(&mut refused, why))
        });
        scanned.map(drop).map_err(|broken| refused.unwrap_or_else(|| syntax(broken)))
    }

    /// Whether it is of this kind, or nothing.
    fn begins(&mut self, wanted: Kind, name: &str) -> Result<bool, ReadFault> {
        let kind = self.kind()?;
        if kind == wanted || kind == Kind::Null { Ok(kind == wanted) } else { Err(self.place.wrong(name, kind)) }
    }

    /// Its text if it is of this kind; `None` if it is nothing. Consumes it.
    fn of_kind(self, wanted: Kind, name: &str) -> Result<Option<&'a str>, ReadFault> {
        let place = self.place;
        let (kind, text) = self.scan()?;
        if kind == wanted || kind == Kind::Null {
            Ok((kind == wanted).then_some(text))
        } else {
            Err(place.wrong(name, kind))
        }
    }

    fn scan(self) -> Result<(Kind, &'a str), ReadFault> {
        let span = self.cursor.value().map_err(syntax)?;
        let text = json::slice(self.cursor.text(), &span);
        // What was scanned is UTF-8.
        Ok((kind_of(text), str::from_utf8(text).unwrap_or_default()))
    }
}

impl<'p> Place<'p> {
    /// A member's place.
    pub(super) fn field(&'p self, name: &'p str) -> Self {
        Self { up: Some(self), step: Step::Field(name) }
    }

    /// It should be there.
    pub(super) fn missing(&self) -> ReadFault {
        self.refuse("is missing")
    }

    /// It is of the wrong type.
    pub(super) fn wrong(&self, wanted: &str, kind: Kind) -> ReadFault {
        self.refuse(&format!("must be {wanted}, not {}", kind.named()))
    }

    /// What is wrong with it, as what follows its name in a sentence.
    pub(super) fn refuse(&self, why: &str) -> ReadFault {
        let path = self.path();
        let message = if path.is_empty() { format!("the request body {why}") } else { format!("`{path}` {why}") };
        Box::new(Refused::invalid(path, message))
    }

    /// It is not wrong, but nothing that this target's dialect can say; `why` as a sentence.
    pub(super) fn unsupported(&self, why: &str) -> ReadFault {
        let path = self.path();
        let message = format!("`{path}`: {why}");
        Box::new(Refused::unsupported(path, message))
    }

    /// `messages[3].content[1].image_url`
    pub(super) fn path(&self) -> String {
        let mut path = self.up.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Body => {}
            Step::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Index(index) => drop(write!(path, "[{index}]")),
        }
        path
    }
}

/// What a whole value is.
fn kind_of(value: &[u8]) -> Kind {
    value.first().and_then(|first| Kind::of(*first)).unwrap_or(Kind::Null)
}

/// The value of a number that is an integer; else what is wrong with it.
fn whole(text: &str) -> Result<i64, &'static str> {
    const FRACTION: &str = "must be an integer";
    const RANGE: &str = "is out of range";
    if let Ok(value) = text.parse() {
        return Ok(value);
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [integer, fraction].concat();
    let significant = digits.trim_end_matches('0');
    if significant.trim_start_matches(['-', '0']).is_empty() {
        return Ok(0);
    }
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let Ok(exponent) = exponent.parse::<i64>() else {
        return Err(if exponent.starts_with('-') { FRACTION } else { RANGE });
    };
    let zeros = exponent.saturating_sub(length(fraction)).saturating_add(length(&digits) - length(significant));
    match usize::try_from(zeros) {
        Err(_) => Err(FRACTION),
        // 2^63 has 19 digits.
        Ok(20..) => Err(RANGE),
        Ok(zeros) => [significant, &"0".repeat(zeros)].concat().parse().map_err(|_| RANGE),
    }
}

#[cold]
fn too_many() -> ReadFault {
    let message = format!("the request has more than {MOST} messages, parts, calls, tools and other elements");
    Box::new(Refused::invalid("messages", message))
}

/// Ends the scan for another reason than its text.
fn stop(refused: &mut Option<ReadFault>, why: ReadFault) -> Broken {
    *refused = Some(why);
    Broken { at: 0, why: "refused" }
}

/// Whoever reads has checked the body before: this is for whoever has not.
#[cold]
pub(super) fn syntax(broken: Broken) -> ReadFault {
    Box::new(Refused::invalid("", format!("the request body is not valid JSON: {}", broken.why)))
}

fn utf8(name: Cow<'_, [u8]>) -> Name<'_> {
    match name {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    }
}
