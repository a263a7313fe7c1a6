//! The reading of forms. Files, and all fields that name no model, file or URL, are left to the
//! account's server.

use super::named::{Finder, field_reading};
use super::{Envelope, Fault, Front, PathRequest};
use crate::neutral::usage::Units;
use crate::neutral::{Endpoint, EndpointAnswer};
use crate::wire::json::Span;
use crate::wire::multipart::{FieldReading, FormFault, FormField, FormScanner};
use crate::wire::shorten_text;

/// The fields that are read in any case.
const FIELDS: [&str; 6] = ["model", "n", "file_id", "file_url", "image_url", "url"];
/// The names of these fields that refer to files or URLs elsewhere, in the words of several
/// servers.
const REFERENCES: [&str; 4] = ["file_id", "file_url", "image_url", "url"];

/// Returns how much of a field of this name is read.
pub fn form_field_reading(name: &str) -> FieldReading {
    // Some servers read `name[]`, ` name` and `Name` as `name`.
    let plain = name.split('[').next().unwrap_or_default().trim();
    let known = FIELDS
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(plain));
    known.map_or_else(|| field_reading(name), FieldReading::Once)
}

/// The parts of a form that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormRead {
    /// The envelope. Its places are offsets in `texts`.
    pub envelope: Envelope,
    /// The texts that may change on the way: the name of the model, and all texts that may name
    /// other models. A NUL stands between them, and none contains one.
    pub texts: Vec<u8>,
    /// The place of each of these texts in the form. A place is empty if the form does not name the
    /// model.
    pub places: Vec<Span>,
    /// True if the form names the model.
    pub names_model: bool,
}

impl Front {
    /// Returns whether requests are forms, which may have large files.
    pub fn is_form(&self) -> bool {
        self.only_endpoint.is_some_and(Endpoint::takes_forms)
    }

    /// Returns whether an answer may be other than JSON: it then passes as it comes.
    pub fn gives_bytes(&self) -> bool {
        self.only_endpoint.is_some_and(Endpoint::gives_bytes)
    }

    /// Returns whether an answer may be a stream.
    pub(super) fn streams(&self) -> bool {
        self.gives_bytes() || self.only_endpoint.is_none_or(Endpoint::writes)
    }
}

/// The bytes of a millisecond of sound, by which its length is estimated: 128 kbit a second.
const BYTES_A_MILLISECOND: usize = 16;

/// Reads the envelope of a form. `asked` is the request's path, and `length` is the form's length.
pub fn read_form(
    front: &'static Front,
    fields: &[FormField],
    asked: &PathRequest,
    length: usize,
) -> Result<FormRead, Fault> {
    if let Some(field) = fields
        .iter()
        .find(|field| REFERENCES.contains(&&*field.name))
    {
        let message = format!(
            "`{}` refers to something elsewhere: send the file itself",
            field.name
        );
        return Err(Fault::of_field(
            field.name.clone(),
            "unsupported_parameter",
            message,
        ));
    }
    let model_field = known_field(fields, "model");
    let model = form_model(model_field, asked)?;
    let choices = form_choices(known_field(fields, "n"))?;
    use EndpointAnswer::*;
    let answer = front.only_endpoint.map(|endpoint| endpoint.facts().answer);
    let units = match answer {
        Some(Pictures) => Units {
            images: u32::try_from(choices).unwrap_or(u32::MAX),
            ..Units::NONE
        },
        None | Some(Message | Choices | Vectors | Results | Sound | Transcript) => Units {
            millis: u32::try_from(length / BYTES_A_MILLISECOND).unwrap_or(u32::MAX),
            ..Units::NONE
        },
    };
    let mut envelope = Envelope {
        model,
        units,
        ..Envelope::new(front)
    };
    envelope.choices.set_shown(choices);
    let texts = model_field
        .map(|field| field.value.clone())
        .unwrap_or_default();
    envelope.places.model = 0..texts.len();
    let places = vec![model_field.map_or(0..0, |field| field.span.clone())];
    let mut read = FormRead {
        envelope,
        texts,
        places,
        names_model: model_field.is_some(),
    };
    read.find_names(fields)?;
    Ok(read)
}

