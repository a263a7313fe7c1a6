//! Everything in the README and the book works: their commands are run, their YAML is checked,
//! their programs are executed, their links are followed.
//!
//! Each kind of block has its test; a block of any other kind is refused:
//!
//! * `sh`: it is run beside a gateway on the shipped `conf/`, and its output must be free of
//!   errors. `make` targets must exist; `portcullis serve` must become ready.
//! * `yaml`: its first line names its file (`# conf/catalog.d/acme.yaml`); `portcullis check` must
//!   take it in the shipped `conf/`.
//! * `python`, `js`: they are run with the official client.
//! * `toml`, and `json` whose first line names a file of the home folder (`// ~/.x/y.json`): the
//!   file is there when the page's `sh` blocks run.
//! * `rust`: its lines must stand in a file of `examples/`, which the compiler checks.
//! * `text`, `json`: nothing.
//!
//! There is one exception, which the page itself marks: `<!-- an error is expected -->` above a
//! `sh` block. The blocks of a page run one after the other beside one gateway; pages run side by
//! side. Those about clients run with the real clients, without an outside, and the demo must
//! answer each of them.

mod inside;
pub mod links;
mod pages;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use pages::{CodeBlock, Page};

use crate::sdk::installed;
use crate::support::client::content_of;
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port, portcullis, ready};
use crate::support::process::Process;
use crate::support::{Gateway, Mock, root, run_within};

/// What the pages have an account's key in.
const VARIABLE: &str = "OPENAI_API_KEY";
const VALUE: &str = "of-nobody";

/// The key of the shipped `conf/`.
const KEY: &str = "sk-demo-portcullis-published";

/// The file that the pages read their key from, as `portcullis init` writes it.
const KEY_FILE: &str = "portcullis.key";

/// How programs of the pages read it. Where they do not run in the folder of the file, the test
/// writes the key in place of these.
const KEY_IS_READ: [&str; 2] = [
    "open(\"portcullis.key\").read().strip()",
    "readFileSync(\"portcullis.key\", \"utf8\").trim()",
];

/// Pages that run at once: their programs share the machine with all other tests.
const AT_ONCE: usize = 3;

#[test]
fn yaml_of_the_pages_is_accepted() {
    let blocks: Vec<CodeBlock> = blocks()
        .into_iter()
        .filter(|block| block.kind == "yaml")
        .collect();
    assert!(!blocks.is_empty(), "no YAML in any page");
    for (number, block) in blocks.iter().enumerate() {
        let first = block.text.lines().next().unwrap_or_default();
        let Some(file) = first
            .strip_prefix("# conf/")
            .and_then(|rest| rest.split_whitespace().next())
        else {
            panic!(
                "{}: the first line must name the file, as in `# conf/catalog.yaml`",
                block.place
            );
        };
        let dir = shipped_conf(&format!("docs-{number}"));
        let file = dir.join("conf").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &block.text).unwrap();
        let output = portcullis(&[
            "check",
            "--no-secrets",
            "--conf",
            dir.join("conf").to_str().unwrap(),
        ]);
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {said}", block.place);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn commands_and_programs_of_the_pages_work() {
    let waiting = Mutex::new(Page::all());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(page) = { waiting.lock().unwrap().pop() } {
                    run_within(Duration::from_secs(300), works(&page));
                }
            });
        }
    });
}

/// Runs a page's blocks beside a gateway of its own.
async fn works(page: &Page) {
    let blocks = page.blocks();
    let runs = |block: &CodeBlock| !["yaml", "text", "json", "toml"].contains(&block.kind.as_str());
    if !blocks.iter().any(runs) {
        return;
    }
    let gateway = shipped_gateway().await;
    let is_of_clients = page.path.starts_with("docs/src/clients");
    for block in &blocks {
        let text = text_for(&gateway, block);
        match block.kind.as_str() {
            "sh" | "python" | "js" if is_of_clients => inside::run(&gateway, page, block).await,
            "sh" => shell(&gateway, block, &text),
            "python" => {
                let python = installed("python-3.52.0").join("bin/python");
                program(block, Command::new(python).args(["-c", &text]));
            }
            "js" => {
                let arguments = ["--input-type=module", "-e", &text];
                program(
                    block,
                    Command::new("node")
                        .args(arguments)
                        .current_dir(installed("node")),
                );
            }
            "rust" => in_an_example(block),
            "toml" => assert!(
                block.file_of_home().is_some(),
                "{}: the first line must name the file",
                block.place
            ),
            "yaml" | "text" | "json" => {}
            other => panic!("{}: nothing checks a block of kind {other:?}", block.place),
        }
    }
}

