//! `--ask`: a few small requests a target find out whether it answers, and what it can do. They are
//! the only ones of this command that a provider charges for.
//!
//! **Invariant:** a target whose first request fails for another reason than what the request asks
//! for gets no second one. A target gets at most six. Targets of accounts that cannot be reached
//! get none.

mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::accounts::{lacks_secret, made_for};
use super::report::{CheckState, Checked, Finding, Findings, Subject};
use super::side_by_side::{Ending, SideBySide, bug_finding};
use super::words::first_three;
use dialects::Endpoint;
use dialects::named_enum;
use dialects::neutral::ModelKind;
use portcullis::base::units::format_count;
use portcullis::catalog::Target;
use portcullis::conf::price::Usd;
use portcullis::exchange::upstream::Upstream;
use portcullis::live::Snapshot;
use portcullis::plan::{Candidate, Reach};
use request::{Asker, GoodAnswer, NoAnswer};

/// The longest time for all targets.
const ASK_TIMEOUT: Duration = Duration::from_secs(600);
/// The most tokens of an answer: enough for a model that thinks before it answers.
const MAX_TOKENS: u64 = 256;

/// The fields by which usage of a stream is asked for. Old servers refuse them.
const STREAM_USAGE: [&str; 2] = ["stream_options", "include_usage"];

named_enum! {
    /// An ability that a target may have.
    enum Ability {
        Stream = "streams with usage",
        Tools = "tools",
        Schema = "JSON schema",
        /// A system message after one of the user's.
        LateSystem = "a system message in the middle",
    }
}

impl Ability {
    /// Returns what to write into the catalog if a target lacks the ability, or has it although the
    /// catalog denies it.
    fn proposal(self, target: &Target, has: &Result<(), String>) -> Option<String> {
        let (trait_name, written) = match self {
            Ability::Tools => ("tools", target.traits.tools),
            Ability::Schema => ("structured", target.traits.structured),
            Ability::LateSystem => return None,
            Ability::Stream => {
                let why = has.as_ref().err()?;
                let is_refused = STREAM_USAGE.iter().any(|field| why.contains(field));
                return (is_refused && target.account.added_fields.stream_usage).then(|| {
                    let id = &target.account.id;
                    format!("write `stream_usage: false` at accounts.{id}")
                });
            }
        };
        (written != has.is_ok()).then(|| {
            format!(
                "write `traits: {{ {trait_name}: {} }}` at the target",
                has.is_ok()
            )
        })
    }

    /// Returns whether the catalog denies a target this ability.
    fn is_denied(self, target: &Target) -> bool {
        match self {
            Ability::Tools => !target.traits.tools,
            Ability::Schema => !target.traits.structured,
            Ability::Stream => !target.account.added_fields.stream_usage,
            Ability::LateSystem => false,
        }
    }
}

/// The result of asking a target.
struct TargetAnswers {
    findings: Vec<Finding>,
    requests: u32,
    cost: Usd,
    /// True if a part of the cost is unknown.
    is_unpriced: bool,
}

/// Asks all targets, except those of accounts that are known to be out of reach, by their indexes.
/// They are reported in the order of the catalog.
pub(super) async fn ask_targets(
    snapshot: Arc<Snapshot>,
    unreached: &BTreeSet<usize>,
    report: &mut Findings,
) {
    let upstream = Arc::new(Upstream::default());
    let candidates = asked_candidates(&snapshot, unreached, report);
    let names: Vec<String> = candidates
        .iter()
        .map(|(_, target)| target_name(target))
        .collect();
    let questions = candidates.into_iter().map(|(candidate, target)| {
        let upstream = upstream.clone();
        async move {
            let asker = Asker {
                upstream: &upstream,
                candidate: &candidate,
            };
            ask_target(&asker, &target).await
        }
    });
    let mut running = SideBySide::start(questions, Instant::now() + ASK_TIMEOUT);
    let (mut requests, mut cost, mut is_unpriced) = (0, Usd::ZERO, false);
    let (mut late, mut waiting) = (Vec::new(), Vec::new());
    for name in names {
        match running.next().await {
            Some(Ending::Done(answers)) => {
                answers
                    .findings
                    .into_iter()
                    .for_each(|finding| report.add(finding));
                requests += answers.requests;
                cost = cost.plus(answers.cost);
                is_unpriced |= answers.is_unpriced;
            }
            Some(Ending::Late) => late.push(name),
            Some(Ending::Panicked) => {
                is_unpriced = true;
                report.add(bug_finding(&Subject::named("target", name), "ask"));
            }
            Some(Ending::NotBegun) | None => waiting.push(name),
        }
    }
    if !late.is_empty() {
        // What they were sent may be charged for.
        is_unpriced = true;
        let seen = format!("not done in time: {}", first_three(&late));
        report.add(Subject::single("ask").fail(
            "time",
            seen,
            "look at their servers: they answer too slowly",
        ));
    }
    if !waiting.is_empty() {
        report.add(Subject::single("ask").skip(
            "time",
            format!("no time was left for {}", first_three(&waiting)),
        ));
    }
    let known = if is_unpriced { "at least " } else { "" };
    let (were, they) = if requests == 1 {
        ("was", "it")
    } else {
        ("were", "they")
    };
    let requests = format_count(requests, "request");
    let seen = format!(
        "{requests} {were} sent; {they} cost {known}{cost} USD, as far as prices are known"
    );
    report.add(Subject::single("ask").ok("cost", seen));
}

