//! From claims to a caller: [`Rules`] say which tokens of an issuer are taken, whose they are, and
//! to which caller they belong.
//!
//! A refusal has two texts. The one for the caller names the claim, and never a value that would be
//! accepted. The one for the operator names what was seen and what was wanted.
//!
//! **Invariant:** what the rules do not understand is refused: a claim of another type than it must
//! have, a time that is no time, groups that are not all there.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::identity::json::Members;
use crate::identity::subject::Subject;
use crate::identity::token::{Claims, is_same_type};

/// How far the clocks of issuer and gateway may differ, in seconds.
pub const LEEWAY: u64 = 60;
/// The last second of the year 9999: what is later is no time.
const MAX_TIME: u64 = 253_402_300_799;

/// Which tokens of an issuer are taken, and as whose.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// What `iss` must be, exactly.
    pub issuer: Arc<str>,
    /// What `aud` must be, or have in its list.
    pub audience: Arc<str>,
    /// What the header's `typ` must be, if that matters.
    pub declared_type: Option<String>,
    /// Where the subject is: what names a person or a machine.
    pub subject: ClaimPath,
    /// Which caller a token belongs to.
    pub callers: CallerRule,
    /// Claims that must be there with this value.
    pub require: Vec<(ClaimPath, RequiredValue)>,
    /// Subjects that are refused, whatever else holds. Case does not count: a denied person must
    /// not come back in capital letters.
    pub deny: Vec<String>,
    /// The longest time from a token's making to its end.
    pub max_age: Duration,
}

/// The way to a claim: its name, or the names of the objects that it is in, and then its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath {
    first: String,
    others: Vec<String>,
}

/// The value that a claim must have, as it is written: a text, a number, `true` or `false`. Some
/// issuers write `"true"` where others write `true`: both are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredValue(pub String);

impl RequiredValue {
    /// Returns whether a claim has this value.
    fn is(&self, seen: &Value) -> bool {
        match seen {
            Value::String(text) => *text == self.0,
            Value::Bool(truth) => self.0 == if *truth { "true" } else { "false" },
            Value::Number(number) => self.0 == *number.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

/// Which caller a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerRule {
    /// The same for all tokens.
    One(Arc<str>),
    /// By what a claim says.
    ByClaim(ClaimRule),
}

/// Which caller a token belongs to, by what a claim says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRule {
    /// The claim: a text, or a list of texts.
    pub claim: ClaimPath,
    /// Whether a text has several values, with spaces between them.
    pub splits_at_spaces: bool,
    /// Values, each with its caller, in the written order.
    pub map: Vec<(String, Arc<str>)>,
    /// The caller of tokens for which no value of the map is there (`"*"`).
    pub others: Option<Arc<str>>,
    /// What becomes of tokens for which values of several callers are there.
    pub several: Several,
}

/// What becomes of tokens that belong to several callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Several {
    /// The first caller in the order of the map.
    #[default]
    First,
    /// They are refused.
    Refuse,
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Who has it.
    pub subject: Subject,
    /// The caller that the subject belongs to.
    pub caller: Arc<str>,
    /// The second since 1970 from which on the token is refused.
    pub expires_at: u64,
}

/// Why a genuine token is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// `iss` is another.
    Issuer(Difference),
    /// `aud` is another.
    Audience(Difference),
    /// The header's `typ` is another.
    DeclaredType(Difference),
    /// A time is missing, or is no number that can be a time.
    NoTime(&'static str),
    /// It has ended.
    Expired(Difference),
    /// Its time has not begun (`nbf`), or it was made in the future (`iat`).
    NotYet(&'static str, Difference),
    /// It lives longer than is allowed.
    TooLong(Difference),
    /// The claim of the subject is missing, or is no text that can be a subject.
    NoSubject(ClaimPath),
    /// The subject is denied.
    Denied(ClaimPath, Difference),
    /// A required claim is missing or another.
    Required(ClaimPath, Difference),
    /// The token says that the claim is not all there.
    LeftOut(ClaimPath),
    /// The claim of the caller is neither a text nor a list of texts.
    NoTexts(ClaimPath, Difference),
    /// No value of the claim has a caller.
    NoCaller(ClaimPath, Difference),
    /// The claim has values of several callers.
    SeveralCallers(ClaimPath, Difference),
}

/// What was seen, and what was wanted: for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The value of the token; shortened.
    pub seen: String,
    /// The value that would be accepted; shortened.
    pub wanted: String,
}