/// Starts a gateway on the shipped `conf/`, with the file of its key beside the configuration.
async fn shipped_gateway() -> Gateway {
    let catalog =
        std::fs::read_to_string(root().join("conf/catalog.yaml")).expect("conf/catalog.yaml");
    // Without what an account of the page's would need: none may be put into the folder of what
    // runs.
    let gateway = Gateway::start(catalog).await;
    std::fs::write(folder_of(&gateway).join(KEY_FILE), KEY).expect("a file");
    gateway
}

/// Returns the folder that the commands of the pages run in.
fn folder_of(gateway: &Gateway) -> &Path {
    gateway.conf.parent().expect("a folder")
}

/// Returns the text of a block with this gateway's addresses, and with the key of the shipped
/// `conf/`.
fn text_for(gateway: &Gateway, block: &CodeBlock) -> String {
    let text = block
        .text
        .replace("127.0.0.1:8080", &gateway.address.to_string())
        .replace("localhost:8080", &gateway.address.to_string())
        .replace("127.0.0.1:9090", &gateway.admin.to_string())
        .replace("localhost:9090", &gateway.admin.to_string());
    KEY_IS_READ
        .iter()
        .fold(text, |text, how| text.replace(how, &format!("\"{KEY}\"")))
}

/// Returns whether the demo's answer is in what was printed.
fn is_the_demos(said: &str) -> bool {
    said.contains("This is the demo account of Portcullis.")
        || said.contains("The demo called a tool.")
}

/// What the first commands say is read, not only looked at for errors: the stream's text is the
/// buffered answer's, word by word.
#[test]
fn the_pages_first_stream_says_the_first_answer() {
    run_within(Duration::from_secs(60), async {
        let gateway = shipped_gateway().await;
        let blocks = blocks();
        let asks = |block: &&CodeBlock| {
            block.kind == "sh"
                && block.text.contains("/v1/chat/completions")
                && block.text.contains("\"demo\"")
        };
        let is_stream = |block: &&CodeBlock| block.text.contains("\"stream\":true");
        let buffered = blocks
            .iter()
            .filter(asks)
            .find(|block| !is_stream(block))
            .expect("a first answer");
        let stream = blocks
            .iter()
            .filter(asks)
            .find(is_stream)
            .expect("a first stream");
        let said = |block: &CodeBlock| {
            let last = block
                .text
                .rfind("curl ")
                .and_then(|at| block.text.get(at..))
                .expect("a command");
            let command = last.replace("127.0.0.1:8080", &gateway.address.to_string());
            let output = Command::new("sh")
                .args(["-eu", "-c", &command])
                .current_dir(folder_of(&gateway))
                .env("NO_PROXY", "*")
                .output()
                .expect("curl");
            String::from_utf8(output.stdout).expect("text")
        };
        let answer: serde_json::Value = serde_json::from_str(&said(buffered)).expect("an answer");
        let answer = answer["choices"][0]["message"]["content"]
            .as_str()
            .expect("a text")
            .to_owned();
        let stream = said(stream);
        let events: Vec<&str> = stream
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: "))
            .collect();
        assert_eq!(
            events
                .iter()
                .map(|event| content_of(event))
                .collect::<String>(),
            answer,
            "{stream}"
        );
        assert_eq!(events.last(), Some(&"[DONE]"), "{stream}");
        assert!(answer.split(' ').count() > 20, "{answer}");
        // The same by the official clients, as the pages have them.
        for block in &blocks {
            let text = text_for(&gateway, block);
            let mut command = match block.kind.as_str() {
                "python" if text.contains("stream=True") => {
                    Command::new(installed("python-3.52.0").join("bin/python"))
                }
                "js" if text.contains("stream: true") => Command::new("node"),
                _ => continue,
            };
            match block.kind.as_str() {
                "python" => command.args(["-c", &text]),
                _ => command
                    .args(["--input-type=module", "-e", &text])
                    .current_dir(installed("node")),
            };
            let output = command
                .env("NO_PROXY", "*")
                .env("no_proxy", "*")
                .output()
                .expect("a program");
            // Some stream in their second turn, and the demo counts messages.
            let said = String::from_utf8_lossy(&output.stdout).replace("3 messages", "1 message");
            assert!(
                said.ends_with(&answer),
                "{}: {said:?} does not end with {answer:?}",
                block.place
            );
        }
    });
}

