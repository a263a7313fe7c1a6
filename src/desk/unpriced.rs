//! Notes which targets were not asked, because money is limited and their price is not known. The
//! page `/status` names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::lock::Lock;
use crate::plan::Candidate;
use crate::status::UnpricedReport;

/// The most targets that are named.
const MAX_TARGETS: usize = 100;

/// The targets that were not asked under one catalog.
#[derive(Default)]
pub struct Unpriced(Lock<Noted>);

#[derive(Default)]
struct Noted {
    generation: u64,
    requests: BTreeMap<Named, u64>,
}

/// The model, the account, the account's name for the model, and the kind of endpoint.
type Named = (Arc<str>, Arc<str>, Arc<str>, &'static str);

impl Unpriced {
    /// Notes that a request was not sent to these candidates. What was noted under an older catalog
    /// is forgotten: the new one may have the prices.
    pub fn note(&self, candidates: &[Candidate], generation: u64) {
        if candidates.is_empty() {
            return;
        }
        let mut noted = self.0.lock();
        if noted.generation < generation {
            *noted = Noted {
                generation,
                ..Noted::default()
            };
        }
        if noted.generation != generation {
            return;
        }
        for candidate in candidates {
            let (model, account) = (candidate.model.id.clone(), candidate.account().id.clone());
            let name = (
                model,
                account,
                candidate.upstream_model.clone(),
                candidate.health.endpoint.name(),
            );
            if noted.requests.len() < MAX_TARGETS || noted.requests.contains_key(&name) {
                let requests = noted.requests.entry(name).or_default();
                *requests = requests.saturating_add(1);
            }
        }
    }

    /// Returns what was noted under this catalog.
    pub fn report(&self, generation: u64) -> Vec<UnpricedReport> {
        let noted = self.0.lock();
        let requests = noted
            .requests
            .iter()
            .filter(|_| noted.generation == generation);
        let reports =
            requests.map(
                |((model, account, upstream_model, endpoint), requests)| UnpricedReport {
                    account: account.to_string(),
                    endpoint: (*endpoint).to_owned(),
                    model: model.to_string(),
                    requests: *requests,
                    upstream_model: upstream_model.to_string(),
                },
            );
        reports.collect()
    }
}
