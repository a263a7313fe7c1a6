//! A plain answer is a whole answer that is standard already: nothing of it changes but the model's
//! name. Most answers are plain. One scan reads them.
//!
//! An answer that may have to change, or to be refused, is left to
//! [`of_any_form`](super::answer::of_any_form), whose result for a plain answer is identical.

use super::meter::Counts;
use super::names::{REASONING, REASONING_CONTENT};
use super::number_literal;
use super::scan::MAX_CHOICES;
use crate::neutral::price::ShowCost;
use crate::neutral::{Answer, AnswerHeader, EndReasons, Finish, Flaws, Labels};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{Broken, Cursor, Kind, ScanResult, Span, put_text, span_bytes};

/// The longest id that is taken for one.
const MAX_ID: usize = 256;
/// The most digits of a time. So many fit into 64 bits.
const MAX_TIME: usize = 19;

/// The reason why a scan ends: the answer is not plain.
const NOT_PLAIN: Broken = Broken {
    offset: 0,
    why: "the answer is not plain",
};

/// Reads a whole answer, as [`of_any_form`](super::answer::of_any_form) does. Returns `None` if it
/// is not plain.
pub(super) fn read_plain_answer(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    text: &[u8],
) -> Option<Answer> {
    if header.wants_json || header.cost != ShowCost::No {
        return None;
    }
    let Plain {
        model,
        id,
        tier,
        counts,
        reasons,
        ..
    } = Plain {
        show_reasoning,
        ..Plain::default()
    }
    .read(text)?;
    let counts = counts.filter(Counts::are_believed)?;
    // Counts that report the usage are all there. No count is estimated from the text.
    let usage = counts.settle(quirks, header.prompt_bytes, 0);
    if !counts.match_usage(&usage) {
        return None;
    }
    let mut body = Vec::with_capacity(text.len() + header.model.len() + 2);
    body.extend_from_slice(span_bytes(text, &(0..model.start)));
    put_text(&mut body, "", &header.model);
    body.extend_from_slice(span_bytes(text, &(model.end..text.len())));
    let labels = header.wants_labels.then(|| {
        let [id, model, tier] = [&id, &model, &tier].map(|span| span_bytes(text, span));
        Box::new(Labels::of_values(id, model, tier))
    });
    Some(Answer {
        body,
        usage,
        declined: false,
        flaws: Flaws::default(),
        reasons,
        labels,
    })
}

/// The facts of a plain answer that the scan has met so far.
#[derive(Default)]
struct Plain {
    show_reasoning: bool,
    met: SeenMembers,
    id: Span,
    model: Span,
    tier: Span,
    counts: Option<Counts>,
    reasons: EndReasons,
}

/// The members of an object that were met: one bit for each.
#[derive(Default)]
struct SeenMembers(u8);

impl SeenMembers {
    /// Notes a member. A plain answer has none twice.
    fn see_once(&mut self, member: u8) -> ScanResult<()> {
        let is_new = self.0 & member == 0;
        self.0 |= member;
        plain_if(is_new)
    }

    /// Checks that all of these members were met.
    fn saw_all(&self, members: u8) -> ScanResult<()> {
        plain_if(self.0 & members == members)
    }
}

impl Plain {
    /// Reads a plain answer.
    fn read(mut self, text: &[u8]) -> Option<Plain> {
        let mut cursor = Cursor::new(text);
        cursor
            .object(|cursor, key| self.member(cursor, &key))
            .ok()?;
        cursor.end().ok()?;
        self.met.saw_all(0b11_1111).ok()?;
        Some(self)
    }

