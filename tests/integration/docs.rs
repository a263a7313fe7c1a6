//! The README says nothing that does not work: its commands are run, its YAML is checked, its
//! programs are executed.
//!
//! | Block | What is done with it |
//! |---|---|
//! | `sh` | run beside a gateway on the shipped `conf/`, its output free of errors; `make` targets must exist; `portcullis serve` must become ready |
//! | `yaml` | its first line names its file (`# conf/catalog.d/acme.yaml`); `portcullis check` must take it in the shipped `conf/` |
//! | `python`, `js` | run with the official client |
//! | `rust` | its lines must stand in a file of `examples/`, which the compiler checks |
//! | `text`, `json` | nothing; any other kind is refused |
//!
//! The one exception is said in the README itself: `<!-- an error is expected -->` above a `sh`
//! block.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::sdk::installed;
use crate::support::client::content_of;
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port, portcullis, ready};
use crate::support::process::Process;
use crate::support::{Gateway, Mock, run_within};

/// What the README has an account's key in.
const VARIABLE: &str = "OPENAI_API_KEY";
const VALUE: &str = "of-nobody";

#[derive(Debug)]
struct Block {
    line: usize,
    kind: String,
    text: String,
    expects_error: bool,
}

#[test]
fn readme_yaml_is_accepted() {
    let blocks = readme();
    let yaml: Vec<_> = blocks.iter().filter(|block| block.kind == "yaml").collect();
    assert!(!yaml.is_empty(), "no YAML in the README");
    for block in yaml {
        let first = block.text.lines().next().unwrap_or_default();
        let Some(file) = first.strip_prefix("# conf/").and_then(|rest| rest.split_whitespace().next()) else {
            panic!("README.md:{}: the first line must name the file, as in `# conf/catalog.yaml`", block.line);
        };
        let dir = shipped_conf(&format!("readme-{}", block.line));
        let file = dir.join("conf").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &block.text).unwrap();
        let output = portcullis(&["check", "--no-secrets", "--conf", dir.join("conf").to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "README.md:{}: {said}", block.line);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn readme_commands_and_programs_work() {
    run_within(Duration::from_secs(120), async {
        let blocks = readme();
        let catalog = std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml");
        // Without what an account of the README's would need: none may be put into the folder of
        // what runs.
        let gateway = Gateway::start(catalog).await;
        for block in &blocks {
            let text = block
                .text
                .replace("127.0.0.1:8080", &gateway.address.to_string())
                .replace("localhost:8080", &gateway.address.to_string())
                .replace("127.0.0.1:9090", &gateway.admin.to_string())
                .replace("localhost:9090", &gateway.admin.to_string());
            match block.kind.as_str() {
                "sh" => shell(&gateway, block, &text),
                "python" => {
                    program(block, Command::new(installed("python-3.52.0").join("bin/python")).args(["-c", &text]))
                }
                "js" => {
                    let arguments = ["--input-type=module", "-e", &text];
                    program(block, Command::new("node").args(arguments).current_dir(installed("node")));
                }
                "rust" => in_an_example(block),
                "yaml" | "text" | "json" => {}
                other => panic!("README.md:{}: nothing checks a block of kind {other:?}", block.line),
            }
        }
    });
}

/// What the first commands say is read, not only looked at for errors: the stream's text is the
/// buffered answer's, word by word.
#[test]
fn the_first_stream_of_the_readme_says_what_the_first_answer_says() {
    run_within(Duration::from_secs(60), async {
        let gateway =
            Gateway::start(std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml")).await;
        let blocks = readme();
        let asks = |block: &&Block| {
            block.kind == "sh" && block.text.contains("/v1/chat/completions") && block.text.contains("\"demo\"")
        };
        let mut asking = blocks.iter().filter(asks);
        let (buffered, stream) = (asking.next().expect("a first answer"), asking.next().expect("a first stream"));
        assert!(
            !buffered.text.contains("\"stream\"") && stream.text.contains("\"stream\":true"),
            "the order of the README's commands"
        );
        let said = |block: &Block| {
            let last = block.text.rfind("curl ").and_then(|at| block.text.get(at..)).expect("a command");
            let command = last.replace("127.0.0.1:8080", &gateway.address.to_string());
            let output = Command::new("sh").args(["-eu", "-c", &command]).env("NO_PROXY", "*").output().expect("curl");
            String::from_utf8(output.stdout).expect("text")
        };
        let answer: serde_json::Value = serde_json::from_str(&said(buffered)).expect("an answer");
        let answer = answer["choices"][0]["message"]["content"].as_str().expect("a text").to_owned();
        let stream = said(stream);
        let events: Vec<&str> = stream.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(events.iter().map(|event| content_of(event)).collect::<String>(), answer, "{stream}");
        assert_eq!(events.last(), Some(&"[DONE]"), "{stream}");
        assert!(answer.split(' ').count() > 20, "{answer}");
        // The same by the official clients, as the README has them.
        for block in &blocks {
            let text = block.text.replace("127.0.0.1:8080", &gateway.address.to_string());
            let mut command = match block.kind.as_str() {
                "python" if text.contains("stream=True") => Command::new(installed("python-3.52.0").join("bin/python")),
                "js" if text.contains("stream: true") => Command::new("node"),
                _ => continue,
            };
            match block.kind.as_str() {
                "python" => command.args(["-c", &text]),
                _ => command.args(["--input-type=module", "-e", &text]).current_dir(installed("node")),
            };
            let output = command.env("NO_PROXY", "*").env("no_proxy", "*").output().expect("a program");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.ends_with(&answer), "README.md:{}: {said:?} does not end with {answer:?}", block.line);
        }
    });
}

/// The newcomer's first account: in an empty folder, with no gateway that runs, up to the first
/// answer.
#[test]
fn the_first_account_of_the_readme_is_served_from_an_empty_folder() {
    run_within(Duration::from_secs(60), async {
        let mock = Mock::start().await;
        let blocks = readme();
        let at = blocks
            .iter()
            .position(|block| block.kind == "sh" && block.text.contains("--create > laptop.key"))
            .expect("a first account");
        let (block, asking) = (&blocks[at], &blocks[at + 1]);
        let account = format!("{{ dialect: openai, base_url: \"{}\", ", mock.base_url());
        let text = block.text.replace("{ dialect: openai, ", &account);
        assert_ne!(text, block.text, "the account");
        let folder = Folder::new(&[]);
        let bin = Path::new(BINARY).parent().unwrap().to_str().unwrap();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let script = format!("umask 022\n{text}");
        let output = Command::new("sh")
            .args(["-eu", "-c", &script])
            .current_dir(folder.path())
            .env("PATH", path)
            .env(VARIABLE, VALUE)
            .output()
            .expect("a shell");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !said.contains("warning:"), "README.md:{}: {said}", block.line);
        assert!(said.contains("1 account, 1 model, 1 caller, 1 key, 0 warnings"), "README.md:{}: {said}", block.line);

        let first = folder.path().join("first");
        let mode = std::fs::metadata(first.join("laptop.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "the key is its owner's alone");
        let (address, admin) = (free_port(), free_port());
        std::fs::write(first.join("conf/server.yaml"), format!("admin: {{ address: \"{admin}\" }}\n")).unwrap();
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "--listen", &address.to_string()]).current_dir(&first).env(VARIABLE, VALUE);
        let mut process = Process::spawn(&mut serve);
        ready(&mut process, admin).unwrap_or_else(|why| panic!("README.md:{}: {why}", asking.line));
        let ask = asking.text.lines().find(|line| line.starts_with("curl ")).expect("a question");
        let ask = ask.replace("127.0.0.1:8080", &address.to_string());
        let output = Command::new("sh")
            .args(["-eu", "-c", &ask])
            .current_dir(&first)
            .env("NO_PROXY", "*")
            .output()
            .expect("curl");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an answer");
        assert!(answer["choices"][0]["message"]["content"].is_string(), "README.md:{}: {answer}", asking.line);
        let (asked, authorization) = (mock.request(0).await, format!("Bearer {VALUE}"));
        assert_eq!(
            (asked.model().as_str(), asked.field("authorization")),
            ("gpt-4o-mini", Some(authorization.as_str()))
        );
    });
}

fn shell(gateway: &Gateway, block: &Block, text: &str) {
    let mut rest = String::new();
    for (line, as_written) in text.lines().zip(block.text.lines()) {
        if let Some(targets) = line.strip_prefix("make ") {
            let targets: Vec<_> = targets.split('#').next().unwrap_or_default().split_whitespace().collect();
            program(block, Command::new("make").arg("-n").args(targets).current_dir(root()));
        } else if line.starts_with("portcullis serve") {
            serves(block, as_written);
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    let here = gateway.conf.parent().unwrap();
    let bin = Path::new(BINARY).parent().unwrap().to_str().unwrap();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    program(block, Command::new("sh").args(["-eu", "-c", &rest]).current_dir(here).env("PATH", path));
}

fn program(block: &Block, command: &mut Command) {
    let output = command
        .env(VARIABLE, VALUE)
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let failed = !output.status.success() || said.contains("\"error\":");
    assert_eq!(failed, block.expects_error, "README.md:{}: {}\n{said}\n{}", block.line, output.status, block.text);
}

/// A command that serves until it is stopped: on other ports than the README's, which may be taken.
fn serves(block: &Block, line: &str) {
    let dir = shipped_conf(&format!("readme-serve-{}", block.line));
    let (address, admin) = (free_port(), free_port());
    let moved =
        |text: &str| text.replace("127.0.0.1:8080", &address.to_string()).replace("127.0.0.1:9090", &admin.to_string());
    let server = dir.join("conf/server.yaml");
    let text = std::fs::read_to_string(&server).unwrap();
    std::fs::write(&server, moved(&text)).unwrap();
    let line = moved(&line.replacen("portcullis", &format!("exec {BINARY}"), 1));
    let mut process = Process::spawn(Command::new("sh").args(["-c", &line]).current_dir(&dir));
    if let Err(why) = ready(&mut process, admin) {
        panic!("README.md:{}: {why}", block.line);
    }
    drop(process);
    std::fs::remove_dir_all(dir).unwrap();
}

fn in_an_example(block: &Block) {
    let examples = std::fs::read_dir(root().join("examples")).expect("examples/");
    let texts: Vec<_> = examples.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let lines: Vec<_> = block.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = texts.iter().any(|text| lines.iter().all(|line| text.lines().any(|l| l.trim() == *line)));
    assert!(found, "README.md:{}: this code stands in no file of examples/", block.line);
}

/// A folder of this test's own with a copy of `conf/`.
fn shipped_conf(name: &str) -> std::path::PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("conf")).unwrap();
    for entry in std::fs::read_dir(root().join("conf")).expect("conf/") {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, dir.join("conf").join(path.file_name().unwrap())).unwrap();
        }
    }
    dir
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> Vec<Block> {
    blocks_of(&std::fs::read_to_string(root().join("README.md")).expect("README.md"))
}

fn blocks_of(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(kind)) => {
                let expects_error = before == "<!-- an error is expected -->";
                open =
                    Some(Block { line: number + 1, kind: kind.trim().to_owned(), text: String::new(), expects_error });
            }
            (Some(_), Some(_)) => {
                blocks.extend(open.take());
                before = "";
            }
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) if !line.trim().is_empty() => before = line.trim(),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is left open");
    blocks
}

#[test]
fn blocks_are_found_with_their_kinds() {
    let blocks =
        blocks_of("# A\n```sh\nls\n```\n\n<!-- an error is expected -->\n```sh\ncurl\n```\ntext\n```yaml\na: 1\n```\n");
    let found: Vec<_> = blocks.iter().map(|b| (b.line, b.kind.as_str(), b.text.as_str(), b.expects_error)).collect();
    assert_eq!(found, [(2, "sh", "ls\n", false), (7, "sh", "curl\n", true), (11, "yaml", "a: 1\n", false)]);
}
