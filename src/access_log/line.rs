//! The line of an exchange in JSON. Every exchange writes one, so it is written straight into its
//! bytes: the keys with their commas are constants, and numbers and texts take no detour.

use crate::base::address::append_address;
use crate::base::calendar::ascii_timestamp;
use crate::base::pool;
use crate::base::trace_context::{TraceId, trace_id_digits};
use crate::conf::price::Usd;
use crate::settled::{Settled, Tried, whole_micros, whole_millis};
use dialects::wire::json::escape_into;
use std::net::IpAddr;

/// Writes the line, into memory of the pool. Its field names are a contract: other programs parse
/// them.
pub(super) fn json_line(settled: &Settled) -> Vec<u8> {
    let Settled {
        began_at,
        sender,
        request,
        answer,
        served,
        attempts,
        times,
        spending,
        outcome,
        total,
        trace,
    } = settled;
    let mut line = Line(pool::take_buffer());
    line.put(br#"{"time":""#);
    line.0.extend_from_slice(&ascii_timestamp(*began_at));
    line.text(br#"","request_id":"#, &request.id);
    line.optional(
        br#","trace_id":"#,
        trace.as_ref().map(|trace| &trace.trace),
        Line::hexadecimal,
    );
    line.or_null(br#","caller":"#, sender.caller.as_deref(), Line::text);
    line.or_null(br#","key":"#, sender.key.as_deref(), Line::text);
    line.or_null(br#","address":"#, sender.address, Line::address);
    line.optional(br#","end_user":"#, sender.end_user.as_deref(), Line::text);
    line.word(br#","door":""#, request.door);
    line.text(br#","method":"#, &request.method);
    line.text(br#","path":"#, &request.path);
    line.optional(br#","session":"#, request.session.as_deref(), Line::text);
    line.or_null(br#","model":"#, request.model.as_deref(), Line::text);
    line.optional(
        br#","asked_model":"#,
        request.asked_model.as_deref(),
        Line::text,
    );
    line.or_null(br#","account":"#, served.account.as_deref(), Line::text);
    line.or_null(
        br#","upstream_model":"#,
        served.upstream_model.as_deref(),
        Line::text,
    );
    line.truth(br#","stream":"#, request.stream);
    line.number(br#","status":"#, answer.status.into());
    line.word(br#","outcome":""#, outcome.name());
    line.put(br#","attempts":["#);
    if let [first, rest @ ..] = &*attempts.trail {
        line.attempt(br#"{"account":"#, first);
        rest.iter()
            .for_each(|tried| line.attempt(br#",{"account":"#, tried));
    }
    line.or_null(
        br#"],"first_byte_ms":"#,
        times.first_byte.map(whole_millis),
        Line::number,
    );
    line.number(br#","total_ms":"#, whole_millis(*total));
    line.number(br#","own_us":"#, whole_micros(times.own_time));
    line.or_null(
        br#","auth_us":"#,
        times.auth.map(whole_micros),
        Line::number,
    );
    line.or_null(
        br#","plan_us":"#,
        times.plan.map(whole_micros),
        Line::number,
    );
    let queued = Some(times.queued).filter(|queued| !queued.is_zero());
    line.optional(br#","queued_ms":"#, queued.map(whole_millis), Line::number);
    line.optional(br#","not_retried":"#, attempts.not_retried, Line::text);
    let (usage, units) = (&spending.usage, spending.usage.units);
    line.number(br#","prompt_tokens":"#, usage.prompt);
    line.number(br#","completion_tokens":"#, usage.completion);
    line.number(br#","cached_tokens":"#, usage.cached);
    line.nonzero(br#","images":"#, units.images);
    line.nonzero(br#","audio_ms":"#, units.millis);
    line.nonzero(br#","characters":"#, units.characters);
    line.word(br#","usage":""#, usage.source.name());
    line.or_null(br#","cost_usd":"#, spending.cost, Line::usd);
    if let Some((level, kind)) = spending.limited {
        line.word(br#","limited_by":""#, level.name());
        line.0.pop();
        line.word(b" ", kind.name());
    }
    line.number(br#","bytes_in":"#, request.bytes);
    line.number(br#","bytes_out":"#, answer.bytes);
    line.or_null(
        br#","upstream_request_id":"#,
        served.upstream_request_id.as_deref(),
        Line::text,
    );
    line.truth(br#","maybe_billed":"#, attempts.maybe_billed);
    if let [first, rest @ ..] = served.losses.names() {
        line.text(br#","dropped":["#, first);
        rest.iter().for_each(|name| line.text(b",", name));
        line.put(b"]");
    }
    line.nonzero(br#","broken_calls":"#, served.flaws.broken_calls);
    if served.flaws.not_json {
        line.put(br#","not_json":true"#);
    }
    line.optional(br#","error":"#, answer.error.as_deref(), Line::text);
    line.put(b"}");
    line.0
}

/// A line while it is written. Each value comes with the text before it, which is one of ours.
struct Line(Vec<u8>);

impl Line {
    /// Writes one of our own texts. Its length is known to the compiler: a copy of known length is
    /// a few moves, and no call.
    #[inline]
    fn put<const N: usize>(&mut self, ours: &[u8; N]) {
        self.0.extend_from_slice(ours);
    }

    /// Writes one of our own words, in which nothing needs an escape. Its first quote is part of
    /// what is before it.
    #[inline]
    fn word<const N: usize>(&mut self, before: &[u8; N], word: &'static str) {
        self.put(before);
        self.0.extend_from_slice(word.as_bytes());
        self.0.push(b'"');
    }

    #[inline]
    fn truth<const N: usize>(&mut self, before: &[u8; N], is_true: bool) {
        self.put(before);
        if is_true {
            self.put(b"true");
        } else {
            self.put(b"false");
        }
    }

    #[inline]
    fn text<const N: usize>(&mut self, before: &[u8; N], text: &str) {
        self.put(before);
        self.0.push(b'"');
        // All bytes are looked at, since that is faster than to stop at the first.
        if text.bytes().fold(true, |all, byte| all & is_plain(byte)) {
            self.0.extend_from_slice(text.as_bytes());
        } else {
            escape_into(text, &mut self.0);
        }
        self.0.push(b'"');
    }

    #[inline]
    fn number<const N: usize>(&mut self, before: &[u8; N], number: u64) {
        const DIGITS: usize = 20;
        self.put(before);
        let mut digits = [b'0'; DIGITS];
        let (mut rest, mut first) = (number, DIGITS);
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            (rest, first) = (rest / 10, first - 1);
            if rest == 0 {
                break;
            }
        }
        self.0
            .extend_from_slice(digits.get(first..).unwrap_or_default());
    }

    /// Writes a number, unless it is zero.
    fn nonzero<const N: usize>(&mut self, before: &'static [u8; N], number: u32) {
        self.optional(
            before,
            Some(number.into()).filter(|number| *number > 0),
            Line::number,
        );
    }

    /// Writes an amount, always with a decimal point or an exponent.
    fn usd<const N: usize>(&mut self, before: &[u8; N], cost: Usd) {
        self.put(before);
        // A float that is finite can always be written to a buffer.
        let _written = serde_json::to_writer(&mut self.0, &cost);
    }

    fn address<const N: usize>(&mut self, before: &[u8; N], address: IpAddr) {
        self.put(before);
        self.0.push(b'"');
        append_address(&mut self.0, address);
        self.0.push(b'"');
    }

    fn hexadecimal<const N: usize>(&mut self, before: &[u8; N], bytes: &TraceId) {
        self.put(before);
        self.0.push(b'"');
        self.0.extend_from_slice(&trace_id_digits(bytes));
        self.0.push(b'"');
    }

    fn optional<const N: usize, T>(
        &mut self,
        before: &'static [u8; N],
        value: Option<T>,
        write: impl FnOnce(&mut Line, &'static [u8; N], T),
    ) {
        if let Some(value) = value {
            write(self, before, value);
        }
    }

    #[inline]
    fn or_null<const N: usize, T>(
        &mut self,
        before: &'static [u8; N],
        value: Option<T>,
        write: impl FnOnce(&mut Line, &'static [u8; N], T),
    ) {
        match value {
            Some(value) => write(self, before, value),
            None => {
                self.put(before);
                self.put(b"null");
            }
        }
    }

    /// Writes one attempt.
    fn attempt<const N: usize>(&mut self, before: &'static [u8; N], tried: &Tried) {
        self.text(before, &tried.account);
        self.text(br#","model":"#, &tried.model);
        self.optional(br#","endpoint":"#, tried.endpoint, Line::text);
        self.word(br#","outcome":""#, tried.outcome);
        self.number(br#","at_ms":"#, tried.at_ms);
        self.number(br#","ms":"#, tried.ms);
        self.optional(br#","status":"#, tried.status.map(u64::from), Line::number);
        self.optional(
            br#","times":"#,
            Some(tried.count.into()).filter(|count| *count > 1),
            Line::number,
        );
        if tried.resent > 0 {
            self.put(br#","resent":true"#);
        }
        self.optional(br#","connect_ms":"#, tried.connect_ms, Line::number);
        self.optional(br#","first_ms":"#, tried.first_ms, Line::number);
        self.optional(br#","prompt_tokens":"#, tried.prompt_tokens, Line::number);
        self.optional(
            br#","completion_tokens":"#,
            tried.completion_tokens,
            Line::number,
        );
        if let Some(cost) = tried.cost {
            self.or_null(br#","cost_usd":"#, cost, Line::usd);
        }
        self.optional(br#","detail":"#, tried.detail.as_deref(), Line::text);
        self.put(b"}");
    }
}

/// Returns whether a byte of a text stands as it is in a JSON string.
#[inline]
fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

#[cfg(test)]
mod tests;
