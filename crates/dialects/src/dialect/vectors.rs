//! Vectors of texts: the requests for them and the answers with them, and requests that are cut
//! into several, since a server takes only so many texts at once.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Dialect, Outbound, Recipient, Translate};
use crate::front::{Envelope, FieldNames, Front};
use crate::neutral::answer::Tally;
use crate::neutral::embedding::Embedding;
use crate::neutral::purpose::Purpose;
use crate::neutral::usage::Usage;
use crate::neutral::vector::{VectorText, convert_vector};
use crate::neutral::vectors::{Inputs, Vectors};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Refused, Request, Undo, Written};
use crate::upstream::VectorForm;
use crate::upstream::openai::find_error;
use crate::wire::json::{self, Cursor, Span};

impl Dialect {
    /// Returns the most texts whose vectors a request for this model may ask for.
    pub fn most_inputs(&self, model: &str) -> usize {
        let form = self
            .protocol
            .translation
            .and_then(|translation| translation.vectors);
        form.map_or(usize::MAX, |form| (form.max_inputs)(model))
    }

    /// Writes a request for vectors in the servers' form.
    pub(super) fn ask_vectors(
        &self,
        job: &Translate<'_>,
        path: Cow<'static, str>,
        form: &VectorForm,
    ) -> Result<Outbound, Refused> {
        let Translate {
            envelope, model, ..
        } = *job;
        let front = envelope.front;
        let Some(door) = &front.vectors else {
            return Err(Refused::unsupported(
                "model",
                "This model has only vectors of texts.",
            ));
        };
        let mut embedding = (door.read)(envelope, job.body)?;
        for (name, word) in &envelope.headers {
            let Some(purpose) = Purpose::find(word) else {
                let words = Purpose::NAMES.join(", ");
                return Err(Refused::invalid(
                    *name,
                    format!("`{name}` must be one of {words}"),
                ));
            };
            embedding.purpose.get_or_insert(purpose);
        }
        embedding.default_purpose = job.traits.input_type.map(|(purpose, _)| purpose);
        let max_inputs = (form.max_inputs)(model);
        let written = if embedding.inputs.len() > max_inputs {
            let why = format!("This model takes no more than {max_inputs} of these at once.");
            Err(Refused::unsupported(Embedding::input_field(), why))
        } else {
            (form.write)(&embedding, model)
        };
        let Written {
            body, losses, undo, ..
        } = FieldNames::new(front.field_name).in_callers_words(&Request::default(), written)?;
        let undo = Undo {
            vectors: envelope.places.inputs.clone(),
            ..undo
        };
        Ok(Outbound {
            path,
            copied: body.len(),
            body: vec![body.into()],
            headers: Vec::new(),
            losses,
            undo,
        })
    }

    /// Reads an answer with vectors. An answer without one vector for each text is a fault.
    pub(super) fn answer_vectors(
        form: &VectorForm,
        to: &Recipient<'_>,
        body: &[u8],
        passes: bool,
    ) -> Result<Answer, AnswerFault> {
        let Recipient {
            front,
            header,
            options,
        } = to;
        let asked = options.undo.vectors.clone().unwrap_or_default();
        let found = Vectors::read(body, form.places).map_err(|why| {
            find_error(body).map_or(AnswerFault::Nonsense(why), AnswerFault::Upstream)
        })?;
        let mut tally = Tally::new(header);
        tally.count(found.tokens());
        let vectors = convert_vectors(&asked, found.list())?;
        let prompt = tally.usage().prompt;
        let passed = if passes {
            found.passed(header, &vectors, prompt)
        } else {
            None
        };
        let body = match (passed, &front.vectors) {
            (Some(passed), _) => passed,
            (None, Some(door)) => (door.write)(&vectors, header, &tally),
            (None, None) => return Err(AnswerFault::Nonsense("nobody asked for vectors")),
        };
        Ok(Answer {
            body,
            usage: tally.usage(),
            ..Answer::default()
        })
    }
}

/// Returns the vectors in the form that was asked for. Fails unless there is one for each text, and
/// all have one length.
fn convert_vectors<'t>(
    asked: &Inputs,
    list: impl ExactSizeIterator<Item = &'t [u8]>,
) -> Result<Vec<VectorText<'t>>, AnswerFault> {
    if list.len() != asked.count {
        return Err(AnswerFault::Nonsense(
            "the answer has more or fewer vectors than were asked for",
        ));
    }
    let mut first = None;
    list.map(|vector| {
        let (text, length) = convert_vector(vector, asked.base64)?;
        let is_same = *first.get_or_insert(length) == length || asked.lengths_differ;
        is_same
            .then_some(text)
            .ok_or("the vectors of the answer have different lengths")
    })
    .collect::<Result<_, _>>()
    .map_err(AnswerFault::Nonsense)
}

