//! What the commands say to a person who typed something wrong, and what `check` finds beside
//! errors: each message names what was typed, or the line, and what to write.

use crate::support::Catalog;
use crate::support::canary::hash;
use crate::support::folder::Folder;
use crate::support::gateway::portcullis;

fn stderr_of(arguments: &[&str]) -> String {
    let ran = portcullis(arguments);
    assert!(!ran.status.success(), "{arguments:?}");
    String::from_utf8(ran.stderr).unwrap()
}

#[test]
fn a_wrong_argument_is_named_and_no_secret_is() {
    let told = stderr_of(&["serve", "--port", "8080"]);
    assert!(told.contains("unexpected argument '--port'"), "{told}");
    let told = stderr_of(&["serve", "--listen", "8080"]);
    assert!(told.contains("such as 127.0.0.1:8080"), "{told}");
    let told = stderr_of(&["serve", "--listen", "localhost"]);
    assert!(told.contains("127.0.0.1:8080 or 0.0.0.0:8080"), "{told}");
    let told = stderr_of(&["start"]);
    assert!(told.contains("'start'"), "{told}");
    const SECRET: &str = "sk-0123456789abcdefghijklmnop";
    for arguments in [
        &["serve", SECRET][..],
        &[SECRET],
        &["serve", "--listen", SECRET],
        &["check", "--conf", SECRET],
    ] {
        let told = stderr_of(arguments);
        assert!(!told.contains("0123456789"), "{told}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    for command in ["check", "serve"] {
        let told = stderr_of(&[command, "--conf", "./no-such-folder"]);
        assert!(
            told.contains("./no-such-folder: this folder does not exist"),
            "{told}"
        );
    }
}

#[test]
fn port_0_is_an_error_of_check() {
    let catalog = Catalog::new().to_string();
    let server = "listen:\n- address: 127.0.0.1:0\n";
    let ran = Folder::new(&[("catalog.yaml", &catalog), ("server.yaml", server)]).run(&["check"]);
    let named = "server.yaml:2 listen[0].address: has port 0";
    assert!(
        !ran.status.success() && ran.stderr.contains(named),
        "{}",
        ran.stderr
    );
}

#[test]
fn check_warns_of_what_has_expired_with_its_line() {
    let keys = |caller: &str, more: &str| {
        let (one, two) = (
            hash(&format!("sk-{caller}-1")),
            hash(&format!("sk-{caller}-2")),
        );
        format!(
            "  {caller}:\n    {more}keys:\n      one: {{ hash: \"{one}\" }}\n      two:\n        hash: \"{two}\"\n"
        )
    };
    let acme = keys("acme", "") + "        expires: 2020-01-01\n";
    let blue = keys("blue", "expires: 2021-01-01\n    ");
    let catalog = format!(
        "accounts: {{}}\nmodels: {{}}\ncallers:\n{acme}{blue}  grey: {{ expires: 2022-01-01 }}\n"
    );
    let ran = Folder::new(&[("catalog.yaml", &catalog)]).run(&["check"]);
    assert!(ran.status.success(), "{}", ran.stderr);
    for warning in [
        "warning: catalog.yaml:9 callers.acme.keys.two.expires: has expired: this key does not work.",
        "warning: catalog.yaml:11 callers.blue.expires: has expired: no key of this caller works.",
        "warning: catalog.yaml:16 callers.grey.expires: has expired: no key of this caller works.",
    ] {
        assert_eq!(ran.stderr.matches(warning).count(), 1, "{}", ran.stderr);
    }
    assert!(ran.stdout.contains("3 warnings"), "{}", ran.stdout);
}
