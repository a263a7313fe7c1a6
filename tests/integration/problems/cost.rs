//! What a look at a large gateway costs.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis::catalog::load::{Secrets, load_folder};
use portcullis::process::Process;

use crate::support::folder::Folder;
use crate::support::process::worked;

/// The time of a processor. The program of the tests is not optimised.
const AT_MOST: Duration = Duration::from_millis(150);

#[test]
fn finding_problems_of_200_models_is_cheap() {
    let mut catalog = String::from("accounts:\n");
    for n in 0..5 {
        let _ = writeln!(
            catalog,
            "  a{n}: {{ dialect: openai, base_url: \"http://127.0.0.1:9\", key: k }}"
        );
    }
    catalog.push_str("models:\n");
    for n in 0..200 {
        let targets = (0..5)
            .map(|a| format!("{{ account: a{a}, model: up{n} }}"))
            .collect::<Vec<_>>()
            .join(", ");
        let _ = writeln!(catalog, "  m{n}: {{ targets: [{targets}] }}");
    }
    catalog.push_str("callers:\n");
    for n in 0..1_000 {
        let limits = "limits: { requests_per_minute: 60, tokens_per_day: 100000 }";
        let key = format!("prod: {{ hash: \"sha256:{n:064x}\", expires: 2090-01-01 }}");
        let _ = writeln!(catalog, "  c{n}: {{ {limits}, keys: {{ {key} }} }}");
    }
    let folder = Folder::new(&[
        ("catalog.yaml", &catalog),
        ("server.yaml", "ledger: { enabled: false }\n"),
    ]);
    let mut loaded = load_folder(folder.path(), Secrets::Read).expect("it loads");
    let process = Process::new(&mut loaded).expect("a process");
    let look = |_| {
        // Sooner, it would be told what was seen before.
        std::thread::park_timeout(Duration::from_millis(600));
        let before = worked();
        let sight = process.watch.observe();
        let took = worked() - before;
        assert!(sight.problems.list.is_empty(), "{:?}", sight.problems.list);
        took
    };
    let best = (0..4).map(look).min().expect("some looks");
    println!("a look takes {best:?}");
    assert!(best < AT_MOST, "{best:?}");
}