/// The most bytes of a request that is cut, without its texts. Each slice repeats these bytes.
const MOST_BESIDE: usize = 64 << 10;

/// A request for the vectors of more texts than a server takes at once, and the places where it is
/// cut.
#[derive(Debug)]
pub struct Slices {
    body: Bytes,
    list: Span,
    max_texts: usize,
    /// The places of each slice's texts.
    texts: Vec<Span>,
}

impl Slices {
    /// Finds where a request is cut into requests of at most so many texts. Each of these has all
    /// other fields too. Returns `None` if the request has no more texts than that.
    pub fn cut(
        envelope: &Envelope,
        body: &Bytes,
        max_texts: usize,
    ) -> Result<Option<Slices>, Refused> {
        let inputs = envelope
            .places
            .inputs
            .as_ref()
            .filter(|inputs| inputs.request_count(max_texts) > 1);
        let Some(list) = inputs.and_then(|inputs| inputs.list.clone()) else {
            return Ok(None);
        };
        if body.len().saturating_sub(list.len()) > MOST_BESIDE {
            let field = (envelope.front.field_name)(&Request::default(), &Embedding::input_field());
            let why = "These are more than the model takes at once, and the fields beside them are too long to be \
                       sent several times: send fewer, or make the other fields shorter.";
            return Err(Refused::unsupported(field, why));
        }
        let mut texts: Vec<Span> = Vec::new();
        let mut part: Span = list.start + 1..list.start + 1;
        // The body was read before.
        let _read = Cursor::starting_at(body, list.start).array(|cursor, index| {
            let span = cursor.value()?;
            if index > 0 && index % max_texts.max(1) == 0 {
                texts.push(std::mem::replace(&mut part, span.clone()));
            }
            part.end = span.end;
            Ok(span)
        });
        texts.push(part);
        Ok(Some(Slices {
            body: body.clone(),
            list,
            max_texts: max_texts.max(1),
            texts,
        }))
    }

    /// Returns the number of slices.
    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// Returns the index that the first text of a slice has among all texts.
    pub fn first(&self, slice: usize) -> usize {
        slice.saturating_mul(self.max_texts)
    }

    /// Returns the size of a slice.
    pub fn size(&self, slice: usize) -> usize {
        self.parts(slice).iter().map(|part| part.len()).sum()
    }

    /// Writes a slice.
    pub fn write(&self, slice: usize) -> Bytes {
        self.parts(slice).concat().into()
    }

    fn parts(&self, slice: usize) -> [&[u8]; 5] {
        let texts = self.texts.get(slice).cloned().unwrap_or_default();
        let bytes_of = |span: Span| json::span_bytes(&self.body, &span);
        [
            bytes_of(0..self.list.start),
            b"[",
            bytes_of(texts),
            b"]",
            bytes_of(self.list.end..self.body.len()),
        ]
    }
}

/// The names of lists of texts, in the words of callers and servers.
const LISTS: [&str; 4] = ["input", "requests", "texts", "instances"];

/// Returns a text about a slice in which `input[3]` is the text's index among all texts of the
/// request. `first` is the index of the slice's first text.
pub fn in_whole(text: &str, first: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive('[') {
        let (digits, rest) = piece.split_at(piece.find(']').unwrap_or(0));
        match digits.parse::<usize>() {
            Ok(place)
                if LISTS
                    .iter()
                    .any(|list| out.strip_suffix('[').is_some_and(|out| out.ends_with(list))) =>
            {
                out.push_str(&place.saturating_add(first).to_string());
                out.push_str(rest);
            }
            Ok(_) | Err(_) => out.push_str(piece),
        }
    }
    out
}

/// Joins the answers to the slices of a request, in their order.
pub fn join_answers(
    front: &Front,
    inputs: &Inputs,
    header: &AnswerHeader,
    answers: &[Answer],
) -> Result<Answer, AnswerFault> {
    let Some(door) = &front.vectors else {
        return Err(AnswerFault::Nonsense("nobody asked for vectors"));
    };
    let read = answers
        .iter()
        .map(|answer| Vectors::read(&answer.body, door.places));
    let found = read
        .collect::<Result<Vec<_>, _>>()
        .map_err(AnswerFault::Nonsense)?;
    let list: Vec<&[u8]> = found.iter().flat_map(Vectors::list).collect();
    let vectors = convert_vectors(inputs, list.into_iter())?;
    let mut tally = Tally::new(header);
    let sum = answers
        .iter()
        .map(|answer| answer.usage)
        .fold(Usage::default(), Usage::and);
    tally.count_from_usage(&sum);
    Ok(Answer {
        body: (door.write)(&vectors, header, &tally),
        usage: sum,
        ..Answer::default()
    })
}

#[cfg(test)]
mod tests;
