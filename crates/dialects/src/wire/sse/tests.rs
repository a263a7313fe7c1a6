use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

type Events = Vec<(String, String)>;

const LIMIT: usize = 1 << 20;

/// The events of a stream that comes in these reads, and at its end the pending one.
fn decode(limit: usize, reads: &[&[u8]]) -> (Events, Result<Option<String>, TooLarge>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut decoder = Decoder::new(limit);
    let mut events = Events::new();
    for read in reads {
        let fed = decoder.feed(read, |event| {
            events.push((text(event.name), text(event.data)));
            ControlFlow::<Infallible>::Continue(())
        });
        if let Err(TooLarge) = fed {
            return (events, Err(TooLarge));
        }
    }
    (events, Ok(decoder.finish(|event| text(event.data))))
}

/// Checks a stream whole, byte by byte, and at every cut in two and three.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, expected: &[(&str, &str)], pending: Option<&str>) {
    let stream = stream.as_ref();
    let expected: Events = expected
        .iter()
        .map(|(n, d)| (n.to_string(), d.to_string()))
        .collect();
    let expected = (expected, Ok(pending.map(str::to_owned)));
    let shown = stream.escape_ascii();
    assert_eq!(decode(LIMIT, &[stream]), expected, "{shown}");
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(decode(LIMIT, &bytes), expected, "byte by byte: {shown}");
    for second in 0..=stream.len() {
        for first in 0..=second {
            let reads = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(
                decode(LIMIT, &reads),
                expected,
                "cut at {first} and {second}: {shown}"
            );
        }
    }
}

#[test]
fn names_repeat_and_change() {
    let one = "event: a\ndata: 1\n\n";
    let stream = format!(
        "{one}{one}event: ab\ndata: 2\n\nevent: a\r\ndata: 3\n\n{one}event\ndata: 4\n\ndata: 5\n\n{one}"
    );
    let events = [
        ("a", "1"),
        ("a", "1"),
        ("ab", "2"),
        ("a", "3"),
        ("a", "1"),
        ("", "4"),
        ("", "5"),
        ("a", "1"),
    ];
    check(stream, &events, None);
    check(
        "event: a\nevent: b\nevent: a\ndata: 1\n\nevent: a\n\ndata: 2\n\n",
        &[("a", "1"), ("", "2")],
        None,
    );
    assert_eq!(
        decode(20, &[&b"data: 0123456789\nevent: a\nevent: a\n\n"[..]]).1,
        Ok(None)
    );
    assert_eq!(
        decode(17, &[&b"event: a\n\ndata: 0123456789\nevent: a\n\n"[..]]).1,
        Err(TooLarge)
    );
}

#[test]
fn d10_vectors_of_the_specification() {
    for stream in [
        "data: a\n\n",
        "data:a\r\n\r\n",
        "data: a\r\r",
        "data: a\n\r\n",
        "data: a\r\n\r",
    ] {
        check(stream, &[("", "a")], None);
    }
    check("data:  a\n\n", &[("", " a")], None);
    check("data:\ta\n\n", &[("", "\ta")], None);
    check("data: a\ndata: b\n\n", &[("", "a\nb")], None);
    check(
        "data: a\ndata\ndata:\ndata: b\n\n",
        &[("", "a\n\n\nb")],
        None,
    );
    check("data\ndata: a\n\n", &[("", "\na")], None);
    check("data: a:b: c\n\n", &[("", "a:b: c")], None);
    check("data: a\r\ndata: b\r\n\r\n", &[("", "a\nb")], None);
    check("foo: x\ndata: a\n\n", &[("", "a")], None);
    check("Data: x\ndatas: y\n data: z\n\n", &[], None);
    check("data: é😀\n\ndata: b\n\n", &[("", "é😀"), ("", "b")], None);
    check("\n\n\r\n\r\rdata: a\n\n\n", &[("", "a")], None);
    check(b"data: \xFF\n\n", &[("", "\u{FFFD}")], None);
}

#[test]
fn d10_comments_and_other_fields_pass_silently() {
    check(": x\n\n", &[], None);
    check(":\n:data: x\n\n", &[], None);
    check("id: 1\n\nretry: 10\n\nid\n\n", &[], None);
    check(
        "data: a\n: ping\ndata: b\nid: 7\nretry: 1\n\n",
        &[("", "a\nb")],
        None,
    );
}

#[test]
fn event_names_hold_for_one_event() {
    check("event: e\n\ndata: a\n\n", &[("", "a")], None);
    check(
        "event: e\ndata: a\n\ndata: b\n\n",
        &[("e", "a"), ("", "b")],
        None,
    );
    check("data: a\nevent:e\nevent: f\n\n", &[("f", "a")], None);
    check("event: e\nevent\ndata: a\n\n", &[("", "a")], None);
}

#[test]
fn empty_data_is_no_event() {
    check("data\n\n", &[], None);
    check("data:\n\ndata: \n\n", &[], None);
    check("event: e\ndata:\ndata:\n\ndata: a\n\n", &[("", "a")], None);
}

#[test]
fn d10_a_byte_order_mark_counts_at_the_start_only() {
    check("\u{FEFF}data: a\n\n", &[("", "a")], None);
    check("\u{FEFF}\n\ndata: a\n\n", &[("", "a")], None);
    check("\u{FEFF}\u{FEFF}data: a\n\n", &[], None);
    check("data: a\n\n\u{FEFF}data: b\n\n", &[("", "a")], None);
    check("data: \u{FEFF}\n\n", &[("", "\u{FEFF}")], None);
    check(b"\xEF\xBBdata: a\n\n", &[], None);
    check("\u{FEFF}data: a", &[], Some("a"));
}

