//! The words and objects that streams and whole answers share.

use crate::front::CHAT;
use crate::neutral::answer::{Tally, is_picture};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, Finish};
use crate::wire::json::{Span, escape_into, put_text};

/// The beginning of every answer, and of every chunk of one: from the id to the model.
#[derive(Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
    /// The place of the id, without its quotes.
    id: Span,
    /// True if the upstream's id came, or if it is too late for it.
    pub(super) has_id: bool,
}

impl Head {
    /// Returns a head with our own id. `open` is the text before the id.
    pub(super) fn new(open: &[u8], object: &str, header: &AnswerHeader) -> Self {
        let mut bytes = open.to_vec();
        escape_into(&header.id, &mut bytes);
        let id = open.len()..bytes.len();
        put_text(&mut bytes, r#"","object":"#, object);
        bytes.extend_from_slice(format!(r#","created":{}"#, header.created).as_bytes());
        put_text(&mut bytes, r#","model":"#, &header.model);
        Self {
            bytes,
            id,
            has_id: false,
        }
    }

    /// Takes the upstream's own id, unless there is one; one of unlikely length is not taken.
    pub(super) fn take_id(&mut self, id: &str) {
        if self.has_id || id.is_empty() || id.len() > 256 {
            return;
        }
        let mut inside = if id.starts_with(CHAT.id_prefix) {
            Vec::new()
        } else {
            CHAT.id_prefix.into()
        };
        escape_into(id, &mut inside);
        let end = self.id.start + inside.len();
        self.bytes.splice(self.id.clone(), inside);
        self.id.end = end;
        self.has_id = true;
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the word for why a choice ended.
pub(super) fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Calls => "tool_calls",
        Finish::Length => "length",
        Finish::Filtered => "content_filter",
    }
}

/// Appends the usage object. Details that the upstream did not report are left out.
pub(super) fn write_usage(out: &mut Vec<u8>, tally: &Tally) {
    let (usage, counted) = (tally.usage(), tally.counted());
    append_count(out, r#"{"prompt_tokens":"#, usage.prompt);
    append_count(out, r#","completion_tokens":"#, usage.completion);
    append_count(out, r#","total_tokens":"#, usage.total());
    let cached = counted
        .cached
        .map(|_| (r#""cached_tokens":"#, usage.cached));
    let cache_write = counted
        .cache_write
        .map(|_| (r#""cache_write_tokens":"#, usage.cache_write));
    let mut before = r#","prompt_tokens_details":{"#;
    for (name, count) in [cached, cache_write].into_iter().flatten() {
        out.extend_from_slice(before.as_bytes());
        append_count(out, name, count);
        before = ",";
    }
    if before == "," {
        out.push(b'}');
    }
    if counted.reasoning.is_some() {
        append_count(
            out,
            r#","completion_tokens_details":{"reasoning_tokens":"#,
            usage.reasoning,
        );
        out.push(b'}');
    }
    tally.end_usage(out);
}

fn append_count(out: &mut Vec<u8>, before: &str, count: u64) {
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(count.to_string().as_bytes());
}

/// Appends a small number.
#[inline]
pub(super) fn write_number(out: &mut Vec<u8>, number: usize) {
    match u8::try_from(number) {
        Ok(digit @ 0..10) => out.push(b'0' + digit),
        Ok(_) | Err(_) => out.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Appends a call from its id to the end of its object.
pub(super) fn write_call(
    out: &mut Vec<u8>,
    id: &str,
    name: &str,
    arguments: &str,
    signature: Option<&str>,
) {
    put_text(out, r#""id":"#, id);
    out.extend_from_slice(br#","type":"function""#);
    if let Some(signature) = signature {
        // Google's own server for OpenAI's clients writes the signature in this form.
        put_text(
            out,
            r#","extra_content":{"google":{"thought_signature":"#,
            signature,
        );
        out.extend_from_slice(b"}}");
    }
    put_text(out, r#","function":{"name":"#, name);
    put_text(out, r#","arguments":"#, arguments);
    out.extend_from_slice(b"}}");
}

/// Returns the name of the list for media of this type. A client that shows pictures must not find
/// a sound among them.
pub(super) fn media_list(mime: &str) -> &'static str {
    if is_picture(mime) { "images" } else { "files" }
}

/// Appends an entry of either list. Clients merge lists by the index.
pub(super) fn write_media(out: &mut Vec<u8>, index: usize, mime: &str, data: &str) {
    out.extend_from_slice(br#"{"index":"#);
    write_number(out, index);
    out.extend_from_slice(if is_picture(mime) {
        br#","type":"image_url","image_url":{"url":"data:"#.as_slice()
    } else {
        br#","type":"file","file":{"file_data":"data:"#
    });
    escape_into(mime, out);
    out.extend_from_slice(b";base64,");
    escape_into(data, out);
    out.extend_from_slice(br#""}}"#);
}

/// Returns whether the format can show a citation: its sources are URLs only.
pub(super) fn can_cite(citation: &PlacedCitation<'_>) -> bool {
    !citation.source.url.is_empty()
}

/// Appends a citation. Clients merge lists by the index.
pub(super) fn write_citation(
    out: &mut Vec<u8>,
    index: Option<usize>,
    citation: &PlacedCitation<'_>,
) {
    let (source, characters) = (citation.source, &citation.characters);
    out.push(b'{');
    if let Some(index) = index {
        out.extend_from_slice(br#""index":"#);
        write_number(out, index);
        out.push(b',');
    }
    out.extend_from_slice(br#""type":"url_citation","url_citation":{"start_index":"#);
    write_number(out, characters.start);
    out.extend_from_slice(br#","end_index":"#);
    write_number(out, characters.end);
    put_text(out, r#","title":"#, source.title);
    put_text(out, r#","url":"#, source.url);
    out.extend_from_slice(b"}}");
}
