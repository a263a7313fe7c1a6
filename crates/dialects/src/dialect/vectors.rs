//! Vectors of texts: the requests for them and the answers with them, and requests that are cut
//! into several, since a server takes only so many texts at once.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Dialect, Outbound, Recipient, Translate};
use crate::front::{Envelope, FieldNames, Front};
use crate::neutral::answer::Tally;
use crate::neutral::embedding::Embedding;
use crate::neutral::purpose::Purpose;
use crate::neutral::usage::{Source, Usage};
use crate::neutral::vector::{VectorText, in_form};
use crate::neutral::vectors::{Inputs, Vectors};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Flaws, Refused, Request, Undo, Written};
use crate::upstream::VectorForm;
use crate::upstream::openai::hidden;
use crate::wire::json::{Cursor, slice};

impl Dialect {
    /// Returns the most texts whose vectors a request for this model may ask for.
    pub fn most_inputs(&self, model: &str) -> usize {
        let form = self.protocol.translation.as_ref().and_then(|translation| translation.vectors);
        form.map_or(usize::MAX, |form| (form.most)(model))
    }

    /// Writes a request for vectors in the servers' form.
    pub(super) fn ask_vectors(
        &self,
        job: &Translate<'_>,
        path: Cow<'static, str>,
        form: &VectorForm,
    ) -> Result<Outbound, Refused> {
        let Translate { envelope, model, .. } = *job;
        let front = envelope.front;
        let Some(door) = &front.vectors else {
            return Err(Refused::unsupported("model", "This model has only vectors of texts."));
        };
        let mut embedding = (door.read)(envelope, job.body)?;
        for (name, word) in &envelope.headers {
            let Some(purpose) = Purpose::find(word) else {
                let words = Purpose::NAMES.join(", ");
                return Err(Refused::invalid(*name, format!("`{name}` must be one of {words}")));
            };
            embedding.purpose.get_or_insert(purpose);
        }
        embedding.usual = job.traits.input_type;
        let most = (form.most)(model);
        let written = if embedding.inputs.len() > most {
            let why = format!("This model takes no more than {most} of these at once.");
            Err(Refused::unsupported(Embedding::input_field(), why))
        } else {
            (form.write)(&embedding, model)
        };
        let Written { body, losses, undo, .. } =
            FieldNames::new(front.field_name).written(&Request::default(), written)?;
        let undo = Undo { vectors: envelope.places.inputs.clone(), ..undo };
        Ok(Outbound { path, copied: body.len(), body: vec![body.into()], headers: Vec::new(), losses, undo })
    }

    /// Reads an answer with vectors. It has one for each text, or it is none.
    pub(super) fn answer_vectors(
        form: &VectorForm,
        to: &Recipient<'_>,
        body: &[u8],
        passes: bool,
    ) -> Result<Answer, AnswerFault> {
        let Recipient { front, header, options } = to;
        let asked = options.undo.vectors.clone().unwrap_or_default();
        let nonsense = |why| hidden(body).map_or(AnswerFault::Nonsense(why), AnswerFault::Upstream);
        let found = Vectors::read(body, form.places).map_err(nonsense)?;
        let mut tally = Tally::new(header);
        tally.count(found.tokens());
        let vectors = vectors(&asked, found.list())?;
        let passed = if passes { found.passed(&header.model, &vectors) } else { None };
        let body = match (passed, &front.vectors) {
            (Some(passed), _) => passed,
            (None, Some(door)) => (door.write)(&vectors, header, &tally),
            (None, None) => return Err(AnswerFault::Nonsense("nobody asked for vectors")),
        };
        Ok(answer(body, tally.usage()))
    }
}

/// Returns the vectors in the form that was asked for, if there are as many as were asked for.
fn vectors<'t>(
    asked: &Inputs,
    list: impl ExactSizeIterator<Item = &'t [u8]>,
) -> Result<Vec<VectorText<'t>>, AnswerFault> {
    if list.len() != asked.count {
        return Err(AnswerFault::Nonsense("the answer has more or fewer vectors than were asked for"));
    }
    list.map(|vector| in_form(vector, asked.base64)).collect::<Result<_, _>>().map_err(AnswerFault::Nonsense)
}

fn answer(body: Vec<u8>, usage: Usage) -> Answer {
    Answer { body, usage, declined: false, flaws: Flaws::default() }
}

/// Cuts a request into requests of at most so many texts, which all other fields stand in too.
/// Returns `None` if it has no more.
pub fn slices(envelope: &Envelope, body: &[u8], most: usize) -> Option<Vec<Bytes>> {
    let inputs = envelope.places.inputs.as_ref().filter(|inputs| inputs.count > most)?;
    let list = inputs.list.clone()?;
    let (before, after) = (body.get(..list.start)?, body.get(list.end..)?);
    let (mut slices, mut first, mut last) = (Vec::new(), list.start + 1, list.start + 1);
    let mut cut =
        |from: usize, to: usize| slices.push([before, b"[", slice(body, &(from..to)), b"]", after].concat().into());
    // The body was read before.
    let _read = Cursor::starting_at(body, list.start).array(|cursor, index| {
        let span = cursor.value()?;
        if index > 0 && index % most.max(1) == 0 {
            cut(first, last);
            first = span.start;
        }
        last = span.end;
        Ok(span)
    });
    cut(first, last);
    Some(slices)
}

/// Joins the answers to the slices of a request, in their order.
pub fn join(front: &Front, inputs: &Inputs, header: &AnswerHeader, answers: &[Answer]) -> Result<Answer, AnswerFault> {
    let Some(door) = &front.vectors else { return Err(AnswerFault::Nonsense("nobody asked for vectors")) };
    let read = answers.iter().map(|answer| Vectors::read(&answer.body, door.places));
    let found = read.collect::<Result<Vec<_>, _>>().map_err(AnswerFault::Nonsense)?;
    let list: Vec<&[u8]> = found.iter().flat_map(Vectors::list).collect();
    let vectors = vectors(inputs, list.into_iter())?;
    let mut tally = Tally::new(header);
    let sum = answers.iter().map(|answer| answer.usage).reduce(|sum, usage| Usage {
        prompt: sum.prompt.saturating_add(usage.prompt),
        source: if usage.source == Source::Reported { sum.source } else { usage.source },
        doubted: sum.doubted.or(usage.doubted),
        ..sum
    });
    tally.count_again(&sum.unwrap_or_default());
    Ok(answer((door.write)(&vectors, header, &tally), sum.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
