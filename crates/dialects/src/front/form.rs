//! What is read of a form. Its files, and all other fields, are for the account's server.

use super::{Asked, Envelope, Fault, Front};
use crate::neutral::Endpoint;
use crate::neutral::usage::Units;
use crate::wire::json::Span;
use crate::wire::multipart::{FormFault, FormField, FormScanner};

/// The fields that are read.
pub const FIELDS: &[&str] = &["model", "n", "file_id", "file_url", "image_url", "url"];
/// Those of them that refer to something elsewhere, in the words of several servers.
const REFERENCES: &[&str] = &["file_id", "file_url", "image_url", "url"];

impl Front {
    /// Returns whether requests are forms, which may have large files.
    pub fn is_form(&self) -> bool {
        self.only.is_some_and(Endpoint::takes_forms)
    }

    /// Returns whether an answer may be other than JSON: it then passes as it comes.
    pub fn gives_bytes(&self) -> bool {
        self.only.is_some_and(Endpoint::gives_bytes)
    }

    /// Returns whether an answer may be a stream.
    pub(super) fn streams(&self) -> bool {
        self.gives_bytes() || self.only.is_none_or(Endpoint::writes)
    }
}

/// The bytes of a millisecond of sound, by which its length is estimated: 128 kbit a second.
const BYTES_A_MILLISECOND: usize = 16;

/// Reads what decides where a form goes, and where the form names the model, if it does. `asked` is
/// what the path says of it, and `length` is that of the form. The body of the request that passes
/// is the name alone.
pub fn envelope(
    front: &'static Front,
    fields: Vec<FormField>,
    asked: Asked,
    length: usize,
) -> Result<(Envelope, Option<Span>), Fault> {
    if let Some(field) = fields.iter().find(|field| REFERENCES.contains(&field.name)) {
        let message = format!("`{}` refers to something elsewhere: send the file itself", field.name);
        return Err(Fault { message, param: Some(field.name.into()), code: Some("unsupported_parameter") });
    }
    let text = |name: &str| {
        let field = fields.iter().find(|field| field.name == name);
        field.map(|field| (std::str::from_utf8(&field.value), field.place.clone()))
    };
    let (model, place) = match (text("model"), &asked.model) {
        (Some((Ok(model), place)), None) => (model.to_owned(), Some(place)),
        (Some((Ok(model), place)), Some(named)) if named == model => (model.to_owned(), Some(place)),
        (Some((Ok(_), _)), Some(_)) => {
            return Err(Fault::of_value("model", "`model` is another one than the path names"));
        }
        (Some((Err(_), _)), _) => return Err(Fault::of_value("model", "`model` must be UTF-8")),
        (None, Some(named)) => (named.clone(), None),
        (None, None) => return Err(Fault::missing("model")),
    };
    // What is paid for must not be guessed.
    let choices = match text("n") {
        None => 1,
        Some((n, _)) => n
            .ok()
            .and_then(|n| n.trim().parse().ok())
            .filter(|n| *n > 0)
            .ok_or_else(|| Fault::of_value("n", "`n` must be a whole number, and at least 1"))?,
    };
    let units = if front.only == Some(Endpoint::Edits) {
        Units { images: u32::try_from(choices).unwrap_or(u32::MAX), ..Units::NONE }
    } else {
        Units { millis: u32::try_from(length / BYTES_A_MILLISECOND).unwrap_or(u32::MAX), ..Units::NONE }
    };
    let mut envelope = Envelope { model, choices, units, ..Envelope::new(front) };
    envelope.places.model = 0..place.as_ref().map_or(0, Span::len);
    Ok((envelope, place))
}

