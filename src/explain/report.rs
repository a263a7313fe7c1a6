//! A report is the result of `explain`, before it is written for people or for machines.

use serde::Serialize;
use serde_json::Value;

use crate::error::Refusal;
use crate::plan::Reach;

/// The line for a gateway that does not show how much of the limits is used.
const LIMITS_UNKNOWN: &str = "what is used of them is not known, so they may refuse the request";

/// The result of `explain`.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub(super) verdict: Verdict,
    pub(super) facts: Vec<Fact>,
    /// The limits on the request, as `/limits` names them. For people, they are among the facts.
    pub(super) limits: Vec<serde_json::Value>,
    pub(super) candidates: Vec<Candidate>,
    /// True if a gateway was asked for its state or for the use of the limits, and did not answer
    /// that.
    #[serde(skip)]
    pub(super) is_unsure: bool,
    /// The refusals, in the order in which the gateway meets them. The caller learns of the first.
    #[serde(skip)]
    pub(super) refusals: Vec<Refusal>,
}

/// The result for the request.
#[derive(Debug, Default, Serialize)]
pub(super) struct Verdict {
    /// True if a candidate is asked.
    pub(super) tried: bool,
    #[serde(rename = "says")]
    pub(super) sentence: String,
    /// The status of the caller's answer, if no candidate is asked.
    pub(super) status: Option<u16>,
    pub(super) code: Option<String>,
    pub(super) param: Option<String>,
}

/// One fact about the request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fact {
    pub(super) about: &'static str,
    #[serde(rename = "says")]
    pub(super) sentence: String,
    /// True if no candidate is asked because of this fact.
    pub(super) fault: bool,
}

/// The state of a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CandidateState {
    /// The candidate is asked.
    #[default]
    Asked,
    /// The candidate is asked if no other is left, although its breaker is not closed.
    LastResort,
    /// The candidate is asked if the request turns out to be of the kind for which it is there.
    InCase,
    /// The candidate's account is disabled.
    Disabled,
    /// The key does not see the model.
    Hidden,
    /// The account has as many requests as it may have.
    Full,
    /// The target or its account rests.
    Resting,
    /// The target's breaker keeps requests away.
    Broken,
    /// The target cannot express the request.
    Unable,
    /// All attempts are made before the candidate's turn comes.
    Beyond,
}

/// A way to serve the request, whether it is taken or not.
#[derive(Debug, Default, Serialize)]
pub(super) struct Candidate {
    /// The model that the candidate serves.
    pub(super) model: String,
    /// The account; `None` if the whole model is passed over.
    pub(super) account: Option<String>,
    pub(super) upstream_model: Option<String>,
    /// The kind of endpoint that the request would be sent to.
    pub(super) endpoint: Option<&'static str>,
    #[serde(rename = "for")]
    pub(super) reach: Reach,
    pub(super) state: CandidateState,
    /// The number of the attempt that asks the candidate.
    pub(super) attempt: Option<usize>,
    /// The share of the requests for which the candidate is the first of its model, if that changes
    /// from request to request.
    pub(super) first_for: Option<f64>,
    pub(super) why: String,
    /// The state of the target in words, as far as it is known.
    pub(super) does: Option<String>,
    /// The price; `None` if it is unknown.
    pub(super) price: Option<Costs>,
    pub(super) request: Option<Upstream>,
}

impl Candidate {
    /// Returns the entry of a whole model, without the name of a target.
    pub(super) fn of_model(
        model: &str,
        reach: Reach,
        state: CandidateState,
        why: String,
    ) -> Candidate {
        Candidate {
            model: model.to_owned(),
            reach,
            state,
            why,
            ..Candidate::default()
        }
    }
}

/// The price of a target.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    /// The origin of the price.
    pub(super) from: &'static str,
    /// The costs in dollars for a million tokens, by their names in the catalog.
    pub(super) costs: Vec<(&'static str, String)>,
}

