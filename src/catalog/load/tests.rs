use std::time::{Duration, Instant};

use super::*;
use crate::catalog::files::read_now;

/// A folder of its own for each test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("portcullis-load-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("catalog.d")).unwrap();
        let folder = Self(path);
        folder
            .write("server.yaml", "{}")
            .write("catalog.yaml", EMPTY);
        folder
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::write(self.0.join(name), text).unwrap();
        self
    }

    /// The errors, and then the warnings, each with how it begins.
    #[track_caller]
    fn check(&self, expected: &[&str]) {
        let told: Vec<String> = match load_folder(&self.0, Secrets::Read) {
            Ok(loaded) => loaded
                .catalog
                .warnings
                .iter()
                .map(|warning| format!("warning {warning}"))
                .collect(),
            Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
        };
        let told: Vec<String> = told
            .iter()
            .map(|told| told.replace(&self.0.display().to_string(), "CONF"))
            .collect();
        let right = told.len() == expected.len()
            && told
                .iter()
                .zip(expected)
                .all(|(told, expected)| told.starts_with(expected));
        assert!(right, "told: {told:#?}\nexpected: {expected:#?}");
    }

    fn texts(&self) -> Texts {
        let ReadCatalog { texts, .. } = read_catalog(&self.0, Secrets::Read);
        for (path, version) in &texts {
            assert_eq!(
                read_now(path, LARGEST_NAMED),
                *version,
                "what was read is what is there"
            );
        }
        texts
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const EMPTY: &str = "accounts: {}\nmodels: {}\ncallers: {someone: {}}\n";

fn account(key: &str) -> String {
    format!(
        "accounts: {{a: {{dialect: openai, key: {key}}}}}\nmodels: {{}}\ncallers: {{someone: {{}}}}\n"
    )
}

#[test]
fn f15_files_that_are_missing() {
    let folder = Folder::new("f15");
    folder.check(&[]);
    fs::remove_file(folder.0.join("server.yaml")).unwrap();
    // Everything that server.yaml may say has a default.
    folder.check(&[]);
    assert_eq!(
        load_folder(&folder.0, Secrets::Read).map(|loaded| (loaded.count, loaded.server.attempts)),
        Ok((1, 3))
    );
    fs::remove_file(folder.0.join("catalog.yaml")).unwrap();
    folder.check(&["CONF/catalog.yaml: does not exist: `portcullis init` makes a configuration folder, and --conf names another one"]);
    folder
        .write("server.yaml", "workers: x\nport: 1\n")
        .write("catalog.yaml", "accounts: {}\nmodels: {m: {}}\n");
    folder.check(&[
        "server.yaml:1 workers: must be a whole number",
        "server.yaml:2 port: unknown field: write `listen: [{ address: 127.0.0.1:8080 }]`",
        "catalog.yaml callers: is missing",
        "catalog.yaml:2 models.m.targets: must list",
    ]);
    fs::remove_file(folder.0.join("catalog.yaml")).unwrap();
    folder
        .write("server.yaml", "{}")
        .write("catalog.d/x.yaml", "callers: {a: {limit: 1}}");
    folder.check(&[
        "CONF/catalog.yaml: does not exist",
        "catalog.d/x.yaml:1 callers.a.limit: unknown field",
    ]);
    fs::remove_dir_all(folder.0.join("catalog.d")).unwrap();
    folder
        .write("server.yaml", "{}")
        .write("catalog.yaml", EMPTY)
        .check(&[]);
    folder
        .write("catalog.d", "")
        .check(&["CONF/catalog.d: cannot be read: Not a directory"]);
}

#[test]
fn which_files_of_catalog_d_are_read() {
    let folder = Folder::new("listed");
    let demo = |name: &str| format!("accounts: {{{name}: {{dialect: demo}}}}\n");
    folder
        .write("catalog.d/20-b.yaml", demo("b"))
        .write("catalog.d/10-a.yaml", demo("a"))
        .write("catalog.d/.hidden.yaml", "broken: [")
        .write("catalog.d/.#10-a.yaml", "broken: [")
        .write("catalog.d/10-a.yaml~", "broken: [")
        .write("catalog.d/10-a.yaml.bak", "broken: [")
        .write("catalog.d/README.md", "broken: [")
        .write("catalog.d/x.yml", demo("x"));
    let loaded =
        load_folder(&folder.0, Secrets::Read).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        loaded
            .catalog
            .accounts()
            .iter()
            .map(|account| &*account.id)
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(loaded.count, 4);
    folder.check(&[
        "warning catalog.d/x.yml: is ignored: only files whose names end in .yaml are read",
    ]);
    // By name: the first to say it is the one that counts.
    folder
        .write("catalog.d/30-c.yaml", format!("\n{}", demo("a")))
        .check(&["catalog.d/30-c.yaml:2 accounts.a: is also in catalog.d/10-a.yaml:1"]);
    folder
        .write("catalog.d/30-c.yaml", "")
        .check(&["catalog.d/30-c.yaml:1: is empty"]);
}

#[test]
fn texts_that_are_no_utf_8() {
    let folder = Folder::new("utf8");
    folder
        .write(
            "catalog.yaml",
            b"accounts: {}\nmodels: {}\n# \xff\ncallers: {}\n",
        )
        .check(&["catalog.yaml:3: is not UTF-8"]);
    folder
        .write("catalog.yaml", b"\xff\xfea\0")
        .check(&["catalog.yaml:1: is UTF-16: save the file as UTF-8"]);
    folder
        .write("catalog.yaml", format!("\u{feff}{EMPTY}"))
        .check(&["catalog.yaml:1: begins with a byte-order mark"]);
    folder
        .write("catalog.yaml", EMPTY.replace('\n', "\r\n"))
        .check(&[]);
}

#[test]
fn secrets_in_files() {
    let folder = Folder::new("secrets");
    folder.write("catalog.yaml", account("{file: secret}"));
    folder.check(&[
        "catalog.yaml:1 accounts.a.key.file: the file does not exist; relative paths start at CONF (column 45)",
    ]);
    folder.write("secret", "sk-canary\n");
    let loaded =
        load_folder(&folder.0, Secrets::Read).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        loaded.catalog.accounts()[0].key.as_ref().unwrap().expose(),
        "sk-canary"
    );
    assert!(
        loaded
            .texts
            .keys()
            .eq([&folder.0.join("catalog.yaml"), &folder.0.join("secret")])
    );
    assert!(!format!("{loaded:?}").contains("canary"));
    folder
        .write("catalog.yaml", account("{file: sk-canary-12345678}"))
        .check(&["catalog.yaml:1 accounts.a.key.file: the file does not exist"]);
    folder.write("catalog.yaml", account("{file: secret}"));
    folder.write("secret", "x".repeat(70_000)).check(&[
        "catalog.yaml:1 accounts.a.key.file: the file is too large for a secret: at most 64 KiB",
    ]);
    folder
        .write("secret", [0xff])
        .check(&["catalog.yaml:1 accounts.a.key.file: the file is not UTF-8"]);
    folder.write("catalog.yaml", account("{env: PORTCULLIS_TEST_ABSENT}"));
    folder.check(&["catalog.yaml:1 accounts.a.key.env: the environment variable PORTCULLIS_TEST_ABSENT is not set"]);
    // What is not plainly a name may be the secret itself.
    for text in ["HUNTER2", "hunter_two", "X1Y2_Z3W4V5", "SK_0123456789"] {
        folder.write("catalog.yaml", account(&format!("{{env: {text}}}")));
        folder.check(&[
            "catalog.yaml:1 accounts.a.key.env: the environment variable named here is not set",
        ]);
    }
    folder.write("catalog.yaml", account("{env: PORTCULLIS_TEST_ABSENT}"));
    assert!(load_folder(&folder.0, Secrets::StandIns).is_ok());
}

