//! The callers' names for the fields that a dialect refuses, loses or weakens.

use std::borrow::Cow;
use std::sync::Arc;

use crate::neutral::{
    Complaint, Echo, Field, FieldRefused, Losses, LostFields, Refused, Request, Undo, Written,
};

/// The names that the caller of one request has for its fields.
#[derive(Debug, Clone)]
pub struct FieldNames {
    default_name: fn(&Request<'_>, &Field) -> Cow<'static, str>,
    /// The older or newer names that the caller wrote. A loss or a refusal uses these names.
    pub(super) written: Vec<(Field, &'static str)>,
    /// The part of the request that the answer repeats.
    pub(super) echo: Option<Arc<Echo>>,
}

impl FieldNames {
    /// Returns the usual names.
    pub fn new(default_name: fn(&Request<'_>, &Field) -> Cow<'static, str>) -> Self {
        Self {
            default_name,
            written: Vec::new(),
            echo: None,
        }
    }

    /// Notes that the caller wrote another name than the usual one.
    pub(super) fn write(&mut self, field: Field, name: &'static str) {
        self.written.push((field, name));
    }

    /// Returns the name of a field of the request.
    pub(crate) fn name(&self, request: &Request<'_>, field: &Field) -> Cow<'static, str> {
        match self.written.iter().find(|(written, _)| written == field) {
            Some((_, name)) => Cow::Borrowed(name),
            None => (self.default_name)(request, field),
        }
    }

    /// Names the fields that a dialect lost.
    pub(crate) fn losses(&self, request: &Request<'_>, losses: LostFields) -> Losses {
        losses.with_names(|field| self.name(request, field))
    }

    /// Writes a dialect's losses, or its refusal, in the caller's words.
    pub(crate) fn in_callers_words(
        &self,
        request: &Request<'_>,
        written: Result<Written, FieldRefused>,
    ) -> Result<Written<Cow<'static, str>>, Refused> {
        let Written {
            body,
            losses,
            undo,
            headers,
        } = written.map_err(|why| self.refused(request, why))?;
        let undo = Undo {
            echo: self.echo.clone(),
            ..undo
        };
        Ok(Written {
            body,
            losses: self.losses(request, losses),
            undo,
            headers,
        })
    }

    /// Names the field that a dialect refused.
    pub(crate) fn refused(&self, request: &Request<'_>, refused: FieldRefused) -> Refused {
        refused.map_complaint(|Complaint { param, message }| Complaint {
            param: self.name(request, &param).into_owned(),
            message,
        })
    }
}