/// The newcomer's way through the README, in empty folders: the demo, and a provider.
#[test]
fn the_readme_leads_to_two_first_answers() {
    run_within(Duration::from_secs(60), async {
        let folder = Folder::new(&[]);
        let demo = readme_block("portcullis init --demo").replace("mkdir demo && cd demo", "");
        walk(&folder.path().join("demo"), &demo, "demo", &[]);

        let mock = Mock::start().await;
        let url = mock.base_url();
        let real = readme_block("portcullis init  ")
            .replace("cd .. && mkdir real && cd real", "")
            .replace(
                "portcullis init",
                "portcullis init --yes --model gpt-4o-mini",
            );
        let environment = [(VARIABLE, VALUE), ("OPENAI_BASE_URL", &url)];
        walk(
            &folder.path().join("real"),
            &real,
            "gpt-4o-mini",
            &environment,
        );
        let authorization = format!("Bearer {VALUE}");
        let asked = mock.requests();
        // Lists of models are asked for, too.
        let chats = asked
            .iter()
            .filter(|request| request.model() == "gpt-4o-mini");
        assert!(
            chats.clone().count() == 3
                && chats
                    .into_iter()
                    .all(|request| request.field("authorization") == Some(&authorization)),
            "try asks twice, and curl once"
        );
    });
}

/// Returns the text of the README's block with this command.
fn readme_block(command: &str) -> String {
    let blocks = Page::read("README.md").blocks();
    let block = blocks
        .into_iter()
        .find(|block| block.text.contains(command));
    block
        .unwrap_or_else(|| panic!("README.md: no block has {command:?}"))
        .text
}

/// Makes a configuration by these commands, serves it, and sends the README's first requests.
fn walk(folder: &Path, init: &str, model: &str, environment: &[(&str, &str)]) {
    std::fs::create_dir(folder).expect("a folder");
    let bin = Path::new(BINARY).parent().unwrap().to_str().unwrap();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-eu", "-c", &format!("umask 022\n{script}")])
            .current_dir(folder)
            .env("PATH", &path)
            .env("NO_PROXY", "*")
            .envs(environment.iter().copied());
        let output = command.output().expect("a shell");
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(
            output.status.success(),
            "{script}\n{}{}",
            printed[0],
            printed[1]
        );
        printed
    };
    shell(init);
    let mode = std::fs::metadata(folder.join("portcullis.key"))
        .expect("a key")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "the key is its owner's alone");
    let [check, _] = shell("portcullis check");
    assert!(check.contains("conf: fine."), "{check}");

    let (address, admin) = (free_port(), free_port());
    let server = folder.join("conf/server.yaml");
    assert!(server.is_file(), "{}", server.display());
    // The README's ports may be taken here.
    let text = format!("listen: [{{ address: {address} }}]\nadmin: {{ address: {admin} }}\n");
    std::fs::write(&server, text).expect("server.yaml");
    let mut serve = Command::new(BINARY);
    serve
        .arg("serve")
        .current_dir(folder)
        .envs(environment.iter().copied());
    let mut process = Process::spawn(&mut serve);
    ready(&mut process, admin).unwrap_or_else(|why| panic!("{init}: {why}"));
    let attempt = readme_block("portcullis try").replace(
        "portcullis try",
        &format!("portcullis try http://{address}"),
    );
    let [tried, _] = shell(&attempt);
    assert!(tried.contains(model), "{tried}");
    let ask = readme_block("curl -s ")
        .replace("127.0.0.1:8080", &address.to_string())
        .replace("\"demo\"", &format!("\"{model}\""));
    let [answer, _] = shell(&ask);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer");
    assert!(
        answer["choices"][0]["message"]["content"].is_string(),
        "{answer}"
    );
}