#[test]
fn the_last_event_may_lack_its_end() {
    check("data: a", &[], Some("a"));
    check("data: a\n", &[], Some("a"));
    check("data: a\r\ndata: b", &[], Some("a\nb"));
    check("data: a\n\ndata: b\r", &[("", "a")], Some("b"));
    check("data: a\n\n: x", &[("", "a")], None);
    check("data:", &[], None);
}

#[test]
fn the_end_comes_once() {
    let mut decoder = Decoder::new(LIMIT);
    let fed = decoder.feed(b"event: e\ndata: a", |_| ControlFlow::Break(()));
    assert_eq!(fed, Ok(ControlFlow::Continue(())));
    assert_eq!(
        decoder.finish(|event| (event.name.to_vec(), event.data.len())),
        Some((b"e".to_vec(), 1))
    );
    assert_eq!(decoder.finish(|_| ()), None);
}

#[test]
fn a_break_stops_the_read() {
    let mut seen = 0;
    let mut decoder = Decoder::new(LIMIT);
    let fed = decoder.feed(b"data: a\n\ndata: b\n\ndata: c\n\n", |event| {
        seen += 1;
        if event.data == b"b" {
            ControlFlow::Break("stop")
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!((fed, seen), (Ok(ControlFlow::Break("stop")), 2));
}

#[test]
fn one_event_in_one_read_is_not_copied() {
    let read = b"data: {\"a\":1}\n\ndata: [DONE]\n\n";
    let mut decoder = Decoder::new(LIMIT);
    let fed = decoder.feed(read, |event| {
        assert!(read.as_ptr_range().contains(&event.data.as_ptr()));
        ControlFlow::<Infallible>::Continue(())
    });
    assert_eq!(fed, Ok(ControlFlow::Continue(())));
    assert_eq!(decoder.line.capacity() + decoder.data.buffer.capacity(), 0);
}

#[test]
fn d14_a_line_without_an_end_stops_at_the_limit() {
    let mut decoder = Decoder::new(LIMIT);
    let read = [b'x'; 10_000];
    let mut fed = 0;
    while decoder
        .feed(&read, |_| ControlFlow::<()>::Continue(()))
        .is_ok()
    {
        fed += read.len();
        assert!(decoder.line.capacity() <= LIMIT);
    }
    assert!(fed <= LIMIT && fed + read.len() > LIMIT);
}

#[test]
fn d14_data_in_many_lines_stops_at_the_limit() {
    let mut decoder = Decoder::new(LIMIT);
    let read = b"data: "
        .repeat(700)
        .into_iter()
        .chain(*b"\n")
        .collect::<Vec<_>>();
    let mut fed = 0;
    while decoder
        .feed(&read, |_| ControlFlow::<()>::Continue(()))
        .is_ok()
    {
        fed += read.len();
        assert!(decoder.line.capacity() + decoder.data.buffer.capacity() <= LIMIT + read.len());
    }
    assert!(fed <= LIMIT + 2 * read.len() && fed + 2 * read.len() > LIMIT);
}

#[test]
fn large_buffers_are_given_back_after_their_event() {
    let mut decoder = Decoder::new(LIMIT);
    let large = [b"data: ".as_slice(), &[b'x'; 100_000]].concat();
    for read in [&large[..], b"\n", b"data: b\n", b"\ndata: c\n"] {
        let fed = decoder.feed(read, |_| ControlFlow::<()>::Continue(()));
        assert_eq!(fed, Ok(ControlFlow::Continue(())));
    }
    assert!(decoder.line.capacity() + decoder.data.buffer.capacity() <= 2 * KEPT);
}

/// The specification read literally: whole text in, lines, then fields.
fn model(stream: &[u8]) -> (Events, Option<String>) {
    let stream = String::from_utf8_lossy(stream).into_owned();
    let stream = stream.strip_prefix('\u{FEFF}').unwrap_or(&stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut data) = (Events::new(), String::new(), String::new());
    let holds = |data: &str| !data.trim_matches('\n').is_empty();
    let mut lines: Vec<&str> = stream.split('\n').collect();
    let unfinished = lines.pop().unwrap_or("");
    let fields = lines
        .into_iter()
        .map(|line| (line, true))
        .chain([(unfinished, false)]);
    for (line, ended) in fields {
        if line.is_empty() && ended {
            if holds(&data) {
                data.pop();
                events.push((name.clone(), data.clone()));
            }
            name.clear();
            data.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value.to_owned(),
            "data" => data.push_str(&format!("{value}\n")),
            _ => {}
        }
    }
    let pending = holds(&data).then(|| data.strip_suffix('\n').unwrap_or(&data).to_owned());
    (events, pending)
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "data",
        "data:",
        "data: ",
        "event: ",
        "event",
        "id: 1",
        "retry: 5",
        ":",
        " ",
        "a",
        "é",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\u{FEFF}",
        "{\"b\":1}",
        "data: x\n\n",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn d09_cuts_change_nothing(
        stream in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        limit in prop_oneof![Just(LIMIT), 0..40usize],
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let reads: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let whole = decode(limit, &[&stream]);
        prop_assert_eq!(&decode(limit, &reads), &whole);
        prop_assert_eq!(&decode(limit, &bytes), &whole);
        if limit == LIMIT {
            let (events, pending) = model(&stream);
            prop_assert_eq!(whole, (events, Ok(pending)));
        }
    }
}