/// A request as it would be sent to the provider.
#[derive(Debug, Serialize)]
pub(super) struct Upstream {
    pub(super) method: &'static str,
    /// The address; `None` if the account is a demo, which answers itself.
    pub(super) url: Option<String>,
    /// The proxy through which the request is sent, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proxy: Option<String>,
    /// The headers in the order in which they are sent. Secrets are replaced.
    pub(super) headers: Vec<(String, String)>,
    /// The exact body; if it is not UTF-8, see `body_base64`.
    #[serde(serialize_with = "lossy")]
    pub(super) body: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body_base64: Option<String>,
    /// The deadlines, by their names in the catalog.
    pub(super) deadlines: Vec<(&'static str, String)>,
    pub(super) changed: Vec<String>,
    /// The fields of the caller's request that are left out.
    pub(super) dropped: Vec<String>,
}

fn lossy<S: serde::Serializer>(body: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(body))
}

impl Report {
    /// Adds a fact.
    pub(super) fn add_fact(&mut self, about: &'static str, sentence: impl Into<String>) {
        self.facts.push(Fact {
            about,
            sentence: sentence.into(),
            fault: false,
        });
    }

    /// Adds a fact because of which no candidate is asked.
    pub(super) fn add_fault(&mut self, about: &'static str, refusal: Refusal) {
        let param = refusal
            .param
            .as_ref()
            .filter(|param| *param != about && !refusal.message.contains(&format!("`{param}`")));
        let param = param
            .map(|param| format!(" (`{param}`)"))
            .unwrap_or_default();
        self.facts.push(Fact {
            about,
            sentence: format!("{}{param}", refusal.message),
            fault: true,
        });
        self.refusals.push(refusal);
    }

    /// Returns the report with the verdict of the first refusal: no candidate is asked.
    pub(super) fn with_refusal(mut self) -> Report {
        if let Some(refusal) = self.refusals.first() {
            self.verdict = Verdict::refused(refusal);
        }
        self
    }

    /// Takes over the limits from a running gateway's own report: what is used of them, and whether
    /// they refuse the request.
    pub fn take_limits(&mut self, live: &Value) {
        const ABOUT: &str = "limits";
        self.facts.retain(|fact| fact.about != ABOUT);
        let of_limits = live["facts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|fact| fact["about"] == ABOUT);
        self.facts.extend(of_limits.map(|fact| Fact {
            about: ABOUT,
            sentence: fact["says"].as_str().unwrap_or_default().to_owned(),
            fault: fact["fault"] == true,
        }));
        self.limits = live["limits"].as_array().cloned().unwrap_or_default();
        let verdict = &live["verdict"];
        if self.verdict.tried && verdict["tried"] == false {
            let text = |name: &str| verdict[name].as_str().map(ToOwned::to_owned);
            self.verdict = Verdict {
                tried: false,
                sentence: text("says").unwrap_or_default(),
                status: verdict["status"]
                    .as_u64()
                    .and_then(|status| u16::try_from(status).ok()),
                code: text("code"),
                param: text("param"),
            };
        }
    }

    /// Notes that the running gateway did not show how much of the limits is used.
    pub fn miss_limits(&mut self, why: &str) {
        self.is_unsure = true;
        self.add_fact("limits", format!("{LIMITS_UNKNOWN}: {why}"));
    }

    /// Notes that the running gateway did not show its state, nor what is used of the limits.
    pub fn miss_state(&mut self, why: &str) {
        self.is_unsure = true;
        let sentence = format!(
            "the state is not known: every account is assumed healthy and idle, and each of them may rest, be full or be \
             switched off: {why}"
        );
        self.facts.retain(|fact| fact.about != "running");
        self.facts.insert(
            0,
            Fact {
                about: "running",
                sentence,
                fault: false,
            },
        );
        self.add_fact("limits", LIMITS_UNKNOWN);
    }

    /// Returns whether a gateway was asked for what the result depends on, and did not say it.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Returns whether a candidate is asked.
    pub fn is_tried(&self) -> bool {
        self.verdict.tried
    }

    /// Writes the report for machines.
    pub fn json(&self) -> Vec<u8> {
        // Strings, numbers and lists of them always serialise.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }
}

impl Verdict {
    /// Returns the verdict that no candidate is asked, and that the caller gets this refusal.
    pub(super) fn refused(refusal: &Refusal) -> Verdict {
        let row = refusal.kind.row();
        let code = row.code.map(|code| format!(" {code}")).unwrap_or_default();
        Verdict {
            tried: false,
            sentence: format!(
                "the request would be sent to no upstream, and the caller would get {}{code}: {}",
                row.status, refusal.message
            ),
            status: Some(row.status),
            code: row.code.map(str::to_owned),
            param: refusal.param.clone(),
        }
    }
}
