//! A stand-in for a dialect: every event is a JSON array, such as `["text",0,"a"]`, or a list of
//! arrays.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::dialect::Stream;
use crate::front::CHAT;
use crate::front::chat::write::ChunksWriter;
use crate::front::chat::write::tests::{
    Told, any_options, conforms, header, options, plausible, told,
};
use crate::neutral::Emit;
use crate::neutral::answer::AnswerOptions;
use crate::neutral::usage::Source;
use crate::neutral::{Event, Finish, Tokens, UpstreamError};
use crate::upstream::Framing;
use crate::wire::frames;

const ROLE: &str = r#"0 {"role":"assistant","content":""}"#;
const STOP: &str = r#"["finish",0,"stop"]"#;
const END: &str = r#"["end"]"#;

/// The reader of this dialect, whose answer may end with the file.
#[derive(Default)]
struct Script {
    ends_with_the_file: bool,
}

impl Reader for Script {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault> {
        let value: Value = serde_json::from_slice(data)
            .map_err(|_| StreamFault::Broken("an event is not JSON"))?;
        if name == b"error" {
            return Err(upstream(value[0].as_str().unwrap_or_default()));
        }
        let list = value
            .as_array()
            .ok_or(StreamFault::Broken("an event is no array"))?;
        if list.first().is_some_and(Value::is_string) {
            return self.tell(list, emit);
        }
        list.iter()
            .filter_map(Value::as_array)
            .try_for_each(|one| self.tell(one, emit))
    }

    fn end_of_file(&mut self, emit: Emit<'_>) -> Result<(), StreamFault> {
        if self.ends_with_the_file {
            emit(Event::Text(0, "."));
            emit(Event::End);
        }
        Ok(())
    }
}

impl Script {
    fn tell(&mut self, list: &[Value], emit: Emit<'_>) -> Result<(), StreamFault> {
        let text = |at: usize| list.get(at).and_then(Value::as_str);
        let some = |at: usize| text(at).unwrap_or_default();
        let number = |at: usize| list.get(at).and_then(Value::as_u64);
        let choice = u32::try_from(number(1).unwrap_or(0)).unwrap();
        emit(match some(0) {
            "id" => Event::Id(some(1)),
            "text" => Event::Text(choice, some(2)),
            "reasoning" => Event::Reasoning(choice, some(2)),
            "refusal" => Event::Refusal(choice, some(2)),
            "signed" => Event::Signed(some(1)),
            "redacted" => Event::Redacted(some(1)),
            "call" => Event::Call {
                choice,
                id: text(2),
                name: some(3),
                signature: text(4),
            },
            "arguments" => Event::Arguments(choice, some(2)),
            "media" => Event::Media(choice, some(2), some(3)),
            "finish" => Event::Finish(
                choice,
                match some(2) {
                    "length" => Finish::Length,
                    "filtered" => Finish::Filtered,
                    _ => Finish::Stop,
                },
            ),
            "usage" => Event::Usage(Tokens {
                prompt: number(1),
                completion: number(2),
                cached: number(3),
                cache_write: number(4),
                reasoning: number(5),
            }),
            "end" => Event::End,
            "ends with the file" => {
                self.ends_with_the_file = true;
                return Ok(());
            }
            _ => return Ok(()),
        });
        Ok(())
    }
}

/// The script's word for it.
fn script(told: &Told) -> String {
    let finish = |finish: Finish| match finish {
        Finish::Stop | Finish::Calls => "stop",
        Finish::Length => "length",
        Finish::Filtered => "filtered",
    };
    match told {
        Told::Text(choice, text) => json!(["text", choice, text]),
        Told::Reasoning(choice, text) => json!(["reasoning", choice, text]),
        Told::Refusal(choice, text) => json!(["refusal", choice, text]),
        Told::Signed(signature) => json!(["signed", signature]),
        Told::Redacted(data) => json!(["redacted", data]),
        Told::Call(choice, id, name, signature) => json!(["call", choice, id, name, signature]),
        Told::Arguments(choice, text) => json!(["arguments", choice, text]),
        Told::Media(choice, mime, data) => json!(["media", choice, mime, data]),
        Told::Finish(choice, reason) => json!(["finish", choice, finish(*reason)]),
        Told::Usage(tokens) => {
            json!([
                "usage",
                tokens.prompt,
                tokens.completion,
                tokens.cached,
                tokens.cache_write,
                tokens.reasoning
            ])
        }
        Told::Id(id) => json!(["id", id]),
    }
    .to_string()
}

