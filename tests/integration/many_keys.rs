//! Catalogs of many keys, and large ones: what is not done again and again.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::support::clock::FILES;
use crate::support::{Catalog, Gateway, Mock, PATIENCE, chat, eventually, run};

/// The bytes of a file that is large enough to be seen among all else that is read.
const LARGE: u64 = 4 << 20;

/// A file with so many keys of one caller.
fn file_of_keys(count: usize) -> String {
    let mut text = "callers:\n  team:\n    keys:\n".to_owned();
    for number in 0..count {
        writeln!(
            text,
            "      key-{number}: {{ hash: 'sha256:{number:064x}' }}"
        )
        .unwrap();
    }
    text
}

/// A file with this many bytes and one caller, which says nothing else.
fn file_of(bytes: u64, caller: &str) -> String {
    let comment = "x".repeat(usize::try_from(bytes).unwrap());
    format!("# {comment}\ncallers: {{ {caller}: {{}} }}\n")
}

/// Returns how many bytes a gateway has read from files so far.
fn read_bytes(gateway: &Gateway) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", gateway.process.pid())).expect("its io");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.expect("a count").parse().expect("a number")
}

/// Waits until a round reads no large file.
async fn rests(gateway: &Gateway) {
    let start = Instant::now();
    loop {
        let before = read_bytes(gateway);
        gateway.round(FILES).await;
        if read_bytes(gateway) - before < LARGE {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "it is read again and again");
    }
}

async fn has_caller(gateway: &Gateway, caller: &str) {
    eventually("the caller", || {
        let (status, _) = gateway.admin(&format!("/live/caller?id={caller}"));
        (status == 200).then_some(())
    })
    .await;
}

#[test]
fn unchanged_files_are_read_once_a_minute() {
    run(async {
        let mock = Mock::start().await;
        let large = file_of(LARGE, "other");
        let setup = Gateway::with(Catalog::over(&mock)).file("catalog.d/large.yaml", large);
        let gateway = setup.start().await;
        rests(&gateway).await;
        for _ in 0..2 {
            let before = read_bytes(&gateway);
            gateway.advance(Duration::from_secs(601)).await;
            gateway.round(FILES).await;
            assert!(read_bytes(&gateway) - before >= LARGE);
            rests(&gateway).await;
            let before = read_bytes(&gateway);
            for _ in 0..3 {
                gateway.round(FILES).await;
            }
            assert!(read_bytes(&gateway) - before < LARGE);
        }
    });
}

#[test]
fn a_file_with_its_old_size_and_time_counts() {
    run(async {
        let mock = Mock::start().await;
        let setup = Gateway::with(Catalog::over(&mock));
        let gateway = setup
            .file("catalog.d/large.yaml", file_of(LARGE, "one"))
            .start()
            .await;
        has_caller(&gateway, "one").await;
        rests(&gateway).await;
        let path = gateway.conf.join("catalog.d/large.yaml");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let new = gateway.conf.join("new");
        fs::write(&new, file_of(LARGE, "two")).unwrap();
        let file = fs::File::options().write(true).open(&new).unwrap();
        file.set_modified(modified).unwrap();
        fs::rename(&new, &path).unwrap();
        has_caller(&gateway, "two").await;
    });
}

#[test]
fn a_link_that_no_watch_sees_is_followed() {
    run(async {
        let mock = Mock::start().await;
        let setup = Gateway::with(Catalog::over(&mock)).file("catalog.d/other.yaml", "{}");
        let gateway = setup.start().await;
        // No folder below the folders of the catalog is watched.
        let mounted = gateway.conf.join("mounted");
        for (place, caller) in [("..v1", "one"), ("..v2", "two")] {
            fs::create_dir_all(mounted.join(place)).unwrap();
            let text = file_of(LARGE, caller);
            fs::write(mounted.join(place).join("large.yaml"), text).unwrap();
        }
        symlink("..v1", mounted.join("..data")).unwrap();
        symlink(
            "../mounted/..data/large.yaml",
            gateway.conf.join("catalog.d/large.yaml"),
        )
        .unwrap();
        has_caller(&gateway, "one").await;
        rests(&gateway).await;
        symlink("..v2", mounted.join("..new")).unwrap();
        fs::rename(mounted.join("..new"), mounted.join("..data")).unwrap();
        has_caller(&gateway, "two").await;
    });
}

/// It compares times, so no other test may run beside it.
#[test]
#[ignore = "measures a time: `make test` runs it alone"]
fn alone_pages_cost_the_same_with_many_keys() {
    run(async {
        let mock = Mock::start().await;
        let mut costs = Vec::new();
        for keys in [100, 20_000] {
            let setup = Gateway::with(Catalog::over(&mock));
            let gateway = setup
                .file("catalog.d/keys.yaml", file_of_keys(keys))
                .file("catalog.d/large.yaml", file_of(LARGE, "other"))
                .start()
                .await;
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
            // What is made once for a catalog is made.
            gateway.status();
            gateway.metrics();
            rests(&gateway).await;
            let before = gateway.process.cpu();
            for _ in 0..30 {
                // All viewers see the same for some time.
                gateway.advance(Duration::from_secs(1)).await;
                assert_eq!(gateway.admin("/live").0, 200);
                gateway.metrics();
                gateway.status();
                assert_eq!(gateway.admin("/limits").0, 200);
            }
            costs.push(gateway.process.cpu() - before);
        }
        let [few, many] = costs[..] else {
            panic!("{costs:?}");
        };
        assert!(
            many < few * 2,
            "{few:?} with 100 keys, {many:?} with 20,000"
        );
    });
}
