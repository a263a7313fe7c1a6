//! A [`Value`] is a JSON value that is about to be read, together with its place in the body. A
//! refusal names the path of that place.
//!
//! A method that takes the value consumes exactly that value. `null` counts as absent.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write;

use crate::neutral::{Cache, Effort, LazyText, Number, Raw, Refused};
use crate::wire::json::{self, Broken, Cursor, Kind};

/// A value not yet read.
pub(crate) struct Value<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    body: &'c Body,
    /// True if an earlier member has this name. Such a value can be skipped, but not read.
    is_second: bool,
    /// The place of the value.
    pub(crate) place: Place<'c>,
}

/// The facts of the whole body.
struct Body {
    /// The number of array elements read so far.
    elements: Cell<usize>,
    /// True if characters may be written as `\u` escapes. Only then can a text hold half a
    /// character.
    has_codes: bool,
}

/// Where a value stands. The path is only written where it must be shown.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    up: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Body,
    Field(&'p str),
    Index(usize),
}

/// The most messages, parts, calls, tools and other elements of a request, together. The memory for
/// a small element is many times its text.
pub(crate) const MAX_ELEMENTS: usize = 100_000;

/// The most names of an object that are compared to find a second one.
const MOST_NAMES: usize = 64;

/// A refusal, boxed: it is rare, and results are everywhere.
pub(crate) type ReadFault = Box<Refused>;

/// The result of reading a part of a body.
pub(crate) type ReadResult<T> = Result<T, ReadFault>;

/// The name of a member.
pub(crate) type Name<'a> = Cow<'a, str>;

/// Reads a body, which is an object.
pub(crate) fn read_body<'a>(
    body: &'a [u8],
    read: impl FnMut(&Name<'a>, Value<'_, 'a>) -> ReadResult<()>,
) -> ReadResult<()> {
    let mut cursor = Cursor::new(body);
    let body = Body {
        elements: Cell::new(0),
        has_codes: memchr::memmem::find(body, br"\u").is_some(),
    };
    let place = Place {
        up: None,
        step: Step::Body,
    };
    Value {
        cursor: &mut cursor,
        body: &body,
        is_second: false,
        place,
    }
    .non_null_object(read)?;
    cursor.end().map_err(syntax_refused)
}

impl<'c, 'a> Value<'c, 'a> {
    /// Returns the kind of the value, without consuming the value.
    pub(crate) fn kind(&mut self) -> ReadResult<Kind> {
        self.refuse_second()?;
        self.cursor.kind().map_err(syntax_refused)
    }

