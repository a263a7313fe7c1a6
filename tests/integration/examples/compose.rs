//! `examples/compose`, without an engine: what its files refer to is there, each service has a
//! health check, the gateway serves with its configuration in front of a real Redis, and Prometheus
//! takes its own.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::folder::Folder;
use crate::support::gateway::{free_port, ready};
use crate::support::redis::Redis;
use crate::support::{chat, root, run};

fn compose() -> Value {
    let text = read("compose.yaml");
    serde_yaml::from_str(&text).expect("YAML")
}

fn read(name: &str) -> String {
    let path = root().join("examples/compose").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn each_service_has_a_health_check_and_its_files() {
    let compose = compose();
    let services = compose["services"].as_object().expect("services");
    for (name, service) in services {
        let test = service["healthcheck"]["test"].as_array().expect("a check");
        assert_eq!(test[0], "CMD", "{name}: no shell is needed");
        let mounts = service["volumes"].as_array().into_iter().flatten();
        for mount in mounts.map(|mount| mount.as_str().expect("a mount")) {
            let source = mount.split(':').next().expect("a source");
            let is_there = match source.starts_with('.') {
                true => root().join("examples/compose").join(source).exists(),
                false => compose["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{name}: {mount}");
        }
        for secret in service["secrets"].as_array().into_iter().flatten() {
            let secret = secret.as_str().expect("a name");
            assert!(compose["secrets"].get(secret).is_some(), "{name}: {secret}");
        }
        for port in service["ports"].as_array().into_iter().flatten() {
            let port = port.as_str().expect("a port");
            assert!(port.starts_with("127.0.0.1:"), "{name} is open: {port}");
        }
        for other in service["depends_on"].as_object().into_iter().flatten() {
            assert!(services.contains_key(other.0), "{name}: {}", other.0);
        }
    }
    let version = format!("portcullis:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(services["gateway"]["image"], version.as_str());
}

#[test]
fn the_gateway_serves_the_demo_with_its_files() {
    run(async {
        let redis = Redis::start();
        let (address, admin) = (free_port(), free_port());
        let folder = Folder::new(&[
            ("secrets/admin", "0123456789abcdef0123456789abcdef\n"),
            ("secrets/seal", "fedcba9876543210fedcba9876543210\n"),
        ]);
        let secrets = folder.path().join("secrets").display().to_string();
        let ledger = folder.path().join("ledger.sqlite").display().to_string();
        let server = [
            ("0.0.0.0:8080", address.to_string()),
            ("0.0.0.0:9090", admin.to_string()),
            ("/var/lib/portcullis/ledger.sqlite", ledger),
            ("redis://redis:6379", redis.url().to_owned()),
            ("/run/secrets", secrets),
        ]
        .into_iter()
        .fold(read("conf/server.yaml"), |server, (written, here)| {
            assert!(server.contains(written), "{written} is in server.yaml");
            server.replace(written, &here)
        });
        folder.write("server.yaml", server);
        folder.write("catalog.yaml", read("conf/catalog.yaml"));
        let check = folder.run(&["check"]);
        assert!(
            check.status.success() && check.stdout.contains("0 warnings"),
            "{}{}",
            check.stdout,
            check.stderr
        );
        let mut gateway = folder.start(&["serve"]);
        ready(&mut gateway, admin).expect("it serves");
        let answer = Command::new("curl")
            .args(["-sS", "--noproxy", "*", "-d", &chat("demo").to_string()])
            .args(["-H", "authorization: Bearer sk-demo-portcullis-published"])
            .arg(format!("http://{address}/v1/chat/completions"))
            .output()
            .expect("curl");
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("an answer");
        assert!(answer["usage"]["total_tokens"].is_u64(), "{answer}");
    });
}

#[test]
fn prometheus_takes_its_configuration_and_the_alerts() {
    let folder = Folder::new(&[
        ("prometheus.yml", &read("prometheus/prometheus.yml")),
        ("admin", "0123456789abcdef0123456789abcdef"),
    ]);
    let configuration = read("prometheus/prometheus.yml").replace(
        "/run/secrets/admin",
        &folder.path().join("admin").display().to_string(),
    );
    folder.write("prometheus.yml", configuration);
    let alerts = root().join("packaging/prometheus/alerts.yml");
    std::fs::copy(alerts, folder.path().join("alerts.yml")).expect("the alerts");
    let output = Command::new("promtool")
        .args(["check", "config"])
        .arg(folder.path().join("prometheus.yml"))
        .output()
        .expect("promtool");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains("1 rule files found"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn grafana_finds_the_board_and_prometheus() {
    let compose = compose();
    let source: Value = serde_yaml::from_str(&read("grafana/datasource.yaml")).expect("YAML");
    let source = &source["datasources"][0];
    assert_eq!(source["type"], "prometheus");
    let url = source["url"].as_str().expect("an address");
    assert!(compose["services"]["prometheus"].is_object() && url == "http://prometheus:9090");
    let boards: Value = serde_yaml::from_str(&read("grafana/dashboards.yaml")).expect("YAML");
    let folder = boards["providers"][0]["options"]["path"]
        .as_str()
        .expect("a folder");
    let grafana = &compose["services"]["grafana"];
    let mounts = grafana["volumes"].as_array().expect("mounts");
    let board = mounts
        .iter()
        .filter_map(Value::as_str)
        .find(|mount| mount.contains(".json"))
        .expect("the board is mounted");
    let inside = board.split(':').nth(1).expect("a path");
    assert_eq!(Path::new(inside).parent(), Some(Path::new(folder)));
    assert_eq!(
        grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"],
        inside
    );
}
