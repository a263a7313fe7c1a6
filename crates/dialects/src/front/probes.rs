//! Probes: requests of a format that have one part of it each. What becomes of them at an account
//! says what callers of the format lose there.

use bytes::Bytes;

use super::{Asked, Envelope, FRONTS, Fault, Front};

/// The parts of a format, each as it stands in a request.
pub struct Probes {
    /// The members that each request needs; the last one is the prompt.
    pub(super) needed: &'static [&'static str],
    /// What people call a part, and the members that it consists of. If it has a prompt of its own,
    /// that is its first member.
    pub(super) parts: &'static [(&'static str, &'static str)],
}

impl Front {
    /// Returns the front doors that have probes. Where two doors differ in their streams only, one
    /// of them has.
    pub fn probed() -> impl Iterator<Item = &'static Front> {
        FRONTS.into_iter().filter(|front| !front.probes.parts.is_empty())
    }

    /// Returns a request for each part of the format: the name of the part, the body, and what is
    /// read of it.
    pub fn probes(&self) -> impl Iterator<Item = (&'static str, Bytes, Result<Envelope, Fault>)> {
        let Probes { needed, parts } = self.probes;
        parts.iter().map(move |(name, members)| {
            let key = |member: &str| member.split(':').next().map(str::to_owned);
            let rest = needed.iter().filter(|member| key(member) != key(members));
            let members: Vec<&str> = rest.copied().chain([*members]).collect();
            let body = Bytes::from(format!("{{{}}}", members.join(",")));
            let asked = Asked { model: Some("m".to_owned()), stream: false };
            let envelope = (self.envelope)(&body).map(|envelope| envelope.at(asked));
            (*name, body, envelope)
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
                assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "{front:?} {name}: {body:?}");
                assert!(envelope.is_ok(), "{front:?} {name}: {envelope:?}");
            }
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), front.probes.parts.len(), "{front:?}: a name is there twice");
        }
        assert_eq!(Front::probed().count(), FRONTS.len() - 1);
    }
}
