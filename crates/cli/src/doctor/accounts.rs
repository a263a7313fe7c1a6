//! The accounts, several at a time: their names, their servers, their certificates, and what their
//! providers list for their credentials.

mod credential;
mod endpoints;
mod listed;
mod reach;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

pub(crate) use credential::CREDENTIAL;

use super::CHECKS_TIMEOUT;
use super::clock::Clocks;
use super::report::{CheckState, Checked, Finding, Findings, Subject};
use super::side_by_side::{Ending, NOT_IN_TIME, SideBySide, bug_finding};
use super::words;
use dialects::neutral::ModelKind;
use portcullis::account::failure::Failure;
use portcullis::base::calendar::unix_millis;
use portcullis::catalog::listing::ListedNames;
use portcullis::catalog::{Account, Signer};
use portcullis::conf::secret_ref::STAND_IN;
use portcullis::exchange::upstream::Upstream;
use portcullis::live::Snapshot;
use portcullis::live::ready_account::ReadyAccount;

/// The result of checking an account.
#[derive(Default)]
pub(crate) struct AccountResult {
    pub(crate) findings: Vec<Finding>,
    pub(crate) server_report: ServerReport,
    /// True if its server cannot be reached.
    is_unreached: bool,
}

impl AccountResult {
    fn only(finding: Finding) -> AccountResult {
        AccountResult {
            findings: vec![finding],
            ..AccountResult::default()
        }
    }
}

/// The answers of an account's server.
#[derive(Default)]
pub(crate) struct ServerReport {
    /// Its models, if it has sent a list.
    pub(crate) listed: Option<ListedNames>,
    /// The time before it was asked, and the time that it showed.
    clock: Option<(SystemTime, SystemTime)>,
    /// True if it refuses the credential.
    is_refused: bool,
}

/// An account, and what the catalog asks it for.
pub(super) struct CheckedAccount {
    pub(super) ready_account: Arc<ReadyAccount>,
    /// Its names for models, without those of patterns, and what each is for.
    pub(super) models: BTreeMap<Arc<str>, ModelKind>,
    /// Its names for the models of patterns; each has a `*`.
    pub(super) patterns: BTreeSet<Arc<str>>,
}

impl CheckedAccount {
    fn new(ready_account: Arc<ReadyAccount>) -> CheckedAccount {
        CheckedAccount {
            ready_account,
            models: BTreeMap::new(),
            patterns: BTreeSet::new(),
        }
    }

    fn account(&self) -> &Account {
        &self.ready_account.account
    }
}

impl Checked for CheckedAccount {
    fn finding(
        &self,
        state: CheckState,
        check: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
    ) -> Finding {
        let account = self.account();
        let seen = words::redact_long_secrets(&seen.into(), account.secrets());
        account_subject(account).finding(state, check, seen)
    }
}

/// Checks all accounts, and adds the clocks of their servers. Accounts that are not done at `due`
/// are reported so. Returns the indexes of the accounts that cannot be asked: their servers are not
/// reached, or refuse the credential.
pub(super) async fn check_accounts(
    snapshot: &Snapshot,
    due: Instant,
    clocks: &mut Clocks,
    report: &mut Findings,
) -> BTreeSet<usize> {
    let upstream = Arc::new(Upstream::default());
    let checked_accounts = list_accounts(snapshot);
    let accounts: Vec<Arc<Account>> = checked_accounts
        .iter()
        .map(|checked| checked.ready_account.account.clone())
        .collect();
    let checks = checked_accounts.into_iter().map(|checked| {
        let upstream = upstream.clone();
        async move { check_account(&checked, &upstream).await }
    });
    let mut running = SideBySide::start(checks, due);
    let mut outcomes = Outcomes {
        clocks,
        report,
        hosts: BTreeSet::new(),
        unreached: BTreeSet::new(),
    };
    // They are reported in the order of the catalog.
    for account in &accounts {
        if let Some(ending) = running.next().await {
            outcomes.add(account, account_result(account, ending));
        }
    }
    outcomes.unreached
}

