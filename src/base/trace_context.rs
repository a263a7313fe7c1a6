//! The context of a trace, as callers send it and accounts get it: the headers `traceparent` and
//! `tracestate` of the W3C's Trace Context. Pure.
//!
//! A context that is broken counts as none, and is no error. The header `baggage` is not read.

use http::HeaderName;
use std::net::SocketAddr;

/// The header with a trace and a span of it.
pub static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with the tools' own data of a trace.
pub static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The id of a trace. It is not zero.
pub type TraceId = [u8; 16];
/// The id of a span. It is not zero.
pub type SpanId = [u8; 8];

/// The longest `tracestate` that is kept.
const LONGEST_STATE: usize = 512;
/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;
/// The flag that says that the spans of a trace are kept.
const SAMPLED: u8 = 1;

/// The context of one exchange's trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The caller's own span, if the caller has one.
    pub parent: Option<Parent>,
    /// True if the spans of the exchange will be kept, as far as is known at its beginning.
    pub is_sampled: bool,
    /// The address of the gateway that the request came to.
    pub local_address: Option<SocketAddr>,
}

/// The caller's side of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The caller's span.
    pub span: SpanId,
    /// True if the caller keeps its spans.
    pub is_sampled: bool,
    /// The `tracestate` of the caller.
    pub state: Option<Box<str>>,
}

/// Reads the headers of a caller. More than one `traceparent` counts as none.
pub fn read_trace_headers<'h>(
    mut parents: impl Iterator<Item = &'h [u8]>,
    states: impl Iterator<Item = &'h [u8]>,
) -> Option<(TraceId, Parent)> {
    let (trace, span, is_sampled) = parents.next().and_then(parse_traceparent)?;
    if parents.next().is_some() {
        return None;
    }
    Some((
        trace,
        Parent {
            span,
            is_sampled,
            state: join_tracestate(states),
        },
    ))
}

/// Reads a `traceparent`. Later versions begin with the same fields.
fn parse_traceparent(text: &[u8]) -> Option<(TraceId, SpanId, bool)> {
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let mut fields = known.split(|byte| *byte == b'-');
    let [version] = parse_hex(fields.next()?)?;
    let (trace, span) = (parse_hex(fields.next()?)?, parse_hex(fields.next()?)?);
    let [flags] = parse_hex(fields.next()?)?;
    let is_long = version > 0 && rest.first() == Some(&b'-');
    let is_well = fields.next().is_none() && version != 0xff && (rest.is_empty() || is_long);
    (is_well && trace != [0; 16] && span != [0; 8]).then_some((trace, span, flags & SAMPLED != 0))
}

/// Reads hexadecimal digits in lower case.
fn parse_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let (pairs, odd) = text.as_chunks::<2>();
    if pairs.len() != N || !odd.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit_value(*high)? << 4 | digit_value(*low)?;
    }
    Some(bytes)
}

fn digit_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// Joins the lines of `tracestate`, if all of it is good.
fn join_tracestate<'h>(lines: impl Iterator<Item = &'h [u8]>) -> Option<Box<str>> {
    let mut joined = String::new();
    for line in lines {
        let is_plain = line.iter().all(|byte| matches!(byte, b' '..=b'~'));
        let comma = if joined.is_empty() { "" } else { "," };
        if !is_plain || joined.len() + comma.len() + line.len() > LONGEST_STATE {
            return None;
        }
        joined.push_str(comma);
        joined.push_str(str::from_utf8(line).ok()?);
    }
    (!joined.trim().is_empty()).then(|| joined.into())
}

impl TraceContext {
    /// Writes the `traceparent` of one of our spans.
    pub fn traceparent(&self, span: SpanId) -> String {
        let flags = if self.is_sampled { "01" } else { "00" };
        ["00", &to_hex(&self.trace), &to_hex(&span), flags].join("-")
    }

    /// Returns the caller's `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.parent.as_ref()?.state.as_deref()
    }
}

/// Returns bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| hex_pair(*byte))
        .map(char::from)
        .collect()
}

/// Returns the hexadecimal digits of a trace's id.
pub fn trace_id_digits(trace: &TraceId) -> [u8; 32] {
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(trace) {
        *pair = hex_pair(*byte);
    }
    text
}

#[inline]
fn hex_pair(byte: u8) -> [u8; 2] {
    [digit(byte >> 4), digit(byte & 15)]
}

#[inline]
fn digit(half: u8) -> u8 {
    if half < 10 {
        b'0' + half
    } else {
        b'a' - 10 + half
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn check(text: &str, expected: Option<bool>) {
        assert_eq!(
            parse_traceparent(text.as_bytes()).map(|(.., sampled)| sampled),
            expected,
            "{text}"
        );
    }

    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        check(GOOD, Some(true));
        check(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            Some(false),
        );
        // Unknown flags are ignored, also the one that says that the id is random.
        check(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
            Some(true),
        );
        check(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe",
            Some(false),
        );
        // Later versions may be longer.
        check(
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            Some(true),
        );
        check(
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later",
            Some(true),
        );
        check(
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01what",
            None,
        );
        check(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            None,
        );
        check(
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            None,
        );
        for broken in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
            "0--4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7 01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-\u{e4}bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            check(broken, None);
        }
    }

    #[test]
    fn what_is_read_is_written_with_our_own_span() {
        let (trace, parent) =
            read_trace_headers([GOOD.as_bytes()].into_iter(), std::iter::empty()).unwrap();
        assert_eq!(to_hex(&parent.span), "00f067aa0ba902b7");
        let context = TraceContext {
            trace,
            parent: Some(parent),
            is_sampled: true,
            local_address: None,
        };
        let ours = [1, 2, 3, 4, 5, 6, 7, 0xab];
        assert_eq!(
            context.traceparent(ours),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-01020304050607ab-01"
        );
        let context = TraceContext {
            is_sampled: false,
            ..context
        };
        assert!(context.traceparent(ours).ends_with("-00"));
        // Two of them say nothing.
        assert_eq!(
            read_trace_headers(
                [GOOD.as_bytes(), GOOD.as_bytes()].into_iter(),
                std::iter::empty()
            ),
            None
        );
    }

    #[test]
    fn a_tracestate_is_kept_if_short_and_plain() {
        let kept = |lines: &[&str]| {
            let states = lines.iter().map(|line| line.as_bytes());
            let (_, parent) = read_trace_headers([GOOD.as_bytes()].into_iter(), states).unwrap();
            parent.state.map(String::from)
        };
        assert_eq!(kept(&[]), None);
        assert_eq!(kept(&["", " "]), None);
        assert_eq!(
            kept(&["rojo=00f0,congo=t61"]).as_deref(),
            Some("rojo=00f0,congo=t61")
        );
        assert_eq!(kept(&["a=1", "b=2"]).as_deref(), Some("a=1,b=2"));
        assert_eq!(kept(&["a=\u{e4}"]), None);
        assert_eq!(kept(&["a=1\r\nx-evil: 1"]), None);
        let long = format!("a={}", "x".repeat(510));
        assert_eq!(kept(&[&long]).as_deref(), Some(&*long));
        assert_eq!(kept(&[&format!("{long}x")]), None);
        assert_eq!(kept(&[&long, "b=2"]), None);
        let two = [&*"y".repeat(256), &*"z".repeat(255)];
        assert_eq!(kept(&two).map(|state| state.len()), Some(512));
        assert_eq!(kept(&["yy", &"z".repeat(510)]), None);
        // Without a parent there is no state either.
        assert_eq!(
            read_trace_headers(std::iter::empty(), [&b"a=1"[..]].into_iter()),
            None
        );
    }
}