#[test]
#[cfg(unix)]
fn what_is_no_regular_file_is_not_opened() {
    let folder = Folder::new("fifo");
    let pipe = folder.0.join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let start = Instant::now();
    for path in ["pipe", "/dev/zero", "."] {
        folder.write("catalog.yaml", account(&format!("{{file: {path}}}")));
        let problems = load_folder(&folder.0, Secrets::Read)
            .expect_err(path)
            .to_string();
        assert!(
            problems.contains("cannot be read: it is not a regular file"),
            "{problems}"
        );
    }
    fs::rename(&pipe, folder.0.join("catalog.d/pipe.yaml")).unwrap();
    folder.write("catalog.yaml", EMPTY);
    folder.check(&["CONF/catalog.d/pipe.yaml: cannot be read: it is not a regular file"]);
    // Whoever opens a pipe waits for ever.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn f14_a_file_of_50_mb() {
    let folder = Folder::new("f14");
    let half = format!("# {}\n{EMPTY}", "x".repeat(20 << 20));
    folder.write("catalog.yaml", "#".repeat(50 << 20));
    folder.check(&["CONF/catalog.yaml: is too large: the files of the catalog have 50.0 MiB together, and `catalog_size` allows 32.0 MiB \
                    (catalog.yaml has 50.0 MiB). Write `catalog_size: 64MiB` in server.yaml and restart the gateway, or remove entries"]);
    // Each would do; together they do not.
    folder
        .write("catalog.yaml", &half)
        .write("catalog.d/more.yaml", half.replace(EMPTY, "{}"));
    folder.check(&[
        "CONF/catalog.d/more.yaml: is too large: the files of the catalog have 40.1 MiB together",
    ]);
    // What the error says to write is enough.
    folder
        .write("server.yaml", "catalog_size: 64MiB")
        .check(&[]);
    folder
        .write("server.yaml", "catalog_size: 2GiB")
        .write("catalog.yaml", EMPTY);
    folder.check(&["server.yaml:1 catalog_size: must be at most 1GiB"]);
    folder.write("server.yaml", "#".repeat(33 << 20));
    folder.check(&["CONF/server.yaml: is too large: it may have at most 32 MiB"]);
}

