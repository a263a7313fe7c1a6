//! Any caller may send any form. However it is cut, the same is read of it; the place of a field is
//! where its value stands; and with another model in that place it is the same form.
//!
//! The first byte is the length of the reads. The first line of the rest is the content type.

#![no_main]

use std::borrow::Cow;

use dialects::front::{Front, PathRequest, form};
use dialects::wire::multipart::{FormField, FormScanner, form_boundary};
use libfuzzer_sys::fuzz_target;

/// A name of a model, which no boundary can be in.
const MODEL: &[u8] = b"up/\"1\"; n=2";

fuzz_target!(|input: &[u8]| {
    let [length, rest @ ..] = input else { return };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (kind, sent) = (&rest[..end], &rest[end + 1..]);
    let Some(Ok(boundary)) = form_boundary(kind) else {
        return;
    };
    let whole = scanned(boundary, sent, sent.len().max(1));
    assert_eq!(scanned(boundary, sent, usize::from(*length).max(1)), whole);
    assert_eq!(scanned(boundary, sent, 1), whole);
    let Ok(fields) = whole else { return };
    let lines = [b"--", boundary.as_bytes()].concat();
    assert!(sent.starts_with(&lines));
    for field in &fields {
        assert_eq!(sent.get(field.span.clone()), Some(field.value.as_slice()));
        let ends = sent[field.span.end..].starts_with(&[b"\r\n", lines.as_slice()].concat());
        assert_eq!(ends, field.is_whole);
    }
    let Ok(read) = form::read_form(
        Front::find("transcriptions").expect("a door"),
        &fields,
        &PathRequest::default(),
        sent.len(),
    ) else {
        return;
    };
    let texts: Vec<&[u8]> = read.texts.split(|byte| *byte == 0).collect();
    let there: Vec<&[u8]> = read
        .places
        .iter()
        .map(|place| &sent[place.clone()])
        .collect();
    assert_eq!(texts, there);
    let place = read.places[0].clone();
    assert_eq!(read.envelope.model.as_bytes(), &sent[place.clone()]);
    let renamed = [&sent[..place.start], MODEL, &sent[place.end..]].concat();
    let again = scanned(boundary, &renamed, renamed.len()).expect("it is a form still");
    for (before, after) in fields.iter().zip(&again) {
        let value = if before.name == "model" {
            MODEL
        } else {
            before.value.as_slice()
        };
        assert_eq!((&after.name, after.value.as_slice()), (&before.name, value));
    }
    assert_eq!(again.len(), fields.len());
});

fn scanned(
    boundary: &str,
    sent: &[u8],
    length: usize,
) -> Result<Vec<FormField>, Option<Cow<'static, str>>> {
    let mut scanner = FormScanner::new(boundary, form::form_field_reading);
    sent.chunks(length)
        .try_for_each(|piece| scanner.feed(piece))
        .map_err(|fault| fault.field)?;
    scanner.finish().map_err(|fault| fault.field)
}
