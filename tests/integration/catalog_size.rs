//! How large a catalog may be: `catalog_size` of server.yaml.

use crate::support::gateway::portcullis;
use crate::support::{Catalog, Gateway, Mock, chat, eventually, run};

/// A file of the catalog with so many KiB.
fn file_of(kib: usize) -> String {
    format!("# {}\n{{}}\n", "x".repeat((kib << 10) - 6))
}

/// What is said of files that have more than 64 KiB.
const TOO_LARGE: [&str; 4] = [
    "catalog.d/more.yaml: is too large: the files of the catalog have",
    "together, and `catalog_size` allows 64 KiB",
    "more.yaml has 70 KiB",
    "Write `catalog_size: 1MiB` in server.yaml and restart the gateway, or remove entries",
];

#[track_caller]
fn says_all(text: &str) {
    for words in TOO_LARGE {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn a_catalog_above_catalog_size_is_refused() {
    run(async {
        let mock = Mock::start().await;
        let setup = || Gateway::with(Catalog::over(&mock)).file("catalog.d/more.yaml", file_of(70));
        let (status, output) = setup().server("catalog_size: 64KiB").refuse();
        assert!(!status.success());
        says_all(&output);
        // With the setting that the error names, the same files are served.
        let gateway = setup().server("catalog_size: 1MiB").start().await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let check = || {
            portcullis(&[
                "check",
                "--no-secrets",
                "--conf",
                gateway.conf.to_str().unwrap(),
            ])
        };
        let checked = check();
        assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
        let server = gateway.conf.join("server.yaml");
        let small = std::fs::read_to_string(&server)
            .unwrap()
            .replace("catalog_size: 1MiB", "catalog_size: 64KiB");
        std::fs::write(&server, small).unwrap();
        let checked = check();
        assert!(!checked.status.success());
        says_all(&format!(
            "{}{}",
            String::from_utf8_lossy(&checked.stdout),
            String::from_utf8_lossy(&checked.stderr)
        ));
    });
}

#[test]
fn a_catalog_grown_beyond_catalog_size_is_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock)).server("catalog_size: 64KiB");
        let gateway = gateway
            .file("catalog.d/more.yaml", file_of(30))
            .start()
            .await;
        std::fs::write(gateway.conf.join("catalog.d/.new"), file_of(70)).unwrap();
        std::fs::rename(
            gateway.conf.join("catalog.d/.new"),
            gateway.conf.join("catalog.d/more.yaml"),
        )
        .unwrap();
        let refusals = || {
            gateway
                .metrics()
                .sum("portcullis_catalog_refusals_total", &[])
        };
        eventually("the refusal", || (refusals() > 0.0).then_some(())).await;
        let refusal = gateway.status()["catalog"]["last_refusal"].clone();
        says_all(&refusal["reasons"].to_string());
        let problems = || gateway.status()["problems"].to_string();
        let words = "is too large: the files of the catalog have";
        eventually("the problem", || problems().contains(words).then_some(())).await;
        assert_eq!(gateway.generation(), 1);
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        // A file that is small enough is taken.
        std::fs::write(gateway.conf.join("catalog.d/.new"), file_of(40)).unwrap();
        std::fs::rename(
            gateway.conf.join("catalog.d/.new"),
            gateway.conf.join("catalog.d/more.yaml"),
        )
        .unwrap();
        eventually("the new catalog", || {
            (gateway.generation() > 1).then_some(())
        })
        .await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}