fn known_field<'f>(fields: &'f [FormField], name: &'static str) -> Option<&'f FormField> {
    let reading = FieldReading::Once(name);
    fields.iter().find(|field| field.reading == reading)
}

/// Returns the name of the model, from the form or from the path.
fn form_model(field: Option<&FormField>, asked: &PathRequest) -> Result<String, Fault> {
    let text = field.map(|field| {
        str::from_utf8(&field.value)
            .ok()
            .filter(|text| !text.contains('\0'))
    });
    match (text, &asked.model) {
        (Some(Some(model)), Some(named)) if named != model => Err(Fault::of_value(
            "model",
            "`model` is another one than the path names",
        )),
        (Some(Some(model)), _) => Ok(model.to_owned()),
        (Some(None), _) => Err(Fault::of_value(
            "model",
            "`model` must be UTF-8, without NUL",
        )),
        (None, Some(named)) => Ok(named.clone()),
        (None, None) => Err(Fault::missing("model")),
    }
}

/// Returns the number of answers. It decides the price, so it is never guessed.
fn form_choices(field: Option<&FormField>) -> Result<u64, Fault> {
    let Some(field) = field else { return Ok(1) };
    let number = str::from_utf8(&field.value)
        .ok()
        .and_then(|n| n.trim().parse().ok());
    number
        .filter(|n| *n > 0)
        .ok_or_else(|| Fault::of_value("n", "`n` must be a whole number, and at least 1"))
}

impl FormRead {
    /// Finds the other models, files and URLs that the fields name. Their texts come after the
    /// model's own name, whatever their order in the form.
    fn find_names(&mut self, fields: &[FormField]) -> Result<(), Fault> {
        let mut finder = Finder::default();
        for field in fields
            .iter()
            .filter(|field| !matches!(field.reading, FieldReading::Once(_)))
        {
            let (end, named) = (self.texts.len(), finder.found.len());
            self.texts.push(0);
            self.texts.extend_from_slice(&field.value);
            let span = end + 1..self.texts.len();
            finder
                .form_field(field, &self.texts, span)
                .map_err(|why| fault_of_field(&field.name, why))?;
            if finder.found.len() > named {
                self.places.push(field.span.clone());
            } else {
                self.texts.truncate(end);
            }
        }
        if finder.is_full {
            return Err(Fault::too_many_names());
        }
        self.envelope.named = finder.found;
        Ok(())
    }

    /// Returns the envelope with the places in the form itself.
    fn in_form(self) -> Envelope {
        let FormRead {
            mut envelope,
            texts,
            places,
            ..
        } = self;
        let mut start = 0;
        for (text, form_span) in texts.split(|byte| *byte == 0).zip(places) {
            let span = start..start + text.len();
            if start == 0 {
                envelope.places.model = form_span.clone();
            }
            for named in envelope
                .named
                .iter_mut()
                .filter(|named| named.span.start > 0 && span.contains(&named.span.start))
            {
                named.span = named.span.start - start + form_span.start
                    ..named.span.end - start + form_span.start;
            }
            start = span.end + 1;
        }
        envelope
    }
}

/// Reads a form that is there as a whole, with the boundary of its first line.
pub(super) fn read_whole_form(front: &'static Front, body: &[u8]) -> Result<Envelope, Fault> {
    let line = body
        .split(|byte| *byte == b'\r')
        .next()
        .and_then(|line| line.strip_prefix(b"--"));
    let boundary = line
        .and_then(|line| str::from_utf8(line).ok())
        .filter(|line| !line.is_empty());
    let mut scanner = FormScanner::new(
        boundary.ok_or_else(|| broken_form("does not begin with a boundary"))?,
        form_field_reading,
    );
    scanner.feed(body).map_err(form_fault)?;
    let read = read_form(
        front,
        &scanner.finish().map_err(form_fault)?,
        &PathRequest::default(),
        body.len(),
    )?;
    Ok(read.in_form())
}

/// Returns the fault of a form that cannot be read.
pub fn form_fault(fault: FormFault) -> Fault {
    match fault.field {
        Some(field) => fault_of_field(&field, fault.why),
        None => broken_form(fault.why),
    }
}

fn fault_of_field(field: &str, why: &str) -> Fault {
    let field = shorten_text(field, SHOWN);
    let message = format!("`{field}` {why}");
    Fault::of_field(field, "invalid_value", message)
}