/// Checks a few accounts side by side. The catalog has no model of theirs yet.
pub(crate) async fn check_each(accounts: Vec<Arc<ReadyAccount>>) -> Vec<AccountResult> {
    let upstream = Arc::new(Upstream::default());
    let asked: Vec<Arc<Account>> = accounts
        .iter()
        .map(|ready_account| ready_account.account.clone())
        .collect();
    let checks = accounts.into_iter().map(|ready_account| {
        let (upstream, checked) = (upstream.clone(), CheckedAccount::new(ready_account));
        async move { check_account(&checked, &upstream).await }
    });
    let mut running = SideBySide::start(checks, Instant::now() + CHECKS_TIMEOUT);
    let mut results = Vec::new();
    for account in &asked {
        if let Some(ending) = running.next().await {
            results.push(account_result(account, ending));
        }
    }
    results
}

/// The places where the outcomes of all accounts go.
struct Outcomes<'o> {
    clocks: &'o mut Clocks,
    report: &'o mut Findings,
    /// The hosts whose clocks are known.
    hosts: BTreeSet<String>,
    /// The indexes of the accounts that cannot be asked.
    unreached: BTreeSet<usize>,
}

impl Outcomes<'_> {
    fn add(&mut self, account: &Account, result: AccountResult) {
        for finding in result.findings {
            self.report.add(finding);
        }
        if result.is_unreached || result.server_report.is_refused {
            self.unreached.insert(account.index);
        }
        let host = account.base.host.to_string();
        if let Some((before, clock)) = result.server_report.clock
            && self.hosts.insert(host.clone())
        {
            self.clocks.add(host, before, unix_millis(clock));
        }
    }
}

/// Returns the result of an account's check, however it ended. Whoever had to wait for others has
/// no fault in it.
fn account_result(account: &Account, ending: Ending<AccountResult>) -> AccountResult {
    let subject = account_subject(account);
    match ending {
        Ending::Done(result) => result,
        Ending::Late => AccountResult {
            is_unreached: true,
            ..AccountResult::only(subject.fail(
                "time",
                NOT_IN_TIME,
                "look at this account's server: it answers too slowly",
            ))
        },
        Ending::NotBegun => {
            AccountResult::only(subject.skip("time", "no time was left: mend the accounts above"))
        }
        Ending::Panicked => AccountResult {
            is_unreached: true,
            ..AccountResult::only(bug_finding(&subject, "account"))
        },
    }
}

fn account_subject(account: &Account) -> Subject {
    Subject::named("account", &account.id)
}

/// Lists the accounts, each with the names of its models.
pub(super) fn list_accounts(snapshot: &Snapshot) -> Vec<CheckedAccount> {
    let mut accounts: Vec<CheckedAccount> = snapshot
        .ready_accounts
        .iter()
        .map(|ready_account| CheckedAccount::new(ready_account.clone()))
        .collect();
    for model in snapshot.catalog.models() {
        for target in &model.targets {
            let Some(checked) = accounts.get_mut(target.account.index) else {
                continue;
            };
            if model.is_pattern() {
                checked.patterns.insert(target.model.clone());
            } else {
                checked
                    .models
                    .insert(target.model.clone(), made_for(model.kind, &target.model));
            }
        }
    }
    accounts
}

/// Returns the kind of a model: from the catalog, or else from its name.
pub(crate) fn made_for(written: Option<ModelKind>, name: &str) -> ModelKind {
    let default_kind = if name.contains("embed") {
        ModelKind::Embedding
    } else {
        ModelKind::Chat
    };
    written
        .or_else(|| ModelKind::of_name(name))
        .unwrap_or(default_kind)
}