    /// Consumes the value of a member of the answer.
    fn member(&mut self, cursor: &mut Cursor<'_>, key: &Span) -> ScanResult<()> {
        let text = cursor.text();
        match span_bytes(text, key) {
            br#""id""# => {
                self.met.see_once(0b1)?;
                self.id = cursor.value()?;
                let id = span_bytes(text, &self.id);
                plain_if(id.starts_with(b"\"") && (3..=MAX_ID).contains(&id.len()))
            }
            br#""object""# => {
                self.met.see_once(0b10)?;
                expect_one_of(cursor, &[br#""chat.completion""#])
            }
            br#""created""# => {
                self.met.see_once(0b100)?;
                let time = span_bytes(text, &cursor.value()?);
                plain_if(
                    time.len() <= MAX_TIME && time != b"0" && time.iter().all(u8::is_ascii_digit),
                )
            }
            br#""model""# => {
                self.met.see_once(0b1000)?;
                self.model = cursor.value()?;
                Ok(())
            }
            br#""choices""# => {
                self.met.see_once(0b1_0000)?;
                let mut choices = 0;
                cursor.array(|cursor, list_index| {
                    choices += 1;
                    self.choice(cursor, list_index)
                })?;
                plain_if((1..=MAX_CHOICES).contains(&choices))
            }
            br#""usage""# => {
                self.met.see_once(0b10_0000)?;
                self.counts = Counts::next(cursor)?;
                Ok(())
            }
            br#""service_tier""# => {
                self.met.see_once(0b100_0000)?;
                self.tier = cursor.value()?;
                Ok(())
            }
            br#""error""# | br#""x_groq""# => Err(NOT_PLAIN),
            _ => cursor.skip(),
        }
    }

    /// Consumes an entry of `choices`.
    fn choice(&mut self, cursor: &mut Cursor<'_>, list_index: usize) -> ScanResult<()> {
        let text = cursor.text();
        let mut met = SeenMembers::default();
        cursor.object(|cursor, key| match span_bytes(text, &key) {
            br#""index""# => {
                met.see_once(0b1)?;
                expect_one_of(cursor, &[&number_literal(list_index)])
            }
            br#""message""# => {
                met.see_once(0b10)?;
                self.message(cursor)
            }
            br#""finish_reason""# => {
                met.see_once(0b100)?;
                self.reasons
                    .add_finish(match span_bytes(text, &cursor.value()?) {
                        br#""stop""# => Finish::Stop,
                        br#""length""# => Finish::Length,
                        _ => return Err(NOT_PLAIN),
                    });
                Ok(())
            }
            br#""logprobs""# => expect_one_of(cursor, &[b"null"]),
            br#""delta""# | br#""usage""# | br#""error""# | br#""native_finish_reason""# => {
                Err(NOT_PLAIN)
            }
            _ => cursor.skip(),
        })?;
        met.saw_all(0b111)
    }

    /// Consumes a message. It has a text, and nothing else that is not empty.
    fn message(&self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        let text = cursor.text();
        let mut met = SeenMembers::default();
        cursor.object(|cursor, key| match span_bytes(text, &key) {
            br#""role""# => {
                met.see_once(0b1)?;
                expect_one_of(cursor, &[br#""assistant""#])
            }
            br#""content""# => {
                met.see_once(0b10)?;
                cursor.string_literal().map(drop)
            }
            REASONING_CONTENT if self.show_reasoning && cursor.kind()? == Kind::String => {
                met.see_once(0b100)?;
                cursor.skip()
            }
            REASONING_CONTENT | REASONING if self.show_reasoning => {
                expect_one_of(cursor, &[b"null"])
            }
            br#""annotations""# => cursor.skip(),
            br#""refusal""# | br#""audio""# | br#""function_call""# | br#""tool_calls""# => {
                expect_one_of(cursor, &[b"null", b"[]"])
            }
            _ => Err(NOT_PLAIN),
        })?;
        met.saw_all(0b11)
    }
}

/// Consumes a value, which must be one of these.
fn expect_one_of(cursor: &mut Cursor<'_>, plain: &[&[u8]]) -> ScanResult<()> {
    let value = cursor.value()?;
    plain_if(plain.contains(&span_bytes(cursor.text(), &value)))
}

fn plain_if(is_plain: bool) -> ScanResult<()> {
    if is_plain { Ok(()) } else { Err(NOT_PLAIN) }
}

#[cfg(test)]
mod tests;
