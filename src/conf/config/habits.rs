//! The habits of `server.yaml` are words that people bring from elsewhere, each with the words to
//! write instead. This module has them, and says which keys may be shown.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::raw::Server;
use crate::conf::yaml::habits::all_fields;
use crate::conf::yaml::read::FileKind;

/// The kind of the file `server.yaml`.
pub(super) const KIND: FileKind = FileKind {
    shows: can_show_key,
    habits: HABITS,
};

/// The table of habits; see [`table_rows`](crate::conf::yaml::habits::table_rows).
const HABITS: &str = r#"
port host bind bind_address address addr listen_address listeners server | listen | write `listen: [{ address: 127.0.0.1:8080 }]`; to serve the whole network write 0.0.0.0:8080
port host bind addr ip socket_address | h2c | write `address: 127.0.0.1:8080`, an IP address and a port
port host bind addr ip listen | address | write `address: 127.0.0.1:9090`, an IP address and a port
metrics_port admin_port prometheus status | listen | write `admin: { address: 127.0.0.1:9090 }`
address port listen path enabled | labels | `/metrics` is on the listener of operators: write `admin: { address: 127.0.0.1:9090 }`
label dimensions exclude drop | labels | write `labels: [account]` to leave the label caller out
timeout request_timeout | attempts | write `timeouts: { total: 30s }` at the accounts or models in catalog.yaml, each time with its unit
timeout read request | client_read | write `client_read: 30s`, with its unit
max_retries num_retries retries retry | attempts | write `attempts: 3`
threads num_workers worker_threads concurrency | workers | write `workers: 0`, which means one for each core
log_level loglevel verbose debug set_verbose logging | log | write `log: { level: info }`
log_format access_log json_logs | log | write `log: { format: json, access: stdout }`
tls ssl ssl_certfile ssl_keyfile certificate | listen | write `listen: [{ address: …, tls: { cert: cert.pem, key: key.pem } }]`
certificate certfile cert_file chain | cert | write `cert: cert.pem`
private_key keyfile key_file | cert | write `key: key.pem`
redis redis_url redis_host cache | store | write `store: { redis: { env: REDIS_URL } }`
url host address | redis | write `redis: redis://host:6379`
database database_url db sqlite | ledger | write `ledger: { path: data/ledger.sqlite }`
max_body_size max_request_size body_limit max_request_size_mb | limits | write `limits: { request_body: 32MiB }`
allow_origins allowed_origins cors_origins | cors | write `cors: { origins: [https://app.example.com] }`
allow_origins allowed_origins | origins | write `origins: [https://app.example.com]`
shutdown_timeout grace_period graceful_shutdown | drain | write `drain: { grace: 25s }`
proxy http_proxy https_proxy no_proxy all_proxy outbound_proxy forward_proxy | listen | write `upstream_proxy: environment` to use HTTPS_PROXY and NO_PROXY, or `proxy: http://host:port` at an account in catalog.yaml
webhook webhook_url slack slack_webhook alerting alerts notifications | notify | write `notify: { webhook: { env: WEBHOOK_URL } }`
otel opentelemetry tracing telemetry otlp langfuse phoenix | traces | write `traces: { endpoint: "http://collector:4318" }`
url otlp_endpoint otel_endpoint host | endpoint | write `endpoint: http://collector:4318`
protocol exporter | endpoint | traces are sent as protobuf over HTTP only: remove this, and write `endpoint: http://collector:4318` with the port for HTTP
sampler sample_rate sampling_rate rate ratio sampling | sample | write `sample: 10%`
attributes resource_attributes service_name | resource | write `resource: { service.name: my-gateway }`
url | webhook | write `webhook: { env: WEBHOOK_URL }`, or `webhook: { file: /path }`
master_key api_key api_keys keys auth | listen | the hashes of keys are in the catalog: `portcullis key new --create` makes the first key
accounts models callers model_list providers clusters routes upstreams backends litellm_settings router_settings | listen | write `accounts`, `models` and `callers` in catalog.yaml
general_settings settings | listen | write the fields of this map at the top level of this file
"#;

fn can_show_key(_: Option<&str>, key: &str) -> bool {
    static WORDS: LazyLock<BTreeSet<String>> = LazyLock::new(all_fields::<Server>);
    WORDS.contains(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::yaml::habits::table_rows;

    #[test]
    fn each_line_of_the_table_is_a_row() {
        assert_eq!(
            table_rows(HABITS).count(),
            HABITS.lines().filter(|line| !line.is_empty()).count()
        );
    }
}
