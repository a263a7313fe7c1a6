//! Probes: example requests for each part of a format. The translation of a probe shows which parts
//! callers lose at an account.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Envelope, FRONTS, Fault, Front, PathRequest};

/// The parts of a format, as they stand in its file `probes.json`.
#[derive(Default, Deserialize)]
struct Probes<'p> {
    /// The members that each request needs.
    needed: Map<String, Value>,
    /// The people's name of each part, and the members that it consists of.
    #[serde(borrow)]
    parts: Vec<(&'p str, Map<String, Value>)>,
}

impl Front {
    /// Returns the front doors that have probes. If two doors differ in their streams only, one of
    /// the two has them.
    pub fn probed() -> impl Iterator<Item = &'static Front> {
        FRONTS.into_iter().filter(|front| !front.probes.is_empty())
    }

    /// Returns a request for each part of the format: the name of the part, the body, and the
    /// request that is read of it.
    pub fn probes(
        &'static self,
    ) -> impl Iterator<Item = (&'static str, Bytes, Result<Envelope, Fault>)> {
        let Probes { needed, parts } = serde_json::from_str(self.probes).unwrap_or_default();
        parts.into_iter().map(move |(name, members)| {
            let members: Map<_, _> = needed.clone().into_iter().chain(members).collect();
            let body = Bytes::from(Value::from(members).to_string());
            let asked = PathRequest {
                model: Some("m".to_owned()),
                stream: false,
            };
            let envelope = self
                .envelope(&body)
                .map(|envelope| envelope.with_path(asked));
            (name, body, envelope)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_a_request_of_its_own() {
        for front in Front::probed() {
            let mut names: Vec<_> = front.probes().map(|(name, ..)| name).collect();
            assert!(names.len() > 20, "{front:?}");
            for (name, body, envelope) in front.probes() {
                assert!(
                    serde_json::from_slice::<serde_json::Value>(&body).is_ok(),
                    "{front:?} {name}: {body:?}"
                );
                assert!(envelope.is_ok(), "{front:?} {name}: {envelope:?}");
            }
            names.sort_unstable();
            names.dedup();
            assert_eq!(
                names.len(),
                front.probes().count(),
                "{front:?}: a name is there twice"
            );
        }
        assert_eq!(Front::probed().count(), FRONTS.len() - 1);
    }
}