async fn check_account(checked: &CheckedAccount, upstream: &Upstream) -> AccountResult {
    let account = checked.account();
    if !account.enabled {
        return AccountResult::only(checked.skip("account", "is disabled"));
    }
    if account.dialect.protocol.calls_nobody() {
        return AccountResult::only(checked.ok("account", "the gateway itself answers for it"));
    }
    let mut findings = Vec::new();
    if reach::check_reach(checked, upstream, &mut findings).await {
        let server_report = listed::check_credential(checked, upstream, &mut findings).await;
        return AccountResult {
            findings,
            server_report,
            is_unreached: false,
        };
    }
    AccountResult {
        findings,
        server_report: ServerReport::default(),
        is_unreached: true,
    }
}

/// Returns what is known of a failure, without secrets.
fn failure_text(checked: &CheckedAccount, failure: &Failure) -> String {
    words::failure_words(failure, &checked.account().secrets())
}

/// Returns whether a secret of the account is only a stand-in, since it could not be read.
pub(super) fn lacks_secret(account: &Account) -> bool {
    let of_aws = match &account.signer {
        Some(Signer::Aws(keys)) => {
            keys.secret_access_key.expose() == STAND_IN || keys.access_key_id.expose() == STAND_IN
        }
        Some(Signer::Source(_)) | None => false,
    };
    of_aws
        || account
            .key
            .as_ref()
            .is_some_and(|key| key.expose() == STAND_IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::side_by_side::MAX_AT_ONCE;
    use portcullis::catalog::Catalog;
    use portcullis::catalog::resolve::resolve_catalog;
    use portcullis::explain::standalone_snapshot;
    use std::time::Duration;

    fn catalog(text: String) -> Catalog {
        resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
            Ok(String::new())
        })
        .expect("a catalog")
    }

    #[test]
    fn a_check_that_panicked_is_no_slow_server() {
        let catalog =
            catalog("accounts: { a: { dialect: demo } }\nmodels: {}\ncallers: {}\n".to_owned());
        let account = catalog.account("a").expect("an account");
        let AccountResult {
            findings,
            is_unreached,
            ..
        } = account_result(account, Ending::Panicked);
        let finding = serde_json::to_value(&findings).unwrap();
        assert_eq!(finding[0]["state"], "fail");
        assert_eq!(finding[0]["subject"]["name"], "a");
        assert_eq!(
            finding[0]["seen"],
            "the check itself panicked, which is a bug of Portcullis"
        );
        assert!(
            is_unreached,
            "nothing is known of it, and asking costs money"
        );
    }

    /// As many accounts as are looked at side by side have a server that says nothing; one more has
    /// to wait.
    #[tokio::test]
    async fn an_account_that_waited_for_others_is_not_slow() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", server.local_addr().unwrap());
        let accounts: String = (0..=MAX_AT_ONCE)
            .map(|nth| {
                format!(
                    "  a{nth:02}: {{ dialect: openai, base_url: \"{url}\", key: k-0123456789 }}\n"
                )
            })
            .collect();
        let text = format!("accounts:\n{accounts}models: {{}}\ncallers: {{}}\n");
        let catalog = catalog(text);
        let mut report = Findings::new(true);
        let due = Instant::now() + Duration::from_secs(2);
        check_accounts(
            &standalone_snapshot(catalog, Arc::default()),
            due,
            &mut Clocks::default(),
            &mut report,
        )
        .await;
        let told = |id: &str| {
            let of = report
                .all()
                .iter()
                .map(|one| serde_json::to_value(one).unwrap());
            let of: Vec<_> = of.filter(|one| one["subject"]["name"] == id).collect();
            of.last()
                .map(|one| (one["state"].clone(), one["seen"].clone()))
                .expect("a finding")
        };
        assert_eq!(
            told("a00"),
            ("fail".into(), "the checks were not over in time".into())
        );
        assert_eq!(
            told("a15"),
            ("fail".into(), "the checks were not over in time".into())
        );
        assert_eq!(
            told("a16"),
            (
                "skip".into(),
                "no time was left: mend the accounts above".into()
            )
        );
    }
}
