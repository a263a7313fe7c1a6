//! The catalog's habits: which of its keys may be shown, and what to write instead of words that
//! people bring from elsewhere.
//!
//! **Invariant:** a key is shown where it is a word of ours, or an id. Anything else may be a
//! secret in the wrong place.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::Catalog;
use crate::base::problem::unless_secret;
use crate::catalog::name;
use crate::conf::yaml::habits::all_fields;
use crate::conf::yaml::read::FileKind;
use dialects::upstream;

/// The catalog's files.
pub const KIND: FileKind = FileKind {
    shows: can_show_key,
    habits: HABITS,
};

/// Headers that a credential is sent in: those of the dialects, and the one of bearers.
pub static CREDENTIAL_HEADERS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let own = upstream::ALL
        .iter()
        .filter_map(|protocol| protocol.key_header);
    own.chain(["authorization"]).collect()
});
/// Headers that the gateway itself writes.
pub const OWN_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-request-id",
];

/// Further headers that messages may name. The name of any other header may be a secret.
const HEADERS: [&str; 4] = [
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-goog-user-project",
];

/// Returns whether a key below another may be shown.
fn can_show_key(section: Option<&str>, key: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(all_fields::<Catalog>);
    match section {
        Some("accounts" | "callers" | "keys" | "identities") => {
            name::of_entry(key).is_ok() && unless_secret(key) == key
        }
        // Claims and their values.
        Some("require" | "map") => unless_secret(key) == key,
        Some("models") => {
            (name::of_model(key).is_ok() || name::of_pattern(key).is_ok())
                && unless_secret(key) == key
        }
        Some("headers") => {
            let key = key.to_ascii_lowercase();
            [&HEADERS[..], &CREDENTIAL_HEADERS, &OWN_HEADERS]
                .iter()
                .any(|headers| headers.contains(&key.as_str()))
        }
        _ => WORDS.contains(key),
    }
}

/// The habits; see [`table_rows`](crate::conf::yaml::habits::table_rows).
const HABITS: &str = r#"
api_key apikey api-key key_env api_key_env env_key token auth_token bearer_token access_token secret | dialect | write `key: { env: OPENAI_API_KEY }` with the name of the variable that holds the key, or `key: { file: /path }`
api_base base baseurl base-url api_base_url api_url url uri endpoint address host hostname azure_endpoint | dialect | write `base_url: https://api.example.com/v1`, with the API's version in it
port | dialect | the port is a part of the address: write `base_url: http://127.0.0.1:8000/v1`
provider type kind vendor custom_llm_provider llm_provider schema format | dialect | write `dialect: openai`, or `preset: groq` for a server that `portcullis presets` lists
timeout request_timeout stream_timeout read_timeout connect_timeout | dialect | write `timeouts: { total: 30s }`, each time with its unit
timeout request_timeout stream_timeout | targets | write `timeouts: { total: 30s }`, each time with its unit
timeout request_timeout request read response | first_byte | write `total: 30s`, with its unit
rpm tpm rpm_limit tpm_limit rate_limit ratelimit rate_limits | dialect | an account can only have `concurrency`; write rate limits at callers and keys: `limits: { requests_per_minute: 600, tokens_per_minute: 200000 }`
rpm rpm_limit rate_limit ratelimit rate_limits requests_per_min | keys hash | write `limits: { requests_per_minute: 600 }`
tpm tpm_limit tokens_per_min | keys hash | write `limits: { tokens_per_minute: 200000 }`
rpm rpm_limit requests requests_per_min | requests_per_minute | write `requests_per_minute: 600`
tpm tpm_limit tokens tokens_per_min | requests_per_minute | write `tokens_per_minute: 200000`
rpm tpm | targets | write limits at callers and keys: `limits: { requests_per_minute: 600, tokens_per_minute: 200000 }`
max_parallel_requests max_concurrency max_connections max_concurrent_requests parallel | dialect | write `concurrency: 200`
max_parallel_requests max_concurrency max_concurrent_requests parallel | requests_per_minute | write `concurrency: 50`
max_parallel_requests | keys hash | write `limits: { concurrency: 50 }`
max_budget budget budget_limit | keys hash | write `limits: { usd_per_month: 100 }`, or `usd_per_day`
max_budget budget | requests_per_minute | write `usd_per_month: 100`, or `usd_per_day`
organization org organization_id | dialect | write `headers: { OpenAI-Organization: org-1 }`
aws_access_key_id aws_secret_access_key aws_session_token access_key_id secret_access_key | dialect | write `aws: { access_key_id: { env: AWS_ACCESS_KEY_ID }, secret_access_key: { env: AWS_SECRET_ACCESS_KEY } }`
aws_role_name aws_role_arn role_arn aws_session_name aws_web_identity_token aws_sts_endpoint aws_external_id | dialect | write `aws: { from: web_identity }`, or `aws: { …, assume: { role: … } }` with keys of yours
tenant_id client_id client_secret azure_ad_token azure_ad_token_provider enable_azure_ad_token_refresh | dialect | write `identity: workload`, or `identity: { from: client_secret, tenant: …, client_id: …, client_secret: { env: NAME } }`
aws_region_name aws_region | dialect | write `region: us-east-1`
vertex_project project_id | dialect | write `project: my-project`
vertex_location | dialect | write `location: europe-west4`
vertex_credentials credentials service_account_key | dialect | write `service_account: { file: /path.json }`
models model model_name | dialect | an account has no list of models: write `models: { NAME: { targets: [{ account: …, model: … }] } }` at the top level
extra_headers default_headers custom_headers header | dialect | write `headers: { NAME: VALUE }`
http_proxy https_proxy proxy_url proxies outbound_proxy forward_proxy | dialect | write `proxy: http://host:port`, or `proxy: { env: NAME }` if it has a password
max_retries num_retries retries | dialect targets | write this in server.yaml: `attempts: 3` is how many targets one request may try
verify ssl_verify insecure_skip_verify skip_verify | ca | certificates are always checked; write `ca: /path.pem` to trust another one
ssl_verify verify_ssl insecure_skip_verify | dialect | certificates are always checked; write `tls: { ca: /path.pem }` to trust another one