    /// Returns the text of the value, without consuming the value.
    pub(crate) fn peek_raw(&mut self) -> ReadResult<Raw<'a>> {
        self.cursor
            .clone()
            .value()
            .map(|span| Raw(str_of(json::span_bytes(self.cursor.text(), &span))))
            .map_err(syntax_refused)
    }

    /// Reads the value with `read`, and returns it as it is written.
    pub(crate) fn written(
        self,
        read: impl FnOnce(Value<'_, 'a>) -> ReadResult<()>,
    ) -> ReadResult<Raw<'a>> {
        let Self {
            cursor,
            body,
            is_second,
            place,
        } = self;
        cursor.kind().map_err(syntax_refused)?;
        let start = cursor.offset();
        read(Value {
            cursor: &mut *cursor,
            body,
            is_second,
            place,
        })?;
        Ok(Raw(str_of(json::span_bytes(
            cursor.text(),
            &(start..cursor.offset()),
        ))))
    }

    /// Skips the value.
    pub(crate) fn skip(self) -> ReadResult<()> {
        self.cursor.skip().map_err(syntax_refused)
    }

    /// Reads the value as it is written, `null` included.
    pub(crate) fn raw(self) -> ReadResult<Raw<'a>> {
        self.scan().map(|text| Raw(str_of(text)))
    }

    /// Reads the value, and returns whether it is neither `null` nor empty.
    pub(crate) fn read_is_filled(self) -> ReadResult<bool> {
        self.raw()
            .map(|Raw(text)| !matches!(text, "null" | "[]" | "{}" | r#""""#))
    }

    /// Reads a string.
    pub(crate) fn text(self) -> ReadResult<Option<Cow<'a, str>>> {
        let text = self.text_of_kind(Kind::String, "a string")?;
        Ok(text.and_then(|text| json::text_of(text, &(0..text.len()))))
    }

    /// Reads a string that may be long: it is decoded where it is read. A text with half a
    /// character is decoded at once, since no server need accept such a literal.
    pub(crate) fn lazy_text(mut self) -> ReadResult<Option<LazyText<'a>>> {
        if self.kind()? != Kind::String {
            return Ok(self.text()?.map(LazyText::from));
        }
        let literal = self.cursor.string_literal().map_err(syntax_refused)?;
        Ok(
            if self.body.has_codes && memchr::memmem::find(literal, br"\u").is_some() {
                json::decode_string(literal).map(LazyText::from)
            } else {
                Some(LazyText::literal(literal))
            },
        )
    }

    /// Reads a string. For another kind, returns `None` and whether the value is neither `null` nor
    /// empty. No value is refused.
    pub(crate) fn text_if_string(self) -> ReadResult<(Option<Cow<'a, str>>, bool)> {
        let once = Value {
            is_second: false,
            ..self
        };
        if once.cursor.kind().map_err(syntax_refused)? == Kind::String {
            return once.text().map(|text| (text, false));
        }
        once.read_is_filled().map(|has_value| (None, has_value))
    }

    /// Reads `true` or `false`.
    pub(crate) fn flag(self) -> ReadResult<Option<bool>> {
        Ok(self
            .text_of_kind(Kind::Bool, "true or false")?
            .map(|text| text == b"true"))
    }

    /// Reads a number.
    pub(crate) fn number(self) -> ReadResult<Option<Number<'a>>> {
        let place = self.place;
        let Some(text) = self.text_of_kind(Kind::Number, "a number")?.map(str_of) else {
            return Ok(None);
        };
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Some(Number { text, value })),
            Ok(_) | Err(_) => Err(place.refuse("is out of range")),
        }
    }

    /// Reads a whole number, be it written `12`, `12.0` or `1.2e1`.
    pub(crate) fn integer(self) -> ReadResult<Option<i64>> {
        let place = self.place;
        let text = self.text_of_kind(Kind::Number, "an integer")?;
        text.map(|text| parse_integer(str_of(text)))
            .transpose()
            .map_err(|why| place.refuse(why))
    }

    /// Reads a whole number that is not below `least`, nor below 0. The numbers of `unset` stand
    /// for no value.
    pub(crate) fn count_from(self, least: u64, unset: &[i64]) -> ReadResult<Option<u64>> {
        let place = self.place;
        let Some(number) = self.integer()?.filter(|number| !unset.contains(number)) else {
            return Ok(None);
        };
        match u64::try_from(number) {
            Ok(number) if number >= least => Ok(Some(number)),
            Ok(_) | Err(_) => Err(place.refuse(&format!("must be at least {least}"))),
        }
    }

    /// Reads the word for an effort. Effort below `least` counts as none.
    pub(crate) fn effort(self, least: Effort) -> ReadResult<Option<Effort>> {
        let place = self.place;
        let Some(word) = self.text()? else {
            return Ok(None);
        };
        let found = Effort::ALL
            .into_iter()
            .find(|effort| *effort >= least && effort.name() == word);
        let less = if least > Effort::None {
            ""
        } else {
            "`none`, `minimal`, "
        };
        match found {
            Some(_) => Ok(found),
            None => Err(place.refuse(&format!(
                "must be one of {less}`low`, `medium`, `high`, `xhigh` and `max`"
            ))),
        }
    }

    /// Reads a hint for a prompt cache: `cache_control`, or `prompt_cache_breakpoint`.
    pub(crate) fn cache(self) -> ReadResult<Option<Cache<'a>>> {
        let texts = self.texts(["ttl"], |_, value| value.skip())?;
        Ok(texts.map(|[ttl]| Cache { ttl }))
    }

    /// Reads an array of strings to the end of a list.
    pub(crate) fn strings(self, list: &mut Vec<Cow<'a, str>>) -> ReadResult<()> {
        self.array(|_, value| {
            let place = value.place;
            list.push(
                value
                    .text()?
                    .ok_or_else(|| place.wrong("a string", Kind::Null))?,
            );
            Ok(())
        })
    }

    /// Reads an object as it is written.
    pub(crate) fn raw_object(mut self) -> ReadResult<Option<Raw<'a>>> {
        if self.begins(Kind::Object, "an object")? {
            self.raw().map(Some)
        } else {
            self.skip().map(|()| None)
        }
    }

    /// Reads an object. Its members of these names are strings; `other` reads all other members.
    /// Returns `None` for `null`.
    pub(crate) fn texts<const N: usize>(
        self,
        names: [&'static str; N],
        mut other: impl FnMut(&Name<'a>, Value<'_, 'a>) -> ReadResult<()>,
    ) -> ReadResult<Option<[Option<Cow<'a, str>>; N]>> {
        let mut texts = [const { None }; N];
        let is_there = self.object(|name, value| {
            match names
                .iter()
                .zip(&mut texts)
                .find(|(known, _)| *known == name)
            {
                Some((_, text)) => *text = value.text()?,
                None => other(name, value)?,
            }
            Ok(())
        })?;
        Ok(is_there.then_some(texts))
    }

    /// Reads an object: `each` reads the value of every member. Returns false for `null`.
    pub(crate) fn object(
        mut self,
        mut each: impl FnMut(&Name<'a>, Value<'_, 'a>) -> ReadResult<()>,
    ) -> ReadResult<bool> {
        if !self.begins(Kind::Object, "an object")? {
            return self.skip().map(|()| false);
        }
        let Self {
            cursor,
            body,
            place,
            ..
        } = self;
        let mut seen: Vec<Name<'a>> = Vec::with_capacity(8);
        let mut refused = None;
        let scanned = cursor.object(|cursor, key| {
            let name = utf8_name(json::name_of(cursor.text(), &key));
            let is_second = seen.contains(&name);
            if !is_second && seen.len() < MOST_NAMES {
                seen.push(name.clone());
            }
            let value = Value {
                cursor,
                body,
                is_second,
                place: Place {
                    up: Some(&place),
                    step: Step::Field(&name),
                },
            };
            each(&name, value).map_err(|why| stop_scan(&mut refused, why))
        });
        scanned
            .map(|_| true)
            .map_err(|broken| refused.unwrap_or_else(|| syntax_refused(broken)))
    }

    /// Reads an object that must not be `null`: an element of an array.
    pub(crate) fn non_null_object(
        self,
        each: impl FnMut(&Name<'a>, Value<'_, 'a>) -> ReadResult<()>,
    ) -> ReadResult<()> {
        let place = self.place;
        if self.object(each)? {
            Ok(())
        } else {
            Err(place.wrong("an object", Kind::Null))
        }
    }

    /// Reads an array: `each` reads every element, with its index.
    pub(crate) fn array(
        mut self,
        mut each: impl FnMut(usize, Value<'_, 'a>) -> ReadResult<()>,
    ) -> ReadResult<()> {
        if !self.begins(Kind::Array, "an array")? {
            return self.skip();
        }
        let Self {
            cursor,
            body,
            place,
            ..
        } = self;
        let mut refused = None;
        let scanned = cursor.array(|cursor, index| {
            let place = Place {
                up: Some(&place),
                step: Step::Index(index),
            };
            body.elements.set(body.elements.get() + 1);
            if body.elements.get() > MAX_ELEMENTS {
                return Err(stop_scan(&mut refused, too_many()));
            }
            each(
                index,
                Value {
                    cursor,
                    body,
                    is_second: false,
                    place,
                },
            )
            .map_err(|why| stop_scan(&mut refused, why))
        });
        scanned
            .map(drop)
            .map_err(|broken| refused.unwrap_or_else(|| syntax_refused(broken)))
    }

    /// Returns whether the value is of this kind; false for `null`. Refuses all other kinds.
    fn begins(&mut self, wanted: Kind, name: &str) -> ReadResult<bool> {
        let kind = self.kind()?;
        self.place.check(kind, wanted, name)
    }

    /// Reads the text of a value of this kind; `None` for `null`. Refuses all other kinds.
    fn text_of_kind(self, wanted: Kind, name: &str) -> ReadResult<Option<&'a [u8]>> {
        self.refuse_second()?;
        let place = self.place;
        let text = self.scan()?;
        let kind = text
            .first()
            .and_then(|first| Kind::from_byte(*first))
            .unwrap_or(Kind::Null);
        Ok(place.check(kind, wanted, name)?.then_some(text))
    }

    /// Refuses a value that is given more than once.
    fn refuse_second(&self) -> ReadResult<()> {
        if self.is_second {
            Err(self.place.refuse("is given more than once"))
        } else {
            Ok(())
        }
    }

    fn scan(self) -> ReadResult<&'a [u8]> {
        let span = self.cursor.value().map_err(syntax_refused)?;
        Ok(json::span_bytes(self.cursor.text(), &span))
    }
}

impl<'p> Place<'p> {
    /// Returns the place of a member.
    pub(crate) fn field(&'p self, name: &'p str) -> Self {
        Self {
            up: Some(self),
            step: Step::Field(name),
        }
    }

    /// Returns whether `kind` is the wanted kind; false for `null`. Refuses all other kinds.
    fn check(&self, kind: Kind, wanted: Kind, name: &str) -> ReadResult<bool> {
        if kind == wanted || kind == Kind::Null {
            Ok(kind == wanted)
        } else {
            Err(self.wrong(name, kind))
        }
    }

    /// Returns the value of a member. Refuses the request if the member is missing.
    pub(crate) fn require<T>(&self, name: &str, value: Option<T>) -> ReadResult<T> {
        value.ok_or_else(|| self.field(name).missing())
    }

    /// Returns the text of a member. Refuses the request if the text is missing or empty.
    pub(crate) fn require_text<'a>(
        &self,
        name: &str,
        text: Option<Cow<'a, str>>,
    ) -> ReadResult<Cow<'a, str>> {
        self.require(name, non_empty(text))
    }

    /// Refuses the request because this value is missing.
    pub(crate) fn missing(&self) -> ReadFault {
        self.refuse("is missing")
    }

    /// Refuses the request because of the type of this object.
    pub(crate) fn unsupported_type(&self, things: &str) -> ReadFault {
        let why = format!("this model's provider does not support {things} of this type");
        self.field("type").unsupported(&why)
    }

    /// Refuses the request because this value is of the wrong type.
    pub(crate) fn wrong(&self, wanted: &str, kind: Kind) -> ReadFault {
        self.refuse(&format!("must be {wanted}, not {}", kind.named()))
    }

    /// Refuses the request. `why` follows the name of the value in a sentence.
    pub(crate) fn refuse(&self, why: &str) -> ReadFault {
        let path = self.path();
        let message = if path.is_empty() {
            format!("the request body {why}")
        } else {
            format!("`{path}` {why}")
        };
        Box::new(Refused::invalid(path, message))
    }

    /// Refuses a valid value that no request of this dialect can express. `why` is a sentence.
    pub(crate) fn unsupported(&self, why: &str) -> ReadFault {
        let path = self.path();
        let message = format!("`{path}`: {why}");
        Box::new(Refused::unsupported(path, message))
    }

    /// Returns the path, such as `messages[3].content[1].image_url`.
    pub(crate) fn path(&self) -> String {
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

/// Returns the text unless it is empty.
pub(crate) fn non_empty(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| !text.is_empty())
}

