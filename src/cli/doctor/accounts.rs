//! The accounts, several at a time: their names, their servers, their certificates, and what their
//! providers list for their credentials.

mod listed;
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::clock::Clocks;
use super::report::{CheckState, Finding, Findings, Subject};
use crate::catalog::{Account, Signer};
use crate::conf::secret_ref::ASSUMED;
use crate::exchange::upstream::Upstream;
use crate::live::Snapshot;
use crate::live::place::Place;

/// The accounts that are looked at side by side.
const AT_ONCE: usize = 16;

/// What was seen of an account.
pub(super) struct Looked {
    findings: Vec<Finding>,
    /// The time before its server was asked, and the time that the server told.
    clock: Option<(SystemTime, SystemTime)>,
}

/// An account, and what the catalog asks it for.
pub(super) struct Patient {
    pub(super) place: Arc<Place>,
    /// Its names for models, without those of patterns.
    pub(super) models: BTreeSet<Arc<str>>,
    /// Its names for the models of patterns; each has a `*`.
    pub(super) patterns: BTreeSet<Arc<str>>,
}

impl Patient {
    fn account(&self) -> &Account {
        &self.place.account
    }

    fn finding(&self, state: CheckState, check: &'static str, seen: impl Into<String>) -> Finding {
        Finding::new(state, subject(self.account()), check, seen)
    }
}

/// Looks at all accounts, and adds the clocks of their servers. What is not known at `due` is told
/// so.
pub(super) async fn look(snapshot: &Snapshot, due: Instant, clocks: &mut Clocks, report: &mut Findings) {
    let (upstream, gate) = (Arc::new(Upstream::default()), Arc::new(Semaphore::new(AT_ONCE)));
    let patients = patients(snapshot);
    let accounts: Vec<Arc<Account>> = patients.iter().map(|patient| patient.place.account.clone()).collect();
    let mut running = JoinSet::new();
    for (nth, patient) in patients.into_iter().enumerate() {
        let (upstream, gate) = (upstream.clone(), gate.clone());
        running.spawn(async move {
            let _place = gate.acquire().await;
            (nth, look_at(&patient, &upstream).await)
        });
    }
    // They are told in the order of the catalog.
    let (mut looked, mut next) = (BTreeMap::new(), 0);
    while let Ok(Some(ended)) = timeout_at(due, running.join_next()).await {
        looked.extend(ended.ok());
        while let Some(Looked { findings, clock }) = looked.remove(&next) {
            findings.into_iter().for_each(|finding| report.add(finding));
            let name = accounts.get(next).map(|account| account.base.host.to_string()).unwrap_or_default();
            if let Some((before, told)) = clock {
                clocks.add(name, before, millis(told));
            }
            next += 1;
        }
    }
    for (nth, account) in accounts.iter().enumerate().skip(next) {
        let findings = looked.remove(&nth).map(|looked: Looked| looked.findings).unwrap_or_else(|| {
            let late = Finding::new(CheckState::Fail, subject(account), "time", "the checks were not over in time");
            vec![late.with("look at this account's server: it answers too slowly")]
        });
        findings.into_iter().for_each(|finding| report.add(finding));
    }
}

/// Returns a time in milliseconds of Unix time.
fn millis(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn subject(account: &Account) -> Subject {
    Subject::named("account", &account.id)
}

/// Lists the accounts, each with the names of its models.
pub(super) fn patients(snapshot: &Snapshot) -> Vec<Patient> {
    let none =
        |place: &Arc<Place>| Patient { place: place.clone(), models: BTreeSet::new(), patterns: BTreeSet::new() };
    let mut patients: Vec<Patient> = snapshot.places.iter().map(none).collect();
    for model in snapshot.catalog.models() {
        for target in &model.targets {
            let Some(patient) = patients.get_mut(target.account.index) else { continue };
            let names = if model.is_pattern() { &mut patient.patterns } else { &mut patient.models };
            names.insert(target.model.clone());
        }
    }
    patients
}

async fn look_at(patient: &Patient, upstream: &Upstream) -> Looked {
    let account = patient.account();
    let only = |finding| Looked { findings: vec![finding], clock: None };
    if !account.enabled {
        return only(patient.finding(CheckState::Skip, "account", "is disabled"));
    }
    if account.dialect.protocol.calls_nobody() {
        return only(patient.finding(CheckState::Ok, "account", "the gateway itself answers for it"));
    }
    let mut findings = Vec::new();
    let mut clock = None;
    if reach::look(patient, upstream, &mut findings).await {
        clock = listed::look(patient, upstream, &mut findings).await;
    }
    Looked { findings, clock }
}

/// Returns whether a secret of the account is only a stand-in, since it could not be read.
pub(super) fn lacks_secret(account: &Account) -> bool {
    let of_aws = match &account.signer {
        Some(Signer::Aws(keys)) => keys.secret_access_key.expose() == ASSUMED || keys.access_key_id.expose() == ASSUMED,
        Some(Signer::Google(..)) | None => false,
    };
    of_aws || account.key.as_ref().is_some_and(|key| key.expose() == ASSUMED)
}