litellm_params params deployments backends providers accounts account upstreams provider | targets | write `targets: [{ account: NAME }]`
model_name model upstream_model | targets | write it at the target: `targets: [{ account: NAME, model: … }]`
provider upstream backend name | tier | write `account: NAME`
max_tokens | targets | write `defaults: { max_tokens: 1024 }`
routing_strategy load_balancing lb_policy balancing | targets | write `strategy: priority`, or weighted, least_busy, fastest
priority order | tier | write `tier: 1`; the lowest tier is tried first
input_cost_per_token output_cost_per_token | targets tier | write `price: { input: 0.15, output: 0.60 }`, in USD per million tokens

key api_key api_keys virtual_keys tokens | expose_cost | write `keys: { NAME: { hash: … } }`; `portcullis key new` writes this for you
key value secret token api_key | hashes | write the key's hash, not the key: `portcullis key hash` makes the hash from the key
allowed_ips ips ip_allowlist allow_ip | hash | write `allow_ips: [10.0.0.0/8]`
allowed_models model | hash keys | write `models: ["gpt-*"]`
duration ttl expires_at expiry | hash | write `expires: 2030-01-01`

model_list routes | callers | write `models: { NAME: { targets: [{ account: NAME }] } }`
providers upstreams backends clusters endpoints | callers | write `accounts: { NAME: { dialect: openai, key: { env: OPENAI_API_KEY } } }`
users teams keys virtual_keys api_keys consumers clients | callers | write `callers: { NAME: { keys: … } }`; `portcullis key new --create` writes this for you
general_settings litellm_settings router_settings server listen listeners log limits timeouts port admin ledger store | callers | write this in server.yaml, which has the settings of the process

value literal secret key | env | write `{ env: NAME }` or `{ file: /path }`, or, less safe, the secret itself in place of this map
variable name var env_var from_env | env | write `env: NAME`
path filename from_file | env | write `file: /path`
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::yaml::habits::table_rows;

    #[test]
    fn s06_only_words_of_ours_and_ids_are_shown() {
        for (section, key) in [
            (None, "accounts"),
            (Some("accounts"), "openai-main"),
            (Some("models"), "meta-llama/Llama-3"),
            (Some("keys"), "prod"),
            (Some("headers"), "Authorization"),
            (Some("openai-main"), "base_url"),
            (Some("targets"), "account"),
        ] {
            assert!(can_show_key(section, key), "{key}");
        }
        for (section, key) in [
            (None, "hunter2"),
            (Some("accounts"), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            (Some("accounts"), "sk-0123456789abcdef"),
            (Some("headers"), "hunter2"),
            (Some("model_limits"), "hunter2"),
            (Some("openai-main"), "hunter2"),
        ] {
            assert!(!can_show_key(section, key), "{key}");
        }
    }

    #[test]
    fn no_habit_is_a_word_that_is_right() {
        let words = all_fields::<Catalog>();
        assert_eq!(
            table_rows(HABITS).count(),
            HABITS.lines().filter(|line| !line.is_empty()).count()
        );
        for (brought, beside, instead) in table_rows(HABITS) {
            for beside in beside.split(' ') {
                assert!(
                    words.contains(beside) || ["env"].contains(&beside),
                    "{beside}"
                );
                assert!(
                    brought.split(' ').all(|word| word != beside),
                    "{beside}: {instead}"
                );
            }
        }
    }
}