/// Returns the text of a value. The scan has checked that it is UTF-8.
fn str_of(value: &[u8]) -> &str {
    str::from_utf8(value).unwrap_or_default()
}

/// Returns the value of a number that is an integer; else the reason why it is none.
fn parse_integer(text: &str) -> Result<i64, &'static str> {
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
        return Err(if exponent.starts_with('-') {
            FRACTION
        } else {
            RANGE
        });
    };
    let zeros = exponent
        .saturating_sub(length(fraction))
        .saturating_add(length(&digits) - length(significant));
    match usize::try_from(zeros) {
        Err(_) => Err(FRACTION),
        // 2^63 has 19 digits.
        Ok(20..) => Err(RANGE),
        Ok(zeros) => [significant, &"0".repeat(zeros)]
            .concat()
            .parse()
            .map_err(|_| RANGE),
    }
}

#[cold]
fn too_many() -> ReadFault {
    let message = format!(
        "the request has more than {MAX_ELEMENTS} messages, parts, calls, tools and other elements"
    );
    Box::new(Refused::invalid("messages", message))
}

/// Ends the scan with a refusal.
fn stop_scan(refused: &mut Option<ReadFault>, why: ReadFault) -> Broken {
    *refused = Some(why);
    Broken {
        offset: 0,
        why: "refused",
    }
}

/// Refuses a body that is not valid JSON. The envelope has checked every body of a caller before.
#[cold]
pub(crate) fn syntax_refused(broken: Broken) -> ReadFault {
    Box::new(Refused::invalid(
        "",
        format!("the request body is not valid JSON: {}", broken.why),
    ))
}

fn utf8_name(name: Cow<'_, [u8]>) -> Name<'_> {
    match name {
        Cow::Borrowed(name) => {
            str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::Borrowed)
        }
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    }
}
