//! `.ci/run`, which runs all checks: whatever becomes of them, it says how long each of them took.

use std::process::Command;

use crate::support::folder::Folder;
use crate::support::root;

/// Runs it with tools that do nothing, so many seconds after its start. The `cargo` whose arguments
/// begin like this fails.
fn checks(wrong: &str, seconds: u32) -> (bool, String) {
    let cargo = format!(
        "cargo() {{ case \"$*\" in '{wrong}'*) return 1 ;; tree*) echo 'serde_json v1' ;; esac; }}"
    );
    // Bash reads this file before a script.
    let folder = Folder::new(&[(
        "tools.sh",
        &format!("{cargo}\nmake() {{ :; }}\nSECONDS={seconds}\n"),
    )]);
    let ran = Command::new(root().join(".ci/run"))
        .env("BASH_ENV", folder.path().join("tools.sh"))
        .output()
        .unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn each_steps_minutes_are_printed_also_after_failures() {
    let (passed, said) = checks("bench --locked --bench load", 0);
    let table = said.split("\n\n").last().unwrap();
    let steps: Vec<&str> = table
        .lines()
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    let last = table.lines().nth_back(1).unwrap();
    assert!(
        !passed && last.starts_with("a short load run") && last.ends_with(" 0.0 FAILED"),
        "{said}"
    );
    assert_eq!(
        (steps.first(), steps.get(1), steps.last()),
        (Some(&"step"), Some(&"formatting"), Some(&"total"))
    );
    assert_eq!(steps.len(), 15, "{table}");

    let (passed, said) = checks("nothing", 0);
    assert!(
        passed
            && said
                .lines()
                .last()
                .unwrap()
                .starts_with("all passed: total"),
        "{said}"
    );
    assert!(!said.contains("FAILED"), "{said}");
}

#[test]
fn checks_that_take_too_long_fail() {
    let (passed, said) = checks("nothing", 75 * 60 + 60);
    assert!(
        !passed && said.contains("all passed: total") && said.contains("more than the 75 minutes"),
        "{said}"
    );
}