/// A shell empties the file behind `>` before the command begins: a typo would cost the old secret.
#[test]
fn no_page_rotates_a_key_into_its_own_file() {
    let lines = blocks().into_iter().flat_map(|block| {
        let lines = block.text.lines().map(str::to_owned).collect::<Vec<_>>();
        lines
            .into_iter()
            .map(move |line| (block.place.clone(), line))
    });
    let rotations: Vec<_> = lines
        .filter(|(_, line)| line.contains("key rotate") && line.contains(" > "))
        .collect();
    assert!(rotations.len() >= 2, "{rotations:?}");
    for (place, line) in rotations {
        assert!(line.contains("> new.key && mv new.key "), "{place}: {line}");
    }
}

/// The first pages stay short: they are read before anything is known.
#[test]
fn readme_and_first_hour_have_few_words() {
    for (path, most) in [("README.md", 1_100), ("docs/src/first-hour.md", 1_500)] {
        let words = Page::read(path).text.split_whitespace().count();
        assert!(words > 100 && words <= most, "{path} has {words} words");
    }
}

fn shell(gateway: &Gateway, block: &CodeBlock, text: &str) {
    let mut rest = String::new();
    for (line, as_written) in text.lines().zip(block.text.lines()) {
        if let Some(targets) = line.strip_prefix("make ") {
            let targets: Vec<_> = targets
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            program(
                block,
                Command::new("make")
                    .arg("-n")
                    .args(targets)
                    .current_dir(root()),
            );
        } else if line.starts_with("portcullis serve") {
            serves(block, as_written);
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    let bin = Path::new(BINARY).parent().unwrap().to_str().unwrap();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    program(
        block,
        Command::new("sh")
            .args(["-eu", "-c", &rest])
            .current_dir(folder_of(gateway))
            .env("PATH", path),
    );
}

/// Runs a program, and returns what it printed.
fn program(block: &CodeBlock, command: &mut Command) -> String {
    let output = command
        .env(VARIABLE, VALUE)
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let has_error = said.replace("\"error\":null", "").contains("\"error\":");
    let failed = !output.status.success() || has_error;
    assert_eq!(
        failed, block.expects_error,
        "{}: {}\n{said}\n{}",
        block.place, output.status, block.text
    );
    said
}

/// A command that serves until it is stopped: on other ports than the page's, which may be taken.
fn serves(block: &CodeBlock, line: &str) {
    let dir = shipped_conf(&format!("docs-serve-{}", free_port().port()));
    let (address, admin) = (free_port(), free_port());
    let moved = |text: &str| {
        text.replace("127.0.0.1:8080", &address.to_string())
            .replace("127.0.0.1:9090", &admin.to_string())
    };
    let server = dir.join("conf/server.yaml");
    let text = std::fs::read_to_string(&server).unwrap();
    std::fs::write(&server, moved(&text)).unwrap();
    let line = moved(&line.replacen("portcullis", &format!("exec {BINARY}"), 1));
    let mut process = Process::spawn(Command::new("sh").args(["-c", &line]).current_dir(&dir));
    if let Err(why) = ready(&mut process, admin) {
        panic!("{}: {why}", block.place);
    }
    drop(process);
    std::fs::remove_dir_all(dir).unwrap();
}

fn in_an_example(block: &CodeBlock) {
    let examples = std::fs::read_dir(root().join("examples")).expect("examples/");
    let texts: Vec<_> = examples
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let lines: Vec<_> = block
        .text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let found = texts.iter().any(|text| {
        lines
            .iter()
            .all(|line| text.lines().any(|l| l.trim() == *line))
    });
    assert!(
        found,
        "{}: this code stands in no file of examples/",
        block.place
    );
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

/// The blocks of all pages, the README's first.
fn blocks() -> Vec<CodeBlock> {
    Page::all().iter().flat_map(Page::blocks).collect()
}
