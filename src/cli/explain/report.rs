//! A report is what `explain` finds out, before it is written for people or for machines.

use serde::Serialize;

use crate::error::Refusal;
use crate::plan::Reach;

/// The report.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) verdict: Verdict,
    pub(super) facts: Vec<Fact>,
    /// The limits on the request, as `/limits` names them; people have them among the facts.
    pub(super) limits: Vec<serde_json::Map<String, serde_json::Value>>,
    pub(super) candidates: Vec<Candidate>,
    /// In the order in which the gateway meets them: the caller learns of the first.
    #[serde(skip)]
    pub(super) refusals: Vec<Refusal>,
}

/// What becomes of the request.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    /// Whether somebody is asked.
    pub(super) tried: bool,
    pub(super) says: String,
    /// The status of the caller's answer, where nobody is asked.
    pub(super) status: Option<u16>,
    pub(super) code: Option<String>,
    pub(super) param: Option<String>,
}

/// One fact about the request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    pub(super) about: &'static str,
    pub(super) says: String,
    /// Whether nobody is asked because of it.
    pub(super) fault: bool,
}

/// What becomes of a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CandidateState {
    /// It is asked.
    #[default]
    Asked,
    /// It is asked if nobody else is left, although its breaker is not closed.
    LastResort,
    /// It is asked if the request turns out to be of the kind that it is there for.
    InCase,
    /// Its account is disabled.
    Disabled,
    /// The key does not see the model.
    Hidden,
    /// Its account has as many requests as it may.
    Full,
    /// It rests.
    Resting,
    /// Its breaker keeps requests away.
    Broken,
    /// It cannot do what is asked.
    Unable,
    /// All attempts are made before its turn comes.
    Beyond,
}

/// A way to serve the request, be it taken or not.
#[derive(Debug, Default, Serialize)]
pub(super) struct Candidate {
    /// The model that it serves.
    pub(super) model: String,
    /// None: the whole model is passed over.
    pub(super) account: Option<String>,
    pub(super) upstream_model: Option<String>,
    #[serde(rename = "for")]
    pub(super) reach: Reach,
    pub(super) state: CandidateState,
    /// The number of the attempt that asks it.
    pub(super) attempt: Option<usize>,
    /// The share of the requests for which it is the first of its model, where that changes from
    /// request to request.
    pub(super) first_for: Option<f64>,
    pub(super) why: String,
    /// How its target does, as far as that is known.
    pub(super) does: Option<String>,
    /// None: nobody knows the price.
    pub(super) price: Option<Costs>,
    pub(super) request: Option<Upstream>,
}

impl Candidate {
    /// Returns what is reported of a model none of whose targets is named.
    pub(super) fn of_model(model: &str, reach: Reach, state: CandidateState, why: String) -> Candidate {
        Candidate { model: model.to_owned(), reach, state, why, ..Candidate::default() }
    }
}

/// What a target costs.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    /// Where the price is known from.
    pub(super) from: &'static str,
    /// Dollars for a million tokens, by their names in the catalog.
    pub(super) costs: Vec<(&'static str, String)>,
}

/// A request as it would go up.
#[derive(Debug, Serialize)]
pub(super) struct Upstream {
    pub(super) method: &'static str,
    /// None: the built-in account answers itself.
    pub(super) url: Option<String>,
    /// In the order in which they are sent; secrets are replaced.
    pub(super) headers: Vec<(String, String)>,
    /// The exact body; if it is not UTF-8, see `body_base64`.
    #[serde(serialize_with = "lossy")]
    pub(super) body: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body_base64: Option<String>,
    /// By their names in the catalog.
    pub(super) deadlines: Vec<(&'static str, String)>,
    pub(super) changed: Vec<String>,
    /// The fields of the caller's request that it leaves out.
    pub(super) dropped: Vec<String>,
}

fn lossy<S: serde::Serializer>(body: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(body))
}

impl Report {
    /// Adds a fact.
    pub(super) fn fact(&mut self, about: &'static str, says: impl Into<String>) {
        self.facts.push(Fact { about, says: says.into(), fault: false });
    }

    /// Adds a fact because of which nobody is asked.
    pub(super) fn fault(&mut self, about: &'static str, refusal: Refusal) {
        let is_new = |param: &&String| *param != about && !refusal.message.contains(&format!("`{param}`"));
        let param = refusal.param.as_ref().filter(is_new).map(|param| format!(" (`{param}`)")).unwrap_or_default();
        self.facts.push(Fact { about, says: format!("{}{param}", refusal.message), fault: true });
        self.refusals.push(refusal);
    }

    /// Returns the report that nobody is asked, because of the first refusal.
    pub(super) fn refused(mut self) -> Report {
        if let Some(refusal) = self.refusals.first() {
            self.verdict = Verdict::refused(refusal);
        }
        self
    }

    /// Writes the report for machines.
    pub(super) fn json(&self) -> Vec<u8> {
        // Strings, numbers and lists of them always serialise.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}

impl Verdict {
    /// Returns the verdict that nobody is asked, and that the caller gets this refusal.
    pub(super) fn refused(refusal: &Refusal) -> Verdict {
        let row = refusal.what.row();
        let code = row.code.map(|code| format!(" {code}")).unwrap_or_default();
        Verdict {
            tried: false,
            says: format!("no upstream would be called, the caller gets {}{code}: {}", row.status, refusal.message),
            status: Some(row.status),
            code: row.code.map(str::to_owned),
            param: refusal.param.clone(),
        }
    }
}