/// The most letters of a field's name that are shown.
const SHOWN: usize = 40;

/// Returns the fault of a form that is none.
pub fn broken_form(why: &str) -> Fault {
    Fault::of_body(format!("the form {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, value: &str, start: usize) -> FormField {
        let (reading, place) = (FieldReading::Once(name), start..start + value.len());
        FormField {
            name: name.into(),
            reading,
            value: value.into(),
            span: place,
            is_whole: true,
        }
    }

    fn read(
        fields: Vec<FormField>,
        model: Option<&str>,
    ) -> Result<(Envelope, Option<Span>), Fault> {
        let asked = PathRequest {
            model: model.map(str::to_owned),
            stream: false,
        };
        let read = super::read_form(
            Front::find("transcriptions").unwrap(),
            &fields,
            &asked,
            32_000,
        )?;
        let place = read.places.first().cloned().filter(|_| read.names_model);
        Ok((read.envelope, place))
    }

    #[test]
    fn the_model_is_named_by_form_or_path() {
        let (read_of_form, place) = read(
            vec![field("n", "3", 5), field("model", "whisper-1", 40)],
            None,
        )
        .unwrap();
        assert_eq!(
            (&*read_of_form.model, read_of_form.choices.shown, place),
            ("whisper-1", 3, Some(40..49))
        );
        assert_eq!(
            read_of_form.places.model,
            0..9,
            "the body that passes is the name alone"
        );
        assert_eq!(
            read_of_form.units,
            Units {
                millis: 2_000,
                ..Units::NONE
            },
            "an estimate"
        );
        let fields = [field("model", "m", 1), field("n", "3", 9)];
        let changed = super::read_form(
            Front::find("image_edits").unwrap(),
            &fields,
            &PathRequest::default(),
            9,
        )
        .unwrap();
        assert_eq!(
            changed.envelope.units,
            Units {
                images: 3,
                ..Units::NONE
            }
        );
        let (of_path, place) = read(vec![field("n", " 1", 5)], Some("m")).unwrap();
        assert_eq!(
            (
                &*of_path.model,
                of_path.choices.shown,
                place,
                of_path.places.model
            ),
            ("m", 1, None, 0..0)
        );
        assert_eq!(
            read(vec![field("model", "m", 4)], Some("m")).unwrap().1,
            Some(4..5)
        );
        let fault = |fields, model| read(fields, model).unwrap_err();
        for odd in ["", "0", "-1", "4.0", "4\0", "x"] {
            assert_eq!(
                fault(vec![field("n", odd, 5)], Some("m")).param.as_deref(),
                Some("n"),
                "{odd}"
            );
        }
        assert_eq!(fault(vec![], None).code, Some("missing_required_parameter"));
        assert_eq!(
            fault(vec![field("model", "other", 4)], Some("m"))
                .param
                .as_deref(),
            Some("model")
        );
        let broken = FormField {
            value: vec![0xff],
            ..field("model", "x", 0)
        };
        assert_eq!(fault(vec![broken], None).param.as_deref(), Some("model"));
    }

    #[test]
    fn a_form_is_read_as_a_whole() {
        let form =
            "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n";
        let read = Front::find("transcriptions")
            .unwrap()
            .envelope(form.as_bytes())
            .unwrap();
        assert_eq!(
            (&*read.model, &form[read.places.model.clone()]),
            ("whisper-1", "whisper-1")
        );
        for odd in [
            "",
            "--",
            "--\r\n",
            "{}",
            &form[..60],
            &form.replace("model", "file"),
        ] {
            assert!(
                Front::find("transcriptions")
                    .unwrap()
                    .envelope(odd.as_bytes())
                    .is_err(),
                "{odd}"
            );
        }
    }

    #[test]
    fn what_refers_to_something_elsewhere_is_refused() {
        let fields = vec![
            field("model", "m", 4),
            field("file_url", "http://169.254.169.254/", 20),
        ];
        let fault = read(fields, None).unwrap_err();
        assert_eq!(
            (fault.param.as_deref(), fault.code),
            (Some("file_url"), Some("unsupported_parameter"))
        );
    }
}
