//! The line of an exchange in JSON. Every exchange writes one, so it is written straight into its
//! bytes: the keys with their commas are constants, and numbers and texts take no detour.

use crate::base::address::put_address;
use crate::base::calendar::ascii_timestamp;
use crate::base::trace_context::{TraceId, trace_id_digits};
use crate::conf::price::Usd;
use crate::settled::{Settled, Tried, whole_micros, whole_millis};
use dialects::wire::json::escape_into;
use std::net::IpAddr;

/// Writes the line. Its field names are a contract: other programs parse them.
pub(super) fn json_line(settled: &Settled) -> Vec<u8> {
    // Most lines are shorter.
    const LINE: usize = 1024;
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
    let mut line = Line(Vec::with_capacity(LINE));
    line.put(r#"{"time":""#);
    line.0.extend_from_slice(&ascii_timestamp(*began_at));
    line.text(r#"","request_id":"#, &request.id);
    line.optional(
        r#","trace_id":"#,
        trace.as_ref().map(|trace| &trace.trace),
        Line::hexadecimal,
    );
    line.or_null(r#","caller":"#, sender.caller.as_deref(), Line::text);
    line.or_null(r#","key":"#, sender.key.as_deref(), Line::text);
    line.or_null(r#","address":"#, sender.address, Line::address);
    line.optional(r#","end_user":"#, sender.end_user.as_deref(), Line::text);
    line.word(r#","door":""#, request.door);
    line.text(r#","method":"#, &request.method);
    line.text(r#","path":"#, &request.path);
    line.optional(r#","session":"#, request.session.as_deref(), Line::text);
    line.or_null(r#","model":"#, request.model.as_deref(), Line::text);
    line.optional(
        r#","asked_model":"#,
        request.asked_model.as_deref(),
        Line::text,
    );
    line.or_null(r#","account":"#, served.account.as_deref(), Line::text);
    line.or_null(
        r#","upstream_model":"#,
        served.upstream_model.as_deref(),
        Line::text,
    );
    line.put(if request.stream {
        r#","stream":true"#
    } else {
        r#","stream":false"#
    });
    line.number(r#","status":"#, answer.status.into());
    line.word(r#","outcome":""#, outcome.name());
    line.put(r#","attempts":["#);
    if let [first, rest @ ..] = &*attempts.trail {
        line.attempt(r#"{"account":"#, first);
        rest.iter()
            .for_each(|tried| line.attempt(r#",{"account":"#, tried));
    }
    line.or_null(
        r#"],"first_byte_ms":"#,
        times.first_byte.map(whole_millis),
        Line::number,
    );
    line.number(r#","total_ms":"#, whole_millis(*total));
    line.number(r#","own_us":"#, whole_micros(times.own_time));
    line.or_null(r#","auth_us":"#, times.auth.map(whole_micros), Line::number);
    line.or_null(r#","plan_us":"#, times.plan.map(whole_micros), Line::number);
    let queued = Some(times.queued).filter(|queued| !queued.is_zero());
    line.optional(r#","queued_ms":"#, queued.map(whole_millis), Line::number);
    line.optional(r#","not_retried":"#, attempts.not_retried, Line::text);
    let (usage, units) = (&spending.usage, spending.usage.units);
    line.number(r#","prompt_tokens":"#, usage.prompt);
    line.number(r#","completion_tokens":"#, usage.completion);
    line.number(r#","cached_tokens":"#, usage.cached);
    line.nonzero(r#","images":"#, units.images);
    line.nonzero(r#","audio_ms":"#, units.millis);
    line.nonzero(r#","characters":"#, units.characters);
    line.word(r#","usage":""#, usage.source.name());
    line.or_null(r#","cost_usd":"#, spending.cost, Line::usd);
    if let Some((level, kind)) = spending.limited {
        line.word(r#","limited_by":""#, level.name());
        line.0.pop();
        line.word(" ", kind.name());
    }
    line.number(r#","bytes_in":"#, request.bytes);
    line.number(r#","bytes_out":"#, answer.bytes);
    line.or_null(
        r#","upstream_request_id":"#,
        served.upstream_request_id.as_deref(),
        Line::text,
    );
    line.put(if attempts.maybe_billed {
        r#","maybe_billed":true"#
    } else {
        r#","maybe_billed":false"#
    });
    if let [first, rest @ ..] = served.losses.names() {
        line.text(r#","dropped":["#, first);
        rest.iter().for_each(|name| line.text(",", name));
        line.put("]");
    }
    line.nonzero(r#","broken_calls":"#, served.flaws.broken_calls);
    if served.flaws.not_json {
        line.put(r#","not_json":true"#);
    }
    line.optional(r#","error":"#, answer.error.as_deref(), Line::text);
    line.put("}");
    line.0
}

/// A line while it is written. Each value comes with the text before it, which is one of ours.
struct Line(Vec<u8>);

impl Line {
    #[inline]
    fn put(&mut self, ours: &'static str) {
        self.0.extend_from_slice(ours.as_bytes());
    }

    /// Writes one of our own words, in which nothing needs an escape. Its first quote is part of
    /// what is before it.
    #[inline]
    fn word(&mut self, before: &'static str, word: &'static str) {
        self.put(before);
        self.put(word);
        self.0.push(b'"');
    }

    #[inline]
    fn text(&mut self, before: &'static str, text: &str) {
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
    fn number(&mut self, before: &'static str, number: u64) {
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
    fn nonzero(&mut self, before: &'static str, number: u32) {
        self.optional(
            before,
            Some(number.into()).filter(|number| *number > 0),
            Line::number,
        );
    }

    /// Writes an amount, always with a decimal point or an exponent.
    fn usd(&mut self, before: &'static str, cost: Usd) {
        self.put(before);
        // A float that is finite can always be written to a buffer.
        let _written = serde_json::to_writer(&mut self.0, &cost);
    }

    fn address(&mut self, before: &'static str, address: IpAddr) {
        self.put(before);
        self.0.push(b'"');
        put_address(&mut self.0, address);
        self.0.push(b'"');
    }

    fn hexadecimal(&mut self, before: &'static str, bytes: &TraceId) {
        self.put(before);
        self.0.push(b'"');
        self.0.extend_from_slice(&trace_id_digits(bytes));
        self.0.push(b'"');
    }

    fn optional<T>(
        &mut self,
        before: &'static str,
        value: Option<T>,
        write: impl FnOnce(&mut Line, &'static str, T),
    ) {
        if let Some(value) = value {
            write(self, before, value);
        }
    }

    #[inline]
    fn or_null<T>(
        &mut self,
        before: &'static str,
        value: Option<T>,
        write: impl FnOnce(&mut Line, &'static str, T),
    ) {
        match value {
            Some(value) => write(self, before, value),
            None => {
                self.put(before);
                self.put("null");
            }
        }
    }

    /// Writes one attempt.
    fn attempt(&mut self, before: &'static str, tried: &Tried) {
        self.text(before, &tried.account);
        self.text(r#","model":"#, &tried.model);
        self.optional(r#","endpoint":"#, tried.endpoint, Line::text);
        self.word(r#","outcome":""#, tried.outcome);
        self.number(r#","at_ms":"#, tried.at_ms);
        self.number(r#","ms":"#, tried.ms);
        self.optional(r#","status":"#, tried.status.map(u64::from), Line::number);
        self.optional(
            r#","times":"#,
            Some(tried.times.into()).filter(|times| *times > 1),
            Line::number,
        );
        if tried.resent > 0 {
            self.put(r#","resent":true"#);
        }
        self.optional(r#","connect_ms":"#, tried.connect_ms, Line::number);
        self.optional(r#","first_ms":"#, tried.first_ms, Line::number);
        self.optional(r#","prompt_tokens":"#, tried.prompt_tokens, Line::number);
        self.optional(
            r#","completion_tokens":"#,
            tried.completion_tokens,
            Line::number,
        );
        if let Some(cost) = tried.cost {
            self.or_null(r#","cost_usd":"#, cost, Line::usd);
        }
        self.optional(r#","detail":"#, tried.detail.as_deref(), Line::text);
        self.put("}");
    }
}

/// Returns whether a byte of a text stands as it is in a JSON string.
#[inline]
fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte != b'"') & (byte != b'\\')
}

#[cfg(test)]
mod tests;
