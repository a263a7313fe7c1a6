//! The other models that a request names. The account has names of its own for them.

use bytes::Bytes;

use super::{Dialect, OtherModel, Translate, Way};
use crate::front::{Envelope, PathRequest};
use crate::neutral::Refused;
use crate::wire::splice::Edits;

impl Dialect {
    /// Refuses a request for models that its caller may not use. Returns the request with the
    /// account's names, if the account has other names.
    pub(super) fn rename_models(
        &self,
        job: &Translate<'_>,
    ) -> Result<Option<(Bytes, Envelope)>, Refused> {
        // The texts of a form are no JSON. They are written when the form passes.
        if job.envelope.front.is_form() {
            return Ok(None);
        }
        let mut edits = Edits::new(job.body);
        if !self.edit_names(job, &mut edits)? {
            return Ok(None);
        }
        let body = Bytes::from(edits.applied().into_owned());
        let Envelope {
            front,
            model,
            stream,
            headers,
            ..
        } = job.envelope;
        let read = match (front.envelope(&body), &front.counting) {
            // A request whose tokens are counted may lack fields that a conversation needs.
            (Err(_), Some(form)) => {
                let asked = PathRequest {
                    model: None,
                    stream: false,
                };
                (form.read)(body.clone(), &asked).map(|(_, envelope)| envelope)
            }
            (read, _) => read,
        };
        let mut envelope = read.map_err(|fault| Refused::invalid("", fault.message))?;
        (envelope.model, envelope.stream, envelope.headers) =
            (model.clone(), *stream, headers.clone());
        Ok(Some((body, envelope)))
    }

    /// Refuses a request for models that its caller may not use, or that cannot be asked here.
    /// Writes the account's names for the models. Returns whether the account has other names.
    pub(super) fn edit_names(
        &self,
        job: &Translate<'_>,
        edits: &mut Edits<'_>,
    ) -> Result<bool, Refused> {
        let Translate { body, envelope, .. } = *job;
        let mut is_renamed = false;
        for named in envelope.named.iter().filter(|named| named.is_model()) {
            let Some(name) = named.text(body) else {
                continue;
            };
            let other = match name.strip_prefix("models/").unwrap_or(&name) {
                same if *same == envelope.model => OtherModel::Here(job.model.into()),
                other => (job.other)(other),
            };
            match other {
                OtherModel::Here(model) if !named.is_of_unknown_tool() => {
                    if *name != *model {
                        edits.replace(named.span.clone(), named.written(&model));
                        is_renamed = true;
                    }
                }
                OtherModel::Elsewhere if !self.passes_request(job) => {}
                OtherModel::Here(_) | OtherModel::Elsewhere | OtherModel::Forbidden => {
                    let param = named.param.clone();
                    let message = format!(
                        "`{param}` names a model that cannot be used here: name the model of the request, or one that \
                         this key may use without limits of its own and that the same account serves"
                    );
                    return Err(Refused::unsupported(param, message));
                }
            }
        }
        Ok(is_renamed)
    }

    /// Returns whether the request goes to the server in the format in which it came.
    fn passes_request(&self, job: &Translate<'_>) -> bool {
        let front = job.envelope.front;
        let (_, way) = self.choose_way(front, job.model, job.hide_reasoning);
        matches!(way, Way::Standard | Way::Native(..))
    }
}