fn upstream(message: &str) -> StreamFault {
    StreamFault::Upstream(UpstreamError {
        message: message.to_owned(),
        ..UpstreamError::default()
    })
}

/// The events in a framing's bytes.
fn framed(framing: Framing, events: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let one = |data: &[u8]| match framing {
        Framing::Events => [b"data: ", data, b"\n\n"].concat(),
        Framing::Lines => [data, b"\n"].concat(),
        Framing::Frames => frames::frame(&[], data),
    };
    events
        .iter()
        .flat_map(|event| one(event.as_ref()))
        .collect()
}

struct EndsWithTheFile(Script);

impl Reader for EndsWithTheFile {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault> {
        self.0.event(name, data, emit)
    }

    fn end_of_file(&mut self, emit: Emit<'_>) -> Result<(), StreamFault> {
        emit(Event::End);
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
struct Run {
    out: String,
    result: Result<Usage, StreamFault>,
    opened: bool,
    kept: Vec<Kept>,
}

fn stream(show_usage: bool, options: &AnswerOptions, framing: Framing) -> Stream {
    stream_of(
        &header(show_usage),
        options.clone(),
        framing,
        Box::new(Script::default()),
        1 << 20,
    )
}

fn stream_of(
    header: &AnswerHeader,
    options: AnswerOptions,
    framing: Framing,
    reader: Box<dyn Reader>,
    limit: usize,
) -> Stream {
    let draft = Draft::new(header, options, Box::new(ChunksWriter::new(header)));
    Stream::new(TranslatedStream {
        decoder: Decoder::new(framing, limit),
        translated: Translated::new(&CHAT, None, reader, draft, header),
    })
}

fn run<'a>(
    show_usage: bool,
    options: &AnswerOptions,
    framing: Framing,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> Run {
    let mut stream = stream(show_usage, options, framing);
    let mut out = Vec::new();
    let fed = reads
        .into_iter()
        .try_for_each(|read| stream.feed(read, &mut out));
    assert!(fed.is_ok() || !stream.done());
    let result = fed.and_then(|()| stream.finish(&mut out, None));
    Run {
        out: String::from_utf8(out).unwrap(),
        result,
        opened: stream.opened(),
        kept: stream.kept(),
    }
}

/// Runs the stream whole, cut in two at every byte, and byte by byte. All results are equal.
#[track_caller]
fn run_all(show_usage: bool, options: &AnswerOptions, framing: Framing, bytes: &[u8]) -> Run {
    let whole = run(show_usage, options, framing, [bytes]);
    for cut in 1..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(
            run(show_usage, options, framing, [head, tail]),
            whole,
            "cut at {cut}"
        );
    }
    assert_eq!(
        run(show_usage, options, framing, bytes.chunks(1)),
        whole,
        "byte by byte"
    );
    if whole.result.is_ok() {
        conforms(&whole.out, show_usage);
    } else {
        assert!(!whole.out.contains("data: [DONE]"));
    }
    whole
}

/// `0 {"content":"a"}` is a chunk of choice 0 with that delta, `0 =stop` the chunk of its end.
fn long(expected: &str) -> String {
    let (choice, delta) = expected.split_once(' ').unwrap();
    let (delta, reason) = match delta.strip_prefix('=') {
        Some(reason) => ("{}", format!("\"{reason}\"")),
        None => (delta, "null".to_owned()),
    };
    format!(
        "data: {{\"id\":\"chatcmpl-0a\",\"object\":\"chat.completion.chunk\",\"created\":99,\"model\":\"fast\",\"choices\":[{{\"index\":{choice},\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
    )
}

/// Checks a stream in every framing; `[DONE]` is added to the expected events.
#[track_caller]
fn check(events: &[impl AsRef<[u8]>], expected: &[&str]) {
    for framing in [Framing::Events, Framing::Lines, Framing::Frames] {
        let run = run_all(false, &options(), framing, &framed(framing, events));
        run.result
            .unwrap_or_else(|fault| panic!("{framing:?}: {fault:?}"));
        let expected: String = expected
            .iter()
            .map(|expected| long(expected))
            .chain(["data: [DONE]\n\n".to_owned()])
            .collect();
        assert_eq!(run.out, expected, "{framing:?}");
    }
}

/// A stream that goes wrong after these chunks.
#[track_caller]
fn check_fault(events: &[impl AsRef<[u8]>], expected: &[&str], fault: StreamFault) {
    for framing in [Framing::Events, Framing::Lines, Framing::Frames] {
        let run = run_all(true, &options(), framing, &framed(framing, events));
        assert_eq!(run.result, Err(fault.clone()), "{framing:?}");
        let expected: String = expected
            .iter()
            .map(|expected| long(expected).replace("}]}\n", "}],\"usage\":null}\n"))
            .collect();
        assert_eq!(run.out, expected, "{framing:?}");
    }
}

#[test]
fn a_stream_ends_when_the_dialect_says_so() {
    check(
        &[r#"["text",0,"a"]"#, STOP, END],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
    check(
        &[r#"[["text",0,"a"],["finish",0,"stop"],["end"]]"#],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
    // Bytes after the end are not read.
    check(
        &[r#"["text",0,"a"]"#, END, "garbage", r#"["text",0,"b"]"#],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
    // Unknown events are skipped.
    check(
        &[r#"["ping"]"#, "[]", r#"["text",0,"a"]"#, STOP, END],
        &[ROLE, r#"0 {"content":"a"}"#, "0 =stop"],
    );
}

#[test]
fn a_stream_without_an_end_was_cut() {
    let nothing: [&str; 0] = [];
    check_fault(&nothing, &[], StreamFault::Cut);
    check_fault(
        &[r#"["text",0,"a"]"#],
        &[ROLE, r#"0 {"content":"a"}"#],
        StreamFault::Cut,
    );
    check_fault(
        &[r#"["text",0,"a"]"#, STOP],
        &[ROLE, r#"0 {"content":"a"}"#],
        StreamFault::Cut,
    );
}

#[test]
fn some_streams_end_with_the_file() {
    let expected = [
        ROLE,
        r#"0 {"content":"a"}"#,
        r#"0 {"content":"."}"#,
        "0 =stop",
    ];
    check(
        &[r#"["ends with the file"]"#, r#"["text",0,"a"]"#, STOP],
        &expected,
    );
}

#[test]
fn an_end_without_an_answer_is_none() {
    check_fault(&[END], &[], StreamFault::Broken("the answer is empty"));
}

#[test]
fn errors_inside_a_stream() {
    let bytes =
        b"data: [\"text\",0,\"a\"]\n\nevent: error\ndata: [\"too much\"]\n\ndata: [\"end\"]\n\n";
    let run = run_all(false, &options(), Framing::Events, bytes);
    assert_eq!(run.result, Err(upstream("too much")));
    check_fault(&["null"], &[], StreamFault::Broken("an event is no array"));
    check_fault(
        &[r#"["text",0,"a"]"#, "{", END],
        &[ROLE, r#"0 {"content":"a"}"#],
        StreamFault::Broken("an event is not JSON"),
    );
    check_fault(
        &[r#"["arguments",0,"a"]"#, END],
        &[],
        StreamFault::Broken("arguments without a tool call"),
    );
}

#[test]
fn half_characters_are_replaced() {
    let events: [&[u8]; 4] = [
        b"[\"text\",0,\"a\xC3\"]",
        br#"["text",0,"\ud83d"]"#,
        br#"["text",0,"\ud83d\ude00\\ud83d"]"#,
        b"[\"end\"]",
    ];
    check(
        &events,
        &[
            ROLE,
            "0 {\"content\":\"a\u{FFFD}\"}",
            "0 {\"content\":\"\u{FFFD}\"}",
            r#"0 {"content":"😀\\ud83d"}"#,
            "0 =stop",
        ],
    );
    // Other faults are not repaired.
    check_fault(
        &[b"[\"text\",0,\"\xC3\""],
        &[],
        StreamFault::Broken("an event is not JSON"),
    );
}

/// The last event may lack its line end; if it is cut itself, it is none.
#[test]
fn the_last_line_end_may_be_missing() {
    for framing in [Framing::Events, Framing::Lines] {
        let bytes = framed(framing, &[r#"["text",0,"a"]"#, STOP, END]);
        for missing in 0..4 {
            let run = run_all(false, &options(), framing, &bytes[..bytes.len() - missing]);
            let is_whole = missing <= if framing == Framing::Events { 2 } else { 1 };
            assert_eq!(run.result.is_ok(), is_whole, "{framing:?} {missing}");
            assert_eq!(run.result.err(), (!is_whole).then_some(StreamFault::Cut));
        }
    }
    let bytes = b"data: [\"text\",0,\"a\"]\n\nevent: error\ndata: [\"too much\"]";
    assert_eq!(
        run_all(false, &options(), Framing::Events, bytes).result,
        Err(upstream("too much"))
    );
    let bytes = framed(Framing::Frames, &[r#"["text",0,"a"]"#, STOP, END]);
    assert_eq!(
        run_all(
            false,
            &options(),
            Framing::Frames,
            &bytes[..bytes.len() - 1]
        )
        .result,
        Err(StreamFault::Cut)
    );
    // A stream that may end with the file must not end inside a frame.
    let bytes = framed(Framing::Frames, &[r#"["text",0,"a"]"#, STOP, r#"["ping"]"#]);
    let whole = |bytes: &[u8]| {
        let reader = Box::new(EndsWithTheFile(Script::default()));
        let mut stream = stream_of(&header(false), options(), Framing::Frames, reader, 1 << 20);
        let mut out = Vec::new();
        stream
            .feed(bytes, &mut out)
            .and_then(|()| stream.finish(&mut out, None))
            .map(drop)
    };
    assert_eq!(whole(&bytes), Ok(()));
    for missing in [1, 4, 20] {
        assert_eq!(
            whole(&bytes[..bytes.len() - missing]),
            Err(StreamFault::Cut)
        );
    }
}

#[test]
fn what_is_larger_than_allowed_is_refused() {
    for (framing, why) in [
        (Framing::Events, "an event is larger than allowed"),
        (Framing::Lines, "an event is larger than allowed"),
        (Framing::Frames, "a frame is too large"),
    ] {
        let mut stream = stream_of(
            &header(true),
            options(),
            framing,
            Box::new(Script::default()),
            100,
        );
        let long = format!(r#"["text",0,"{}"]"#, "x".repeat(100));
        let bytes = framed(framing, &[r#"["text",0,"a"]"#, STOP, &long]);
        let mut out = Vec::new();
        assert_eq!(stream.feed(&bytes, &mut out), Err(StreamFault::Broken(why)));
        assert!(stream.opened() && !stream.whole() && !out.is_empty());
        // After the end it does not matter.
        let mut stream = stream_of(
            &header(true),
            options(),
            framing,
            Box::new(Script::default()),
            100,
        );
        let bytes = framed(framing, &[r#"["text",0,"a"]"#, END, &long]);
        assert_eq!(
            (stream.feed(&bytes, &mut out), stream.feed(&bytes, &mut out)),
            (Ok(()), Ok(()))
        );
        assert!(stream.done() && stream.whole() && stream.finish(&mut out, None).is_ok());
    }
}

#[test]
fn broken_frames_are_broken() {
    let mut bytes = framed(Framing::Frames, &[r#"["text",0,"a"]"#]);
    bytes[20] ^= 1;
    let run = run_all(true, &options(), Framing::Frames, &bytes);
    assert_eq!(
        run.result,
        Err(StreamFault::Broken("a frame does not match its checksum"))
    );
}

#[test]
fn a_stream_may_change_threads() {
    fn check<T: Send>(_: T) {}
    check(stream(true, &options(), Framing::Events));
}

/// The gate, the end and the accounts can ask for the state on the way.
#[test]
fn the_state_can_be_asked() {
    let mut stream = stream(true, &options(), Framing::Lines);
    let mut out = Vec::new();
    let mut feed = |line: &str| {
        stream
            .feed(format!("{line}\n").as_bytes(), &mut out)
            .unwrap();
        (
            stream.opened(),
            stream.whole(),
            stream.done(),
            stream.usage_so_far().completion,
        )
    };
    assert_eq!(feed(r#"["id","m"]"#), (false, false, false, 0));
    assert_eq!(feed(r#"["usage",9,1]"#), (false, false, false, 1));
    assert_eq!(feed(r#"["reasoning",0,"abcd"]"#), (true, false, false, 2));
    assert_eq!(feed(r#"["signed","s"]"#), (true, false, false, 2));
    assert_eq!(feed(r#"["call",0,"a","f"]"#), (true, false, false, 3));
    assert_eq!(feed(STOP), (true, true, false, 3));
    assert_eq!(feed(r#"["usage",9,7]"#), (true, true, false, 7));
    assert_eq!(feed(END), (true, true, true, 7));
    let usage = Usage {
        prompt: 9,
        completion: 7,
        source: Source::Reported,
        ..Usage::default()
    };
    assert_eq!(stream.finish(&mut out, None), Ok(usage));
    assert_eq!((stream.kept().len(), stream.kept().len()), (1, 0));
    conforms(str::from_utf8(&out).unwrap(), true);
    assert!(
        format!("{stream:?}")
            .starts_with("Stream { conversion: TranslatedStream { decoder: Lines(")
    );
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    let mut stream = stream(true, &options(), Framing::Events);
    let events = [
        r#"["text",0,"abc"]"#,
        r#"["arguments",0,"abc"]"#,
        r#"["usage",9,3]"#,
    ];
    let bytes = framed(Framing::Events, &events);
    let mut out = Vec::new();
    let size = |stream: &Stream| format!("{stream:?}").len();
    stream
        .feed(
            &framed(Framing::Events, &[r#"["call",0,"a","f"]"#]),
            &mut out,
        )
        .unwrap();
    stream.feed(&bytes, &mut out).unwrap();
    let early = size(&stream);
    for _ in 0..10_000 {
        out.clear();
        stream.feed(&bytes, &mut out).unwrap();
    }
    assert!(size(&stream) <= early + 16, "{early} {}", size(&stream));
}

proptest! {
    /// The result does not depend on the cuts or on the framing, and no `[DONE]` comes without an
    /// end.
    #[test]
    fn cuts_change_nothing(
        mut told in prop::collection::vec(told(), 0..12),
        options in any_options(),
        show_usage: bool,
        ends: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        plausible(&mut told);
        let events: Vec<String> = told.iter().map(script).chain(ends.then(|| END.to_owned())).collect();
        let mut first = None;
        for framing in [Framing::Events, Framing::Lines, Framing::Frames] {
            let bytes = framed(framing, &events);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let found = run(show_usage, &options, framing, cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
            prop_assert_eq!(&found, first.get_or_insert(run(show_usage, &options, framing, [&bytes[..]])));
            prop_assert_eq!(&found, &run(show_usage, &options, framing, bytes.chunks(1)));
            if found.result.is_ok() {
                prop_assert!(ends);
                conforms(&found.out, show_usage);
            } else {
                prop_assert!(!found.out.contains("data: [DONE]"));
                prop_assert!(ends || found.result == Err(StreamFault::Cut) || matches!(found.result, Err(StreamFault::Broken(_))));
            }
        }
    }

    /// Whatever bytes come: no panic.
    #[test]
    fn any_bytes_are_survived(
        told in prop::collection::vec(told(), 0..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        options in any_options(),
    ) {
        let events: Vec<String> = told.iter().map(script).collect();
        for framing in [Framing::Events, Framing::Lines, Framing::Frames] {
            let mut bytes = framed(framing, &events);
            for (at, byte) in changes.iter().filter(|_| !events.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let whole = run(true, &options, framing, [&bytes[..]]);
            prop_assert_eq!(run(true, &options, framing, bytes.chunks(1)), whole);
        }
    }
}