/// Reads a form that is there as a whole, with the boundary of its first line.
pub(super) fn whole(front: &'static Front, body: &[u8]) -> Result<Envelope, Fault> {
    let line = body.split(|byte| *byte == b'\r').next().and_then(|line| line.strip_prefix(b"--"));
    let boundary = line.and_then(|line| std::str::from_utf8(line).ok()).filter(|line| !line.is_empty());
    let mut scanner = FormScanner::new(boundary.ok_or_else(|| broken("does not begin with a boundary"))?, FIELDS);
    scanner.feed(body).map_err(fault)?;
    let (mut envelope, place) = envelope(front, scanner.finish().map_err(fault)?, Asked::default(), body.len())?;
    envelope.places.model = place.unwrap_or_default();
    Ok(envelope)
}

/// Returns the fault of a form that cannot be read.
pub fn fault(fault: FormFault) -> Fault {
    let Some(field) = fault.field else { return broken(fault.why) };
    Fault { message: format!("`{field}` {}", fault.why), param: Some(field.into()), code: Some("invalid_value") }
}

/// Returns the fault of a form that is none.
pub fn broken(why: &str) -> Fault {
    Fault::plain(format!("the form {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{EDITS, TRANSCRIPTIONS};

    fn field(name: &'static str, value: &str, start: usize) -> FormField {
        FormField { name, value: value.into(), place: start..start + value.len() }
    }

    fn read(fields: Vec<FormField>, model: Option<&str>) -> Result<(Envelope, Option<Span>), Fault> {
        envelope(&TRANSCRIPTIONS, fields, Asked { model: model.map(str::to_owned), stream: false }, 32_000)
    }

    #[test]
    fn the_model_is_named_once_by_the_form_or_by_the_path() {
        let (read_of_form, place) = read(vec![field("n", "3", 5), field("model", "whisper-1", 40)], None).unwrap();
        assert_eq!((&*read_of_form.model, read_of_form.choices, place), ("whisper-1", 3, Some(40..49)));
        assert_eq!(read_of_form.places.model, 0..9, "the body that passes is the name alone");
        assert_eq!(read_of_form.units, Units { millis: 2_000, ..Units::NONE }, "an estimate");
        let changed = envelope(&EDITS, vec![field("model", "m", 1), field("n", "3", 9)], Asked::default(), 9).unwrap();
        assert_eq!(changed.0.units, Units { images: 3, ..Units::NONE });
        let (of_path, place) = read(vec![field("n", " 1", 5)], Some("m")).unwrap();
        assert_eq!((&*of_path.model, of_path.choices, place, of_path.places.model), ("m", 1, None, 0..0));
        assert_eq!(read(vec![field("model", "m", 4)], Some("m")).unwrap().1, Some(4..5));
        let fault = |fields, model| read(fields, model).unwrap_err();
        for odd in ["", "0", "-1", "4.0", "4\0", "x"] {
            assert_eq!(fault(vec![field("n", odd, 5)], Some("m")).param.as_deref(), Some("n"), "{odd}");
        }
        assert_eq!(fault(vec![], None).code, Some("missing_required_parameter"));
        assert_eq!(fault(vec![field("model", "other", 4)], Some("m")).param.as_deref(), Some("model"));
        let broken = FormField { value: vec![0xff], ..field("model", "x", 0) };
        assert_eq!(fault(vec![broken], None).param.as_deref(), Some("model"));
    }

    #[test]
    fn a_form_that_is_there_is_read_as_a_whole() {
        let form = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n";
        let read = (TRANSCRIPTIONS.envelope)(form.as_bytes()).unwrap();
        assert_eq!((&*read.model, &form[read.places.model.clone()]), ("whisper-1", "whisper-1"));
        for odd in ["", "--", "--\r\n", "{}", &form[..60], &form.replace("model", "file")] {
            assert!((TRANSCRIPTIONS.envelope)(odd.as_bytes()).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_refers_to_something_elsewhere_is_refused() {
        let fields = vec![field("model", "m", 4), field("file_url", "http://169.254.169.254/", 20)];
        let fault = read(fields, None).unwrap_err();
        assert_eq!((fault.param.as_deref(), fault.code), (Some("file_url"), Some("unsupported_parameter")));
    }
}