/// Lists the targets that are asked, each once. Reports those that are not.
fn asked_candidates(
    snapshot: &Snapshot,
    unreached: &BTreeSet<usize>,
    report: &mut Findings,
) -> Vec<(Candidate, Target)> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut left_out: BTreeMap<usize, (Arc<str>, usize)> = BTreeMap::new();
    for model in snapshot
        .catalog
        .models()
        .iter()
        .filter(|model| !model.is_pattern())
    {
        for target in model.targets.iter().filter(|target| target.account.enabled) {
            if !seen.insert((target.account.index, target.model.clone())) {
                continue;
            }
            if unreached.contains(&target.account.index) {
                left_out
                    .entry(target.account.index)
                    .or_insert_with(|| (target.account.id.clone(), 0))
                    .1 += 1;
                continue;
            }
            if lacks_secret(&target.account) {
                report.add(target_subject(target).skip(
                    "ask",
                    "the secret of its account could not be read: see configuration",
                ));
                continue;
            }
            let Some(endpoint) = asked_endpoint(target, model.kind) else {
                report.add(
                    target_subject(target)
                        .skip("ask", "is not asked: only conversations and vectors are"),
                );
                continue;
            };
            let Some(ready_account) = snapshot.ready_accounts.get(target.account.index) else {
                continue;
            };
            let health = ready_account.state.lasting_health(&target.model, endpoint);
            let candidate = Candidate::for_target(snapshot, model, target, health, Reach::Any);
            found.extend(candidate.map(|candidate| (candidate, target.clone())));
        }
    }
    for (id, targets) in left_out.into_values() {
        let targets_text = if targets == 1 {
            "its target is".to_owned()
        } else {
            format!("its {targets} targets are")
        };
        report.add(Subject::named("account", id).skip(
            "ask",
            format!("{targets_text} not asked: mend the account first"),
        ));
    }
    found
}

/// Returns the kind of endpoint at which a target is asked.
fn asked_endpoint(target: &Target, kind: Option<ModelKind>) -> Option<Endpoint> {
    let served = target.account.serves.iter().map(|(kind, _)| *kind);
    let served: Vec<Endpoint> = served.collect();
    let vectors = Some(Endpoint::Embeddings).filter(|kind| served.contains(kind));
    match made_for(kind, &target.model) {
        ModelKind::Embedding => vectors,
        ModelKind::Chat => {
            let mut kinds = Endpoint::ALL
                .into_iter()
                .filter(|kind| kind.is_conversation() && served.contains(kind));
            kinds.next().or(vectors)
        }
        ModelKind::Completion
        | ModelKind::Image
        | ModelKind::Moderation
        | ModelKind::Rerank
        | ModelKind::Speech
        | ModelKind::Transcription => None,
    }
}

async fn ask_target(asker: &Asker<'_>, target: &Target) -> TargetAnswers {
    let mut asked = TargetAnswers {
        findings: Vec::new(),
        requests: 0,
        cost: Usd::ZERO,
        is_unpriced: false,
    };
    if asker.candidate.health.endpoint == Endpoint::Embeddings {
        let answer = asked
            .send(asker, &json!({ "model": "m", "input": "ping" }))
            .await;
        asked.findings.push(match answer {
            Ok(answer) => asked.finding(
                target,
                CheckState::Ok,
                format!("gives vectors{}", answer.quota_text()),
            ),
            Err(why) => failed_finding(target, &why),
        });
        return asked;
    }
    let together = [Ability::Stream, Ability::Tools, Ability::LateSystem];
    let mut abilities: Vec<(Ability, Result<(), String>)> = Vec::new();
    let quota;
    match asked.send(asker, &chat_request(&together)).await {
        Ok(answer) => {
            quota = answer.quota_text();
            abilities.extend(together.into_iter().map(|one| (one, answer.shows(one))));
        }
        Err(why) if !why.is_about_the_request => {
            asked.findings.push(failed_finding(target, &why));
            return asked;
        }
        // The target refuses one of the abilities: each is asked for alone.
        Err(_) => {
            match asked.send(asker, &chat_request(&[])).await {
                Ok(answer) => quota = answer.quota_text(),
                Err(why) => {
                    asked.findings.push(failed_finding(target, &why));
                    return asked;
                }
            }
            for ability in together {
                abilities.push((ability, asked.test_ability(asker, ability).await));
            }
        }
    }
    let has_schema = asked.test_ability(asker, Ability::Schema).await;
    abilities.push((Ability::Schema, has_schema));
    asked.add_findings(target, &abilities, &quota);
    asked
}