impl Rules {
    /// Describes the rules, each by the name of its setting.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let mut required: Vec<String> = Vec::new();
        for (path, value) in &self.require {
            required.push(format!("{path}: {}", value.0));
        }
        let callers = match &self.callers {
            CallerRule::One(caller) => caller.to_string(),
            CallerRule::ByClaim(rule) => {
                let rows = rule
                    .map
                    .iter()
                    .map(|(value, caller)| (value.as_str(), caller));
                let others = rule.others.iter().map(|caller| ("*", caller));
                let rows = rows
                    .chain(others)
                    .map(|(value, caller)| format!("{value} → {caller}"));
                let rows = rows.collect::<Vec<_>>().join(", ");
                format!("{} ({:?}): {rows}", rule.claim, rule.several)
            }
        };
        let settings = [
            ("issuer", self.issuer.to_string()),
            ("audience", self.audience.to_string()),
            ("typ", self.declared_type.clone().unwrap_or_default()),
            ("subject", self.subject.to_string()),
            ("callers", callers),
            ("require", required.join(", ")),
            ("deny", self.deny.join(", ")),
            ("max_age", format!("{:?}", self.max_age)),
        ];
        let written = settings.into_iter().filter(|(_, value)| !value.is_empty());
        written.collect()
    }

    /// Decides whose a token is. `now` is in seconds since 1970. The claims must be verified.
    pub fn accept(&self, claims: &Claims, now: u64) -> Result<Accepted, Refused> {
        let members = &claims.members;
        self.check_addressee(claims)?;
        let expires_at = self.check_times(members, now)?;
        let subject = self.find_subject(members)?;
        for (path, wanted) in &self.require {
            let seen = path.find(members);
            if !seen.is_some_and(|seen| wanted.is(seen)) {
                let wanted = show_value(&Value::String(wanted.0.clone()));
                let difference = Difference::new(seen, &wanted);
                return Err(Refused::Required(path.clone(), difference));
            }
        }
        let caller = match &self.callers {
            CallerRule::One(caller) => caller.clone(),
            CallerRule::ByClaim(rule) => rule.find_caller(members)?,
        };
        Ok(Accepted {
            subject,
            caller,
            expires_at,
        })
    }

    /// Requires that the token is of this issuer, for this gateway, and of the right type.
    fn check_addressee(&self, claims: &Claims) -> Result<(), Refused> {
        let members = &claims.members;
        let issuer = members.get("iss");
        if issuer.and_then(Value::as_str) != Some(&*self.issuer) {
            return Err(Refused::Issuer(Difference::new(issuer, &self.issuer)));
        }
        let audience = members.get("aud");
        let is_audience = |value: &Value| value.as_str() == Some(&*self.audience);
        let is_for_us = match audience {
            Some(Value::Array(list)) => list.iter().any(is_audience),
            Some(value) => is_audience(value),
            None => false,
        };
        if !is_for_us {
            return Err(Refused::Audience(Difference::new(audience, &self.audience)));
        }
        if let Some(wanted) = &self.declared_type
            && !matches!(&claims.declared_type, Some(seen) if is_same_type(seen, wanted))
        {
            let seen = claims.declared_type.clone().map(Value::String);
            return Err(Refused::DeclaredType(Difference::new(
                seen.as_ref(),
                wanted,
            )));
        }
        Ok(())
    }

    /// Requires that the token is valid now, and not for too long. Returns when it ends.
    fn check_times(&self, members: &Members, now: u64) -> Result<u64, Refused> {
        let expiry = read_time(members, "exp")?.ok_or(Refused::NoTime("exp"))?;
        let expires_at = expiry.saturating_add(LEEWAY);
        if now >= expires_at {
            return Err(Refused::Expired(Difference::of_times(expiry, now)));
        }
        let made = read_time(members, "iat")?;
        let begins = read_time(members, "nbf")?;
        for (name, time) in [("nbf", begins), ("iat", made)] {
            if let Some(time) = time.filter(|time| *time > now.saturating_add(LEEWAY)) {
                return Err(Refused::NotYet(name, Difference::of_times(time, now)));
            }
        }
        let age = expiry.saturating_sub(made.unwrap_or(now));
        if age > self.max_age.as_secs() {
            return Err(Refused::TooLong(Difference {
                seen: format!("{age} s"),
                wanted: format!("at most {} s", self.max_age.as_secs()),
            }));
        }
        Ok(expires_at)
    }

    fn find_subject(&self, members: &Members) -> Result<Subject, Refused> {
        let written = self.subject.find(members).and_then(Value::as_str);
        let subject = written.and_then(Subject::new);
        let subject = subject.ok_or_else(|| Refused::NoSubject(self.subject.clone()))?;
        let name = subject.text().to_lowercase();
        match self.deny.iter().any(|denied| denied.to_lowercase() == name) {
            true => {
                let difference = Difference {
                    seen: show_text(subject.text()),
                    wanted: "a subject that is not in `deny`".to_owned(),
                };
                Err(Refused::Denied(self.subject.clone(), difference))
            }
            false => Ok(subject),
        }
    }
}