#[test]
#[cfg(unix)]
fn s08_what_everybody_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    const HASH: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let folder = Folder::new("s08");
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(folder.0.join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    mode("catalog.yaml", 0o644);
    folder
        .write("catalog.yaml", include_str!("../../../conf/catalog.yaml"))
        .check(&[]);
    folder.write(
        "catalog.yaml",
        format!("accounts: {{}}\nmodels: {{}}\ncallers: {{a: {{keys: {{k: {{hash: 'sha256:{HASH}'}}}}}}}}\n"),
    );
    folder.check(&[
        "warning catalog.yaml: holds the hash of a key that could be guessed, and every user of this machine can read it: run `chmod o-r` on it",
    ]);
    folder.write("catalog.yaml", account("sk-literal"));
    folder.check(&[
        "warning catalog.yaml:1 accounts.a.key: is a secret in clear text",
        "warning catalog.yaml: holds a secret, and every user of this machine can read it",
    ]);
    // What `key new` writes has nothing that could be guessed, also beside what ships.
    folder.write("catalog.yaml", include_str!("../../../conf/catalog.yaml"));
    let made = |note: &str| {
        format!("callers:\n  acme:\n    keys:\n      k:\n        hash: sha256:{HASH}{note}\n")
    };
    folder.write("catalog.d/keys-acme.yaml", made(" # sk-0aA1bB2cC3d-…"));
    mode("catalog.d/keys-acme.yaml", 0o644);
    folder.check(&[]);
    for note in ["", " # sk-0aA1bB2cC3d", " # ours", " # sk-short-…"] {
        folder.write("catalog.d/keys-acme.yaml", made(note));
        folder.check(&[
            "warning catalog.d/keys-acme.yaml: holds the hash of a key that could be guessed, and every user",
        ]);
    }
    fs::remove_file(folder.0.join("catalog.d/keys-acme.yaml")).unwrap();
    folder.write("catalog.yaml", account("sk-literal"));
    mode("catalog.yaml", 0o640);
    folder.check(&["warning catalog.yaml:1 accounts.a.key: is a secret in clear text"]);
    folder
        .write("secret", "s")
        .write("catalog.yaml", account("{file: secret}"));
    mode("secret", 0o644);
    folder.check(&["warning secret: holds a secret, and every user of this machine can read it"]);
    mode("secret", 0o600);
    folder.check(&[]);
}

#[test]
fn what_was_read_changes_with_every_file_that_counts() {
    let folder = Folder::new("texts");
    let mut seen = vec![folder.texts()];
    let mut changed = |what: &str| {
        let now = folder.texts();
        assert!(!seen.contains(&now), "{what}");
        seen.push(now);
    };
    folder.write("catalog.yaml", account("{file: secret}"));
    changed("the catalog");
    folder.write("secret", "a");
    changed("a secret appears");
    folder.write("secret", "b");
    changed("a secret is rotated");
    folder.write("catalog.d/x.yaml", "{}");
    changed("a file appears");
    fs::rename(
        folder.0.join("catalog.d/x.yaml"),
        folder.0.join("catalog.d/y.yaml"),
    )
    .unwrap();
    changed("a file has another name");
    folder.write("catalog.d/y.yaml", "broken: [");
    changed("a file breaks");
    let before = folder.texts();
    folder
        .write("server.yaml", "broken: [")
        .write("catalog.d/.x.yaml", "{}")
        .write("catalog.d/z.txt", "{}");
    assert_eq!(folder.texts(), before, "what does not count");
}

#[test]
fn certificates_of_listeners_are_looked_at() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("tls");
    folder.write(
        "server.yaml",
        "listen: [{address: '127.0.0.1:1', tls: {cert: c.pem, key: k.pem}}]",
    );
    folder.check(&[
        "server.yaml:1 listen[0].tls.cert: the file does not exist; relative paths start at CONF (column 47)",
        "server.yaml:1 listen[0].tls.key: the file does not exist; relative paths start at CONF (column 59)",
    ]);
    assert!(load_folder(&folder.0, Secrets::StandIns).is_ok());
    folder
        .write("c.pem", "-----BEGIN CERTIFICATE-----")
        .write("k.pem", "-----BEGIN CERTIFICATE-----");
    folder.check(&["server.yaml:1 listen[0].tls.key: the file is not PEM with a `-----BEGIN … PRIVATE KEY-----`"]);
    folder.write("k.pem", "-----BEGIN EC PRIVATE KEY-----");
    let mode = |mode: u32| {
        fs::set_permissions(folder.0.join("k.pem"), fs::Permissions::from_mode(mode)).unwrap()
    };
    mode(0o644);
    folder.check(&["warning k.pem: holds a secret, and every user of this machine can read it"]);
    mode(0o600);
    folder.check(&[]);
    fs::remove_file(folder.0.join("c.pem")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(folder.0.join("c.pem"))
            .status()
            .unwrap()
            .success()
    );
    folder.check(&[
        "warning server.yaml:1 listen[0].tls.cert: the file is a pipe, which is not read: the listener waits",
    ]);
    let server =
        read_server(&folder.0, Secrets::Read).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        server.listen[0].tls.as_ref().unwrap().cert,
        folder.0.join("c.pem")
    );
}
