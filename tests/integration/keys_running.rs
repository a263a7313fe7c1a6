//! `portcullis key …` says that a change is made when the gateway that runs on the folder has it,
//! and not before.

use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::canary::KEY;
use crate::support::client;
use crate::support::folder::Folder;
use crate::support::gateway::{free_port, portcullis};
use crate::support::{Catalog, Gateway, Mock, PATIENCE, chat, run, run_within};

/// What a command says when the running gateway uses the changes change.
const HAS: &str = "the running gateway uses the change";
const NOBODY: &str = "no gateway runs on this folder";

fn key(conf: &std::path::Path, arguments: &[&str]) -> (Output, String, Duration) {
    let start = Instant::now();
    let output = portcullis(&[&["key"], arguments, &["--conf", conf.to_str().unwrap()]].concat());
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, told, start.elapsed())
}

#[test]
fn the_gateway_obeys_a_command_once_it_ends() {
    run_within(Duration::from_secs(100), async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let status = async |secret: &str| {
            gateway
                .raw(client::post_as(secret, &chat("m")))
                .await
                .status
        };
        let mut secrets = Vec::new();
        // Each of a loop is in effect when it is told, and so none starves another.
        for number in 0..6 {
            let (output, told, _) = key(
                &gateway.conf,
                &["new", "--caller", "acme", "--name", &format!("k{number}")],
            );
            assert!(output.status.success() && told.contains(HAS), "{told}");
            secrets.push(String::from_utf8(output.stdout).unwrap().trim().to_owned());
            assert_eq!(status(secrets.last().unwrap()).await, 200, "key {number}");
        }
        for (arguments, secret, wanted) in [
            (&["disable", "acme/k0"][..], &secrets[0], 401),
            (&["enable", "acme/k0"], &secrets[0], 200),
            (
                &["expire", "acme/k1", "--at", "2020-01-01"],
                &secrets[1],
                401,
            ),
            (&["rotate", "acme/k2", "--overlap", "0s"], &secrets[2], 401),
        ] {
            let (output, told, _) = key(&gateway.conf, arguments);
            assert!(
                output.status.success() && told.contains(HAS),
                "{arguments:?}: {told}"
            );
            assert_eq!(status(secret).await, wanted, "{arguments:?}");
        }
        let (output, told, _) = key(&gateway.conf, &["enable", "acme/k0"]);
        assert!(
            output.status.success() && told.contains("is already enabled") && told.contains(HAS),
            "{told}"
        );
    });
}

#[test]
fn where_nobody_listens_commands_end_at_once() {
    let admin = free_port();
    let server = format!("admin: {{ address: \"{admin}\" }}\n");
    let folder = Folder::new(&[
        ("server.yaml", &server),
        ("catalog.yaml", &Catalog::new().to_string()),
    ]);
    let mut quickest = Duration::MAX;
    for arguments in [
        &["new", "--caller", "acme", "--name", "ci"][..],
        &["disable", "acme/ci"],
        &["disable", "acme/ci"],
        &["expire", "acme/ci", "--in", "1d"],
        &["rotate", "acme/ci"],
    ] {
        let (output, told, took) = key(folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {told}");
        assert!(
            told.contains(NOBODY)
                && told.contains("the next gateway that starts will use the change"),
            "{arguments:?}: {told}"
        );
        quickest = quickest.min(took);
    }
    // A gateway that is there is waited for for five seconds.
    assert!(quickest < Duration::from_secs(3), "{quickest:?}");
}

#[test]
fn a_gateway_that_serves_another_folder_is_not_believed() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let server = format!("admin: {{ address: \"{}\" }}\n", gateway.admin);
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", &Catalog::over(&mock).to_string()),
        ]);
        let (output, told, _) = key(folder.path(), &["disable", "acme/prod"]);
        assert!(
            output.status.success() && told.contains(NOBODY) && !told.contains(HAS),
            "{told}"
        );
        assert!(
            told.contains(&format!(
                "serves another folder, {}",
                gateway.conf.display()
            )),
            "{told}"
        );
        assert_eq!(
            gateway.raw(client::post_as(KEY, &chat("m"))).await.status,
            200,
            "the other one is as it was"
        );
        // The same folder by another name is the same one.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&gateway.conf, &link).unwrap();
        let (output, told, _) = key(&link, &["disable", "acme/prod"]);
        assert!(output.status.success() && told.contains(HAS), "{told}");
        assert_eq!(
            gateway.raw(client::post_as(KEY, &chat("m"))).await.status,
            401
        );
    });
}

#[test]
fn what_the_gateway_does_not_take_is_not_claimed() {
    run_within(Duration::from_secs(100), async {
        for _ in 0..6 {
            if not_taken().await {
                return;
            }
        }
        panic!("a change was always taken, though it came with one that must be refused");
    });
}

/// Returns false if the change came so much later than a wrong one that it was taken by itself: a
/// slow machine may do that, and then it is true what the command claims.
async fn not_taken() -> bool {
    let mock = Mock::start().await;
    let gateway =
        Gateway::start(Catalog::over(&mock).caller("beta", "sk-CaNaRy-caller-beta", "")).await;
    // Only the gateway knows that this file is not there: the command reads no secrets.
    std::fs::create_dir_all(gateway.conf.join("catalog.d")).unwrap();
    let more = "accounts: { b: { dialect: openai, key: { file: nowhere } } }\n";
    let is_written = || {
        std::fs::read_to_string(gateway.conf.join("catalog.yaml"))
            .unwrap()
            .contains("enabled: false")
    };
    let (output, told, took) = std::thread::scope(|scope| {
        // It is not left alone before the command has written, too.
        scope.spawn(|| {
            for _ in 0..200 {
                std::fs::write(gateway.conf.join("catalog.d/b.yaml"), more).unwrap();
                if is_written() {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        key(&gateway.conf, &["disable", "beta/prod"])
    });
    if told.contains(HAS) {
        assert_eq!(
            gateway
                .raw(client::post_as("sk-CaNaRy-caller-beta", &chat("m")))
                .await
                .status,
            401,
            "{told}"
        );
        return false;
    }
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        !told.contains("is disabled")
            && told.contains("is not in effect yet")
            && told.contains("b.yaml:1 accounts.b.key.file"),
        "{told}"
    );
    assert!(took < 2 * PATIENCE, "{took:?}");
    let (output, told, _) = key(&gateway.conf, &["disable", "beta/prod"]);
    assert!(
        output.status.code() == Some(1) && told.contains("not in effect yet"),
        "{told}"
    );
    assert_eq!(
        gateway
            .raw(client::post_as("sk-CaNaRy-caller-beta", &chat("m")))
            .await
            .status,
        200
    );
    std::fs::remove_file(gateway.conf.join("catalog.d/b.yaml")).unwrap();
    let (output, told, _) = key(&gateway.conf, &["disable", "beta/prod"]);
    assert!(
        output.status.success() && told.contains("is already disabled") && told.contains(HAS),
        "{told}"
    );
    assert_eq!(
        gateway
            .raw(client::post_as("sk-CaNaRy-caller-beta", &chat("m")))
            .await
            .status,
        401
    );
    true
}