impl ClaimRule {
    fn find_caller(&self, members: &Members) -> Result<Arc<str>, Refused> {
        if self.claim.is_left_out(members) {
            return Err(Refused::LeftOut(self.claim.clone()));
        }
        let claim = self.claim.find(members);
        let Some(values) = self.read_values(claim) else {
            let difference = Difference::new(claim, "a text or a list of texts");
            return Err(Refused::NoTexts(self.claim.clone(), difference));
        };
        let mut matching = self
            .map
            .iter()
            .filter(|(value, _)| values.contains(&value.as_str()))
            .map(|(_, caller)| caller);
        let Some(first) = matching.next().or(self.others.as_ref()) else {
            let difference = Difference::new(claim, &self.show_map());
            return Err(Refused::NoCaller(self.claim.clone(), difference));
        };
        match self.several {
            Several::Refuse if matching.any(|caller| caller != first) => {
                let difference = Difference::new(claim, "values of one caller only");
                Err(Refused::SeveralCallers(self.claim.clone(), difference))
            }
            Several::First | Several::Refuse => Ok(first.clone()),
        }
    }

    /// Returns the values of the claim: none if it is not there. `None` if it has another type.
    fn read_values<'c>(&self, claim: Option<&'c Value>) -> Option<Vec<&'c str>> {
        match claim {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(text)) if self.splits_at_spaces => {
                Some(text.split(' ').filter(|word| !word.is_empty()).collect())
            }
            Some(Value::String(text)) => Some(vec![text]),
            Some(Value::Array(list)) => list.iter().map(Value::as_str).collect(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
        }
    }

    fn show_map(&self) -> String {
        let values = self.map.iter().map(|(value, _)| value.as_str());
        let values: Vec<_> = values.take(20).collect();
        format!("one of {}", show_text(&values.join(", ")))
    }
}

impl ClaimPath {
    /// Makes the path to a claim at the top. A dot in its name is a part of the name.
    pub fn name(name: impl Into<String>) -> Self {
        Self {
            first: name.into(),
            others: Vec::new(),
        }
    }

    /// Makes a path of steps. Without any step there is none.
    pub fn from_steps(steps: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut steps = steps.into_iter();
        Some(Self {
            first: steps.next()?,
            others: steps.collect(),
        })
    }

    /// Finds the claim.
    pub fn find<'c>(&self, members: &'c Members) -> Option<&'c Value> {
        let first = members.get(&self.first)?;
        self.others
            .iter()
            .try_fold(first, |value, step| value.as_object()?.get(step))
    }

    /// Returns whether the token says that the claim is not all there. Entra does so for people who
    /// are in many groups.
    fn is_left_out(&self, members: &Members) -> bool {
        let has_groups = match members.get("hasgroups") {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) => self.first == "groups",
        };
        let names = members.get("_claim_names");
        let is_named = match names {
            None | Some(Value::Null) => false,
            Some(Value::Object(names)) => names.contains_key(&self.first),
            // It is there, and cannot be read: nothing says that the claim is whole.
            Some(_) => true,
        };
        has_groups || is_named
    }
}

/// Reads a time: a number of seconds since 1970, perhaps with decimals (RFC 7519 §2).
fn read_time(members: &Members, name: &'static str) -> Result<Option<u64>, Refused> {
    let number = match members.get(name) {
        None => return Ok(None),
        Some(Value::Number(number)) => number,
        Some(_) => return Err(Refused::NoTime(name)),
    };
    let seconds = number.as_u64().or_else(|| whole_seconds(number.as_f64()?));
    match seconds.filter(|seconds| *seconds <= MAX_TIME) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(Refused::NoTime(name)),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "it is in the range, and a part of a second is cut off"
)]
fn whole_seconds(seconds: f64) -> Option<u64> {
    let is_time = seconds.is_sign_positive() && seconds <= MAX_TIME as f64;
    is_time.then_some(seconds as u64)
}

