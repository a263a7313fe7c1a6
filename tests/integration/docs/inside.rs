//! The blocks of a page about clients are run with the real clients, in a network namespace in
//! which port 8080 of the loopback is the gateway, and which has nothing else.

use std::process::Command;

use super::pages::{CodeBlock, Page};
use super::{KEY, KEY_FILE, is_the_demos, program};
use crate::clients::{RemovedFolder, WITH_ALL_THAT_IT_STARTS, has_namespaces};
use crate::sdk::installed;
use crate::support::Gateway;
use crate::support::root;

/// Runs a block, with the files that the page names before it, and no others. The demo must answer,
/// unless the page expects an error.
pub async fn run(gateway: &Gateway, page: &Page, block: &CodeBlock) {
    if !has_namespaces() {
        return;
    }
    let home = std::env::temp_dir().join(format!("portcullis-page-{}", gateway.address.port()));
    std::fs::create_dir_all(&home).expect("a folder");
    let _removed = RemovedFolder(home.clone());
    let key_file = home.join(KEY_FILE);
    std::fs::write(&key_file, KEY).expect("a file");
    for block in page
        .blocks()
        .iter()
        .take_while(|before| before.place != block.place)
    {
        let Some(file) = block.file_of_home() else {
            continue;
        };
        let file = home.join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, &block.text).expect("a file");
    }
    let socket = home.join("gateway.sock");
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let address = gateway.address;
    let bridge = tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = tokio::net::TcpStream::connect(address).await {
                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    let node = installed("node");
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        node.join("node_modules/.bin").display()
    );
    let mut command = Command::new("timeout");
    command
        .args(["600", "unshare", "-n"])
        .args(WITH_ALL_THAT_IT_STARTS)
        .arg("python3")
        .arg(root().join("tests/sdk/clients/inside.py"));
    command.arg(&socket).arg("8080");
    match block.kind.as_str() {
        "python" => command
            .arg(installed("python-agents").join("bin/python"))
            .arg("-c"),
        "js" => command.args(["node", "--input-type=module", "-e"]),
        _ => command.args(["sh", "-eu", "-c"]),
    };
    // Node looks for packages in the folder that it runs in, so the file of the key is elsewhere.
    if block.kind == "js" {
        let key_file = key_file.to_str().expect("a path");
        command
            .arg(block.text.replace(KEY_FILE, key_file))
            .current_dir(&node);
    } else {
        command.arg(&block.text).current_dir(&home);
    }
    command
        .env_clear()
        .env("PATH", path)
        .env("HOME", &home)
        .env("TMPDIR", &home);
    let said = tokio::task::block_in_place(|| program(block, &mut command));
    bridge.abort();
    assert!(
        block.expects_error || is_the_demos(&said),
        "{}: {said}",
        block.place
    );
    let is_exempt = block.expects_error || why_one_turn(&block.text).is_some();
    assert!(
        is_exempt || has_two_turns(&said),
        "{}: one turn only: {said}",
        block.place
    );
}

/// Samples of conversations that have one turn: a part of each, and the reason.
const ONE_TURN: [(&str, &str); 1] =
    [("\"model\":\"demo-down\"", "it shows how a fallback answers")];

/// Returns why a sample needs no second turn, if it needs none.
fn why_one_turn(sample: &str) -> Option<&'static str> {
    const DOORS: [&str; 4] = [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "enerateContent",
    ];
    let is_curl = sample.contains("curl ");
    if is_curl && !DOORS.iter().any(|door| sample.contains(door)) {
        return Some("its doors hold no conversation");
    }
    ONE_TURN
        .iter()
        .find(|(part, _)| sample.contains(part))
        .map(|(_, why)| *why)
}

/// Returns whether each conversation of the output has a second turn. The demo says how many
/// messages a request had, or that it called a tool.
fn has_two_turns(said: &str) -> bool {
    let counts = said.split("The request had ").skip(1);
    let counts = counts.filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    let calls = said.matches("The demo called a tool.").count();
    let (mut first, mut later, mut before) = (0, 0, u32::MAX);
    for count in counts {
        let goes_on = count > before;
        first += usize::from(!goes_on);
        later += usize::from(goes_on);
        before = count;
    }
    calls >= 2 || first > 0 && later >= first
}

#[test]
fn only_lists_and_texts_without_conversation_have_one_turn() {
    assert_eq!(
        why_one_turn("curl -s http://127.0.0.1:8080/v1/rerank"),
        Some("its doors hold no conversation")
    );
    for sample in [
        "curl -s http://127.0.0.1:8080/v1/rerank\ncurl http://127.0.0.1:8080/v1/messages",
        "print(answer)",
    ] {
        assert_eq!(why_one_turn(sample), None, "{sample}");
    }
    let pages: String = Page::all().iter().map(|page| page.text.clone()).collect();
    for (part, why) in ONE_TURN {
        assert!(
            pages.contains(part) && !why.is_empty(),
            "no page has {part} any more"
        );
    }
}

#[test]
fn a_second_turn_is_seen_by_its_messages() {
    let answer = |count: &str| format!("No model was asked. The request had {count} messages.\n");
    for (counts, expected) in [
        (&["1"][..], false),
        (&["1", "3"], true),
        (&["1", "3", "1"], false),
        (&["1", "3", "1", "3"], true),
        (&["1", "1"], false),
        (&["4", "6"], true),
        (&[], false),
    ] {
        let said: String = counts.iter().map(|count| answer(count)).collect();
        assert_eq!(has_two_turns(&said), expected, "{counts:?}");
    }
    assert!(has_two_turns(
        "The demo called a tool. It is warm. The demo called a tool. It is cold."
    ));
    assert!(!has_two_turns("The demo called a tool. It is warm."));
}
