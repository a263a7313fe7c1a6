use std::sync::Arc;

use super::*;
use crate::front::fields::tests::in_words;
use crate::neutral::{Cache, Media};

fn text(text: &'static str) -> Part<'static> {
    Part {
        kind: PartKind::Text(text.into()),
        cache: None,
    }
}

fn image() -> Part<'static> {
    Part {
        kind: PartKind::Image(Media::Url("https://x/y.png".into()), None),
        cache: None,
    }
}

fn message(role: Role, texts: &[&'static str]) -> Message<'static> {
    Message {
        role,
        content: texts.iter().map(|said| text(said)).collect(),
        ..Message::default()
    }
}

fn system(said: &'static str) -> Message<'static> {
    message(Role::System, &[said])
}

fn user(said: &'static str) -> Message<'static> {
    message(Role::User, &[said])
}

fn call(id: &'static str) -> Call<'static> {
    let name = format!("f_{id}");
    Call {
        id: id.into(),
        name: name.into(),
        arguments: "{}".into(),
        signature: None,
        is_custom: false,
    }
}

fn assistant(said: &[&'static str], calls: &[&'static str]) -> Message<'static> {
    Message {
        calls: calls.iter().map(|id| call(id)).collect(),
        ..message(Role::Assistant, said)
    }
}

fn tool(id: &'static str, said: &'static str) -> Message<'static> {
    Message {
        tool_call_id: Some(id.into()),
        ..message(Role::Tool, &[said])
    }
}

fn thought(text: &'static str, signature: &'static str) -> Thought<'static> {
    Thought {
        text: text.into(),
        signature: Some(signature.into()),
        redacted: None,
        of_call: false,
    }
}

fn of_call(signature: &'static str) -> Thought<'static> {
    Thought {
        signature: Some(signature.into()),
        of_call: true,
        ..Thought::default()
    }
}

fn redacted(data: &'static str) -> Thought<'static> {
    Thought {
        redacted: Some(data.into()),
        ..Thought::default()
    }
}

fn unsigned(text: &'static str) -> Thought<'static> {
    Thought {
        text: text.into(),
        ..Thought::default()
    }
}

fn with_thoughts(message: Message<'static>, thoughts: Vec<Thought<'static>>) -> Message<'static> {
    Message {
        thoughts,
        ..message
    }
}

fn shown(thoughts: &[Thought<'_>]) -> String {
    let one = |thought: &Thought<'_>| match (&thought.redacted, &thought.signature) {
        (Some(data), _) => format!("#{data}"),
        (None, signature) => format!("{}@{}", thought.text, signature.as_deref().unwrap_or("?")),
    };
    thoughts.iter().map(one).collect::<Vec<_>>().join("+")
}

fn part(part: &Part<'_>) -> String {
    match &part.kind {
        PartKind::Text(text) => text.to_string(),
        PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => "<media>".to_owned(),
    }
}

fn item(item: &Item<'_, '_>) -> String {
    match item {
        Item::Part(it) => part(it),
        Item::Thoughts(Thoughts::Sent(thoughts)) => format!("said({})", shown(thoughts)),
        Item::Thoughts(Thoughts::Kept(thoughts)) => format!("kept({})", shown(thoughts)),
        Item::Call(call, None) => format!("call({})", call.id),
        Item::Call(call, Some(signature)) => format!("call({}~{signature})", call.id),
        Item::Result(outcome) => {
            let said: Vec<String> = outcome.parts.iter().map(part).collect();
            let cache = outcome.cache.map_or_else(String::new, |cache| {
                format!("!{}", cache.ttl.as_deref().unwrap_or_default())
            });
            format!(
                "result({} {}:{}{cache})",
                outcome.id,
                outcome.name,
                said.join("+")
            )
        }
    }
}

fn none(_: &str) -> Option<Kept> {
    None
}

/// `system | U item, item | A item … ; losses`
fn told(messages: Vec<Message<'static>>, kept: &dyn Fn(&str) -> Option<Kept>) -> String {
    let request = Request {
        messages,
        ..Request::default()
    };
    let mut losses = LostFields::default();
    let turns = group_turns(&request, kept, &mut losses);
    let system: Vec<String> = turns.system.iter().map(|it| part(it)).collect();
    let mut told = system.join(", ");
    for (index, turn) in turns.turns.iter().enumerate() {
        assert!(!turn.items.is_empty(), "a turn says something");
        assert!(
            index == 0 || turns.turns[index - 1].is_assistant != turn.is_assistant,
            "turns alternate"
        );
        let items: Vec<String> = turn.items.iter().map(item).collect();
        told = format!(
            "{told} | {} {}",
            if turn.is_assistant { 'A' } else { 'U' },
            items.join(", ")
        );
    }
    for name in in_words(losses).names() {
        told = format!("{told} ; {name}");
    }
    told
}

#[track_caller]
fn check<const N: usize>(messages: [Message<'static>; N], expected: &str) {
    assert_eq!(told(messages.into(), &none).trim_start(), expected);
}

#[track_caller]
fn check_kept<const N: usize>(
    kept: &[(&str, &[Thought<'static>])],
    messages: [Message<'static>; N],
    expected: &str,
) {
    let find = |id: &str| {
        kept.iter()
            .find(|(of, _)| *of == id)
            .map(|(_, thoughts)| Arc::from(*thoughts))
    };
    assert_eq!(told(messages.into(), &find).trim_start(), expected);
}

#[test]
fn neighbours_become_one_turn() {
    check([], "");
    check([user("a")], "| U a");
    check(
        [
            user("a"),
            user("b"),
            assistant(&["c"], &[]),
            assistant(&["d"], &[]),
            user("e"),
        ],
        "| U a, b | A c, d | U e",
    );
    check([assistant(&["a"], &[]), user("b")], "| A a | U b");
}

#[test]
fn the_system_is_gathered_from_everywhere() {
    let developer = message(Role::Developer, &["d", "e"]);
    check(
        [system("a"), user("b"), system("c"), user("f"), developer],
        "a, c, d, e | U b, f",
    );
    let picture = Message {
        content: vec![text("a"), image()],
        ..system("")
    };
    check([picture, user("b")], "a | U b ; messages[].content");
}

#[test]
fn what_says_nothing_is_left_out() {
    check([user("a"), assistant(&[], &[]), user("b")], "| U a, b");
    check(
        [
            message(Role::User, &[]),
            message(Role::System, &[]),
            assistant(&[], &[]),
        ],
        "",
    );
    check(
        [user("a"), message(Role::User, &[]), assistant(&[], &["1"])],
        "| U a | A call(1)",
    );
}

#[test]
fn results_are_one_turn_in_call_order() {
    let calls = assistant(&["t"], &["1", "2", "3"]);
    check(
        [
            user("a"),
            calls.clone(),
            tool("3", "z"),
            tool("1", "x"),
            tool("2", "y"),
            user("b"),
        ],
        "| U a | A t, call(1), call(2), call(3) | U result(1 f_1:x), result(2 f_2:y), result(3 f_3:z), b",
    );
    // Someone spoke in between.
    check(
        [
            calls.clone(),
            user("b"),
            tool("1", "x"),
            system("s"),
            tool("2", "y"),
        ],
        "s | A t, call(1), call(2), call(3) | U result(1 f_1:x), result(2 f_2:y), b",
    );
    check(
        [calls.clone(), message(Role::User, &[]), tool("2", "y")],
        "| A t, call(1), call(2), call(3) | U result(2 f_2:y)",
    );
    // Nothing is a result too.
    check(
        [
            assistant(&[], &["1"]),
            Message {
                tool_call_id: Some("1".into()),
                ..message(Role::Tool, &[])
            },
        ],
        "| A call(1) | U result(1 f_1:)",
    );
    let parts = Message {
        content: vec![text("x"), image(), text("y")],
        ..tool("1", "")
    };
    check(
        [assistant(&[], &["1"]), parts],
        "| A call(1) | U result(1 f_1:x+<media>+y)",
    );
}

#[test]
fn results_without_a_call_stand_behind_the_others() {
    let named = Message {
        name: Some("g".into()),
        ..tool("8", "w")
    };
    check(
        [
            assistant(&[], &["1"]),
            tool("9", "q"),
            named,
            tool("1", "x"),
            tool("9", "r"),
        ],
        "| A call(1) | U result(1 f_1:x), result(9 :q), result(8 g:w), result(9 :r)",
    );
    check(
        [tool("1", "early"), assistant(&[], &["1"])],
        "| U result(1 :early) | A call(1)",
    );
    let function = Message {
        name: Some("g".into()),
        ..message(Role::Function, &["v"])
    };
    check([function], "| U result( g:v)");
}

#[test]
fn the_last_of_several_results_of_a_call_counts() {
    check(
        [
            assistant(&[], &["1", "2"]),
            tool("1", "a"),
            tool("2", "b"),
            tool("1", "c"),
        ],
        "| A call(1), call(2) | U result(1 f_1:c), result(2 f_2:b) ; messages[]",
    );
    // It moves to its call, wherever it came.
    check(
        [
            assistant(&[], &["1"]),
            tool("1", "wait"),
            assistant(&["so"], &[]),
            tool("1", "done"),
            assistant(&["ah"], &[]),
        ],
        "| A call(1) | U result(1 f_1:done) | A so, ah ; messages[]",
    );
    check(
        [
            assistant(&[], &["1"]),
            tool("1", "a"),
            tool("1", "b"),
            tool("1", "c"),
        ],
        "| A call(1) | U result(1 f_1:c) ; messages[]",
    );
}

#[test]
fn ids_may_come_again() {
    check(
        [
            assistant(&[], &["0"]),
            tool("0", "a"),
            assistant(&[], &["0"]),
            tool("0", "b"),
            user("c"),
        ],
        "| A call(0) | U result(0 f_0:a) | A call(0) | U result(0 f_0:b), c",
    );
    // Within one message their order distinguishes them.
    check(
        [
            assistant(&[], &["0", "1", "0"]),
            tool("0", "a"),
            tool("0", "b"),
            tool("1", "c"),
        ],
        "| A call(0), call(1), call(0) | U result(0 f_0:a), result(1 f_1:c), result(0 f_0:b)",
    );
}

#[test]
fn a_cache_hint_on_a_result_is_kept() {
    let cache = || Some(Cache::default());
    let marked = Message {
        cache: cache(),
        ..tool("1", "x")
    };
    check([marked], "| U result(1 :x!)");
    let marked = Message {
        content: vec![
            text("x"),
            Part {
                cache: cache(),
                ..text("y")
            },
        ],
        ..tool("1", "")
    };
    check([marked], "| U result(1 :x+y!)");
    let long = || {
        Some(Cache {
            ttl: Some("1h".into()),
        })
    };
    check(
        [Message {
            cache: long(),
            ..tool("1", "x")
        }],
        "| U result(1 :x!1h)",
    );
    let marked = Message {
        content: vec![
            Part {
                cache: cache(),
                ..text("x")
            },
            Part {
                cache: long(),
                ..text("y")
            },
        ],
        ..tool("1", "")
    };
    check([marked], "| U result(1 :x+y!1h)");
    check(
        [Message {
            cache: cache(),
            ..user("x")
        }],
        "| U x ; cache_control",
    );
}

#[test]
fn said_thoughts_come_first() {
    let said = |calls| {
        with_thoughts(
            assistant(&["t"], calls),
            vec![thought("h", "s"), redacted("r")],
        )
    };
    check([said(&[])], "| A said(h@s+#r), t");
    check([said(&["1"])], "| A said(h@s+#r), t, call(1)");
    check(
        [assistant(&["a"], &[]), said(&[])],
        "| A a, said(h@s+#r), t",
    );
    // No provider takes back a thought without a signature.
    let mixed = vec![thought("h", "s"), unsigned("u"), thought("i", "t")];
    check(
        [with_thoughts(assistant(&[], &[]), mixed)],
        "| A said(h@s), said(i@t) ; messages[].thinking_blocks",
    );
    check(
        [with_thoughts(assistant(&[], &[]), vec![unsigned("u")])],
        "; messages[].thinking_blocks",
    );
}

#[test]
fn kept_thoughts_come_back() {
    let one = [thought("h", "s"), redacted("r")];
    let two = [thought("i", "t")];
    let kept: &[(&str, &[Thought<'static>])] = &[("1", &one), ("2", &two), ("3", &one)];
    // An answer begins with its thoughts; later ones led to their call.
    check_kept(
        kept,
        [assistant(&["t"], &["1", "2"])],
        "| A kept(h@s+#r), t, call(1), kept(i@t), call(2)",
    );
    check_kept(
        kept,
        [assistant(&["t"], &["9", "2"])],
        "| A t, call(9), kept(i@t), call(2)",
    );
    // Each once.
    check_kept(
        kept,
        [assistant(&[], &["1", "3", "2"])],
        "| A kept(h@s+#r), call(1), call(3), kept(i@t), call(2)",
    );
    let said = |thoughts| with_thoughts(assistant(&["t"], &["1", "2"]), thoughts);
    check_kept(
        kept,
        [said(one.to_vec())],
        "| A said(h@s+#r), t, call(1), kept(i@t), call(2)",
    );
    check_kept(
        kept,
        [said([&one[..], &two].concat())],
        "| A said(h@s+#r+i@t), t, call(1), call(2)",
    );
    check_kept(
        kept,
        [said(vec![redacted("r")])],
        "| A said(#r), t, kept(h@s), call(1), kept(i@t), call(2)",
    );
    // But once in each answer.
    let again = "| A kept(h@s+#r), call(1) | U result(1 f_1:x) | A kept(h@s+#r), call(1)";
    check_kept(
        kept,
        [
            assistant(&[], &["1"]),
            tool("1", "x"),
            assistant(&[], &["1"]),
        ],
        again,
    );
    let plain: &[(&str, &[Thought<'static>])] = &[("1", &[unsigned("u")])];
    check_kept(plain, [assistant(&[], &["1"])], "| A call(1)");
}

#[test]
fn a_signature_alone_belongs_to_the_call() {
    let kept: &[(&str, &[Thought<'static>])] = &[
        ("1", &[of_call("g")]),
        ("2", &[thought("h", "s"), of_call("g2")]),
    ];
    check_kept(
        kept,
        [assistant(&["t"], &["1", "2"])],
        "| A t, call(1~g), kept(h@s), call(2~g2)",
    );
    let mut own = assistant(&[], &["1"]);
    own.calls[0].signature = Some("mine".into());
    check_kept(kept, [own], "| A call(1~mine)");
    // Anthropic's thoughts may have an empty text. They still count as thoughts.
    let kept: &[(&str, &[Thought<'static>])] = &[("1", &[thought("", "s")])];
    check_kept(
        kept,
        [assistant(&["t"], &["1"])],
        "| A kept(@s), t, call(1)",
    );
    check(
        [with_thoughts(assistant(&[], &[]), vec![thought("", "s")])],
        "| A said(@s)",
    );
}

#[test]
fn what_is_lost_is_said() {
    let name = |message| Message {
        name: Some("bob".into()),
        ..message
    };
    for message in [user("a"), system("a"), assistant(&["a"], &[])] {
        assert!(told(vec![name(message)], &none).ends_with(" ; messages[].name"));
    }
    let others = Message {
        others: vec![
            "audio".into(),
            "x y".into(),
            "".into(),
            "é".into(),
            "a.b-c_D9".into(),
        ],
        ..user("a")
    };
    check(
        [others.clone(), others],
        "| U a, a ; messages[].audio ; messages[].other ; messages[].a.b-c_D9",
    );
    let long = Message {
        others: vec!["x".repeat(65).into(), "x".repeat(64).into()],
        ..tool("1", "")
    };
    assert!(told(vec![long], &none).ends_with(&format!(
        " ; messages[].other ; messages[].{}",
        "x".repeat(64)
    )));
}

#[test]
fn shown_reasoning_is_lost_unless_the_thoughts_are_there() {
    let reasoned = |message| Message {
        reasoning: Some("h".into()),
        ..message
    };
    check(
        [reasoned(assistant(&["t"], &[]))],
        "| A t ; messages[].reasoning_content",
    );
    check(
        [with_thoughts(
            reasoned(assistant(&["t"], &[])),
            vec![thought("h", "s")],
        )],
        "| A said(h@s), t",
    );
    let kept: &[(&str, &[Thought<'static>])] =
        &[("1", &[thought("h", "s")]), ("2", &[of_call("g")])];
    check_kept(
        kept,
        [reasoned(assistant(&[], &["1"]))],
        "| A kept(h@s), call(1)",
    );
    check_kept(kept, [reasoned(assistant(&[], &["2"]))], "| A call(2~g)");
    check_kept(
        kept,
        [reasoned(assistant(&[], &["3"]))],
        "| A call(3) ; messages[].reasoning_content",
    );
}