impl Refused {
    /// Returns a word for counts and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Refused::Issuer(_) => "issuer",
            Refused::Audience(_) => "audience",
            Refused::DeclaredType(_) => "type",
            Refused::NoTime(_) => "time",
            Refused::Expired(_) => "expired",
            Refused::NotYet(..) => "not_yet",
            Refused::TooLong(_) => "max_age",
            Refused::NoSubject(_) => "subject",
            Refused::Denied(..) => "denied",
            Refused::Required(..) => "required_claim",
            Refused::LeftOut(_) => "groups_left_out",
            Refused::NoTexts(..) | Refused::NoCaller(..) => "no_caller",
            Refused::SeveralCallers(..) => "several_callers",
        }
    }

    /// Writes what was seen and what was wanted, for the operator.
    pub fn operator_text(&self) -> String {
        match self.difference() {
            Some(Difference { seen, wanted }) => format!("{self}: it is {seen}, wanted: {wanted}"),
            None => self.to_string(),
        }
    }

    fn difference(&self) -> Option<&Difference> {
        match self {
            Refused::Issuer(difference)
            | Refused::Audience(difference)
            | Refused::DeclaredType(difference)
            | Refused::Expired(difference)
            | Refused::NotYet(_, difference)
            | Refused::TooLong(difference)
            | Refused::Denied(_, difference)
            | Refused::Required(_, difference)
            | Refused::NoTexts(_, difference)
            | Refused::NoCaller(_, difference)
            | Refused::SeveralCallers(_, difference) => Some(difference),
            Refused::NoTime(_) | Refused::NoSubject(_) | Refused::LeftOut(_) => None,
        }
    }
}

impl Difference {
    fn new(seen: Option<&Value>, wanted: &str) -> Self {
        Self {
            seen: seen.map_or_else(|| "not there".to_owned(), show_value),
            wanted: show_text(wanted),
        }
    }

    fn of_times(time: u64, now: u64) -> Self {
        Self {
            seen: time.to_string(),
            wanted: format!("now it is {now}"),
        }
    }
}

/// Writes a value for the operator.
fn show_value(value: &Value) -> String {
    show_text(&value.to_string())
}

/// Shortens a text, and masks what would not stay on its line.
fn show_text(text: &str) -> String {
    const LIMIT: usize = 100;
    let masked = text.chars().map(|c| match c {
        c if c.is_control() || is_format_mark(c) => '\u{fffd}',
        c => c,
    });
    let mut shown: String = masked.take(LIMIT).collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns whether a character changes how others are shown, or ends a line.
fn is_format_mark(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first)?;
        self.others.iter().try_for_each(|step| write!(f, ".{step}"))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Issuer(_) => f.write_str("the claim `iss` is not accepted here"),
            Refused::Audience(_) => f.write_str("the claim `aud` does not name this gateway"),
            Refused::DeclaredType(_) => f.write_str("the `typ` of the header is not accepted here"),
            Refused::NoTime(claim) => write!(f, "the claim `{claim}` is no time"),
            Refused::Expired(_) => f.write_str("the token has ended (claim `exp`)"),
            Refused::NotYet(claim, _) => {
                write!(f, "the token is not valid yet (claim `{claim}`)")
            }
            Refused::TooLong(_) => {
                f.write_str("the token is valid for too long (claims `exp` and `iat`)")
            }
            Refused::NoSubject(claim) => write!(
                f,
                "the claim `{claim}` is no text of 1 to 255 bytes without control characters"
            ),
            Refused::Denied(claim, _) => write!(f, "the claim `{claim}` is denied here"),
            Refused::Required(claim, _) => {
                write!(f, "the claim `{claim}` is not what is required here")
            }
            Refused::LeftOut(claim) => write!(
                f,
                "the token says that the claim `{claim}` is not complete (`hasgroups` or \
                 `_claim_names`): its issuer must write all of it"
            ),
            Refused::NoTexts(claim, _) => {
                write!(
                    f,
                    "the claim `{claim}` is neither a text nor a list of texts"
                )
            }
            Refused::NoCaller(claim, _) => write!(f, "the claim `{claim}` gives no access here"),
            Refused::SeveralCallers(claim, _) => {
                write!(f, "the claim `{claim}` belongs to several callers here")
            }
        }
    }
}

#[cfg(test)]
mod tests;