impl TargetAnswers {
    async fn send(&mut self, asker: &Asker<'_>, body: &Value) -> Result<GoodAnswer, NoAnswer> {
        let answer = asker.ask(body).await;
        self.requests += u32::from(!matches!(&answer, Err(why) if why.was_not_sent));
        if let Ok(answer) = &answer {
            match asker.candidate.price {
                Some(price) => self.cost = self.cost.plus(price.cost(&answer.usage)),
                None => self.is_unpriced = true,
            }
        }
        answer
    }

    /// Asks for one ability alone. Fails with the reason why the target does not have it.
    async fn test_ability(&mut self, asker: &Asker<'_>, ability: Ability) -> Result<(), String> {
        let answer = self.send(asker, &chat_request(&[ability])).await;
        answer.map_err(|why| why.message)?.shows(ability)
    }

    fn finding(&self, target: &Target, state: CheckState, seen: String) -> Finding {
        let how_many = format_count(self.requests, "request");
        target_subject(target).finding(state, "ask", format!("{seen} ({how_many})"))
    }

    /// Adds what a target can do, what it cannot, and what to write into the catalog.
    fn add_findings(
        &mut self,
        target: &Target,
        abilities: &[(Ability, Result<(), String>)],
        quota: &str,
    ) {
        let can: Vec<&str> = abilities
            .iter()
            .filter(|(_, has)| has.is_ok())
            .map(|(one, _)| one.name())
            .collect();
        let lists = if can.is_empty() {
            "answers".to_owned()
        } else {
            format!("answers: {}", can.join(", "))
        };
        self.findings
            .push(self.finding(target, CheckState::Ok, format!("{lists}{quota}")));
        for (one, has) in abilities {
            let proposal = one.proposal(target, has);
            let seen = match has {
                Ok(()) if proposal.is_none() => continue,
                Ok(()) => format!("can do {}, and the catalog says that it cannot", one.name()),
                Err(why) => format!("cannot do {}: {why}", one.name()),
            };
            // An ability that the catalog denies already is no surprise.
            let is_known = has.is_err() && one.is_denied(target);
            let state = if is_known {
                CheckState::Ok
            } else {
                CheckState::Warn
            };
            let finding = target_subject(target).finding(state, "ask", seen);
            self.findings.push(match proposal {
                Some(proposal) => finding.with_remedy(proposal),
                None => finding,
            });
        }
    }
}

fn target_subject(target: &Target) -> Subject {
    Subject::named("target", target_name(target))
}

fn target_name(target: &Target) -> String {
    format!("{}/{}", target.account.id, target.model)
}

fn failed_finding(target: &Target, why: &NoAnswer) -> Finding {
    target_subject(target).fail(
        "ask",
        format!("does not answer: {}", why.message),
        why.remedy.clone(),
    )
}

/// Returns a request for a short answer that needs these abilities.
fn chat_request(abilities: &[Ability]) -> Value {
    let has = |one: Ability| abilities.contains(&one);
    let mut messages =
        vec![json!({ "role": "user", "content": "Is water wet? Answer yes or no." })];
    if has(Ability::LateSystem) {
        messages.push(json!({ "role": "system", "content": "Answer in one word." }));
        messages.push(json!({ "role": "user", "content": "Answer now." }));
    }
    let mut body = Map::new();
    let mut add = |name: &str, value: Value| body.insert(name.to_owned(), value);
    add("model", "m".into());
    add("messages", messages.into());
    add("max_completion_tokens", MAX_TOKENS.into());
    if has(Ability::Stream) {
        add("stream", true.into());
        add("stream_options", json!({ "include_usage": true }));
    }
    if has(Ability::Tools) {
        let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
        add(
            "tools",
            json!([{ "type": "function", "function": {
            "name": "weather", "description": "Tells the weather of a city", "parameters": parameters
        } }]),
        );
    }
    if has(Ability::Schema) {
        let schema = json!({ "type": "object", "properties": { "answer": { "type": "string", "enum": ["yes", "no"] } },
            "required": ["answer"], "additionalProperties": false });
        add(
            "response_format",
            json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": true, "schema": schema } }),
        );
    }
    body.into()
}
