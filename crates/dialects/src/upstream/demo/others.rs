//! The demo's answers outside conversations: vectors, continued texts, orders of documents,
//! pictures and sound. Each is made from the words of the request alone.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::neutral::Endpoint;

/// The most bytes of a body of JSON.
const MAX_BODY_BYTES: usize = 1 << 20;
/// The most numbers of an answer with vectors.
const MOST_NUMBERS: usize = 1 << 18;
/// The dimensions of a vector, if the request does not set them.
const DIMENSIONS: u64 = 256;
/// The text that continues every prompt.
const CONTINUED: &str = " This is the demo account of Portcullis. No model was asked: every text is continued in the same way.";
/// The most words of a continued text, if the request sets no maximum.
const WORDS: u64 = 16;
/// The width and the height of a picture, if the request does not set them; and the largest.
const SIZE: [u32; 2] = [256, 1024];
/// The word by which the demo takes a text for a harmful one.
const HARMFUL: &str = "harmful";
/// The categories of harmful texts.
const CATEGORIES: [&str; 13] = [
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
];

/// An answer: its type, and its body in pieces.
pub(super) type Pieces = (&'static str, Vec<Vec<u8>>);

/// Returns the answer at a path below the version, or the reason of a refusal. `length` is the
/// length of the whole body; of a form, `body` has less. Returns `None` where conversations are
/// held.
pub(super) fn answer_path(
    path: &str,
    body: &[u8],
    length: usize,
) -> Option<Result<Pieces, String>> {
    let write = |value: Value| ("application/json", vec![value.to_string().into_bytes()]);
    let read = || read_json(body, length);
    let endpoint = Endpoint::ALL.into_iter().find(|one| one.path() == path)?;
    Some(match endpoint {
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => return None,
        Endpoint::Embeddings => read().and_then(|asked| make_embeddings(&asked)).map(write),
        Endpoint::Completions => read().map(|asked| complete_prompts(&asked)),
        Endpoint::Rerank => read().map(|asked| write(rank_documents(&asked))),
        Endpoint::Moderations => read().map(|asked| write(moderate_texts(&asked))),
        Endpoint::Images => read().map(|asked| write(paint_images(&asked))),
        Endpoint::Edits => Ok(write(paint_images(&Value::Null))),
        Endpoint::Speech => Ok(("audio/wav", vec![write_beep()])),
        Endpoint::Transcriptions | Endpoint::Translations => {
            let text = format!("The demo cannot hear. It got a form of {length} bytes.");
            Ok(write(json!({ "text": text })))
        }
    })
}

/// Reads a body. A body that is no JSON asks for nothing.
fn read_json(body: &[u8], length: usize) -> Result<Value, String> {
    if length > MAX_BODY_BYTES {
        return Err(format!(
            "The demo takes at most {MAX_BODY_BYTES} bytes here."
        ));
    }
    Ok(serde_json::from_slice(body).unwrap_or_default())
}

/// Returns the texts of an input: one or several, or the numbers of their tokens.
fn input_texts(input: Option<&Value>) -> Vec<String> {
    match input {
        Some(Value::Array(list)) if list.iter().any(|one| !one.is_number()) => {
            list.iter().map(value_text).collect()
        }
        Some(one) => vec![value_text(one)],
        None => vec![String::new()],
    }
}

fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn split_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Counts each word as a token.
fn count_words<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    texts
        .into_iter()
        .map(|text| split_words(text).count())
        .sum()
}

fn read_number(asked: &Value, name: &str, default_value: u64, max_value: u64) -> u64 {
    asked
        .get(name)
        .and_then(Value::as_u64)
        .unwrap_or(default_value)
        .clamp(1, max_value)
}

/// Returns a number for a text, which is equal on every machine (FNV-1a).
fn text_hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Makes a vector of length 1 for each text. Texts with many words in common have near vectors.
fn make_embeddings(asked: &Value) -> Result<Value, String> {
    let texts = input_texts(asked.get("input"));
    let dimensions = read_number(asked, "dimensions", DIMENSIONS, 4096);
    let size = usize::try_from(dimensions).unwrap_or(1);
    if texts.len().saturating_mul(size) > MOST_NUMBERS {
        return Err(format!(
            "The demo gives at most {MOST_NUMBERS} numbers at once: send fewer texts."
        ));
    }
    let in_base64 = asked.get("encoding_format").and_then(Value::as_str) == Some("base64");
    let mut data = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let vector = make_vector(text, size);
        let embedding: Value = if in_base64 {
            let bytes: Vec<u8> = vector.into_iter().flat_map(f32::to_le_bytes).collect();
            BASE64.encode(bytes).into()
        } else {
            vector.into_iter().map(f64::from).collect()
        };
        data.push(json!({ "object": "embedding", "index": index, "embedding": embedding }));
    }
    let read = count_words(&texts);
    Ok(
        json!({ "object": "list", "data": data, "model": "demo", "usage": { "prompt_tokens": read, "total_tokens": read } }),
    )
}

/// Makes a vector of length 1: each word adds to one of its numbers, or takes from it.
fn make_vector(text: &str, size: usize) -> Vec<f32> {
    let mut vector = vec![0_f32; size];
    let dimensions = u64::try_from(size).unwrap_or(u64::MAX);
    for hash in split_words(text).map(|word| text_hash(&word)) {
        let position = usize::try_from(hash % dimensions).unwrap_or(0);
        if let Some(number) = vector.get_mut(position) {
            *number += if hash >> 63 == 0 { 1.0 } else { -1.0 };
        }
    }
    let squares = vector.iter().map(|number| number * number);
    let length = squares.sum::<f32>().sqrt();
    match vector.first_mut() {
        Some(first) if length == 0.0 => *first = 1.0,
        _ => vector.iter_mut().for_each(|number| *number /= length),
    }
    vector
}

/// Continues each prompt with one fixed text, whole or as a stream.
fn complete_prompts(asked: &Value) -> Pieces {
    let prompts = input_texts(asked.get("prompt"));
    let max_words =
        usize::try_from(read_number(asked, "max_tokens", WORDS, 1000)).unwrap_or(usize::MAX);
    let choices = usize::try_from(read_number(asked, "n", 1, 10)).unwrap_or(1);
    let echo = asked.get("echo").and_then(Value::as_bool).unwrap_or(false);
    let continuation = || CONTINUED.split(' ').skip(1).map(|word| format!(" {word}"));
    let (is_cut, words) = (
        continuation().count() > max_words,
        continuation().take(max_words).collect::<Vec<_>>(),
    );
    let finish = if is_cut { "length" } else { "stop" };
    let all: Vec<&String> = prompts
        .iter()
        .flat_map(|prompt| std::iter::repeat_n(prompt, choices))
        .take(1000)
        .collect();
    let (read, written) = (count_words(&prompts), words.len().saturating_mul(all.len()));
    let usage = json!({ "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written });
    let choice = |index: usize, text: String, finish: Option<&str>| json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish });
    let object = |choices: Vec<Value>| json!({ "id": "cmpl-demo", "object": "text_completion", "created": 0, "model": "demo", "choices": choices });
    let begin = |prompt: &String| if echo { prompt.clone() } else { String::new() };
    if asked.get("stream").and_then(Value::as_bool) != Some(true) {
        let each = all
            .iter()
            .enumerate()
            .map(|(index, prompt)| choice(index, begin(prompt) + &words.concat(), Some(finish)));
        let mut whole = object(each.collect());
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("usage".to_owned(), usage);
        }
        return ("application/json", vec![whole.to_string().into_bytes()]);
    }
    let event = |value: &Value| format!("data: {value}\n\n").into_bytes();
    let mut pieces = Vec::new();
    for (index, prompt) in all.into_iter().enumerate() {
        let first = begin(prompt);
        let texts = std::iter::once(first)
            .filter(|first| !first.is_empty())
            .chain(words.iter().cloned());
        pieces.extend(texts.map(|text| event(&object(vec![choice(index, text, None)]))));
        pieces.push(event(&object(vec![choice(
            index,
            String::new(),
            Some(finish),
        )])));
    }
    let mut last = object(Vec::new());
    if let Some(last) = last.as_object_mut() {
        last.insert("usage".to_owned(), usage);
    }
    pieces.push([event(&last), b"data: [DONE]\n\n".to_vec()].concat());
    ("text/event-stream", pieces)
}

/// Orders documents by the share of the query's words that they have.
fn rank_documents(asked: &Value) -> Value {
    let query: HashSet<String> = split_words(
        asked
            .get("query")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
    .collect();
    let documents = asked
        .get("documents")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let documents: Vec<String> = documents
        .iter()
        .map(|document| document.get("text").unwrap_or(document).as_str())
        .map(|text| text.unwrap_or_default().to_owned())
        .collect();
    let scores = documents.iter().map(|text| score_document(text, &query));
    let mut scored: Vec<(usize, f64)> = scores.enumerate().collect();
    scored.sort_by(|one, other| other.1.total_cmp(&one.1));
    let max_results =
        usize::try_from(read_number(asked, "top_n", u64::MAX, u64::MAX)).unwrap_or(usize::MAX);
    let results: Value = scored
        .iter()
        .take(max_results)
        .map(|(index, score)| json!({ "index": index, "relevance_score": score, "document": { "text": documents.get(*index) } }))
        .collect();
    json!({ "id": "rerank-demo", "model": "demo", "results": results, "usage": { "total_tokens": count_words(&documents) + query.len() } })
}

/// Returns the share of the query's words that a document has.
fn score_document(text: &str, query: &HashSet<String>) -> f64 {
    let found: HashSet<String> = split_words(text)
        .filter(|word| query.contains(word))
        .collect();
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    number(found.len()) / number(query.len().max(1))
}

/// Takes a text for harmful if it has the word `harmful`.
fn moderate_texts(asked: &Value) -> Value {
    let results: Value = input_texts(asked.get("input"))
        .iter()
        .map(|text| {
            let flagged = split_words(text).any(|word| word == HARMFUL);
            json!({
                "flagged": flagged,
                "categories": per_category(flagged, Value::from),
                "category_scores": per_category(flagged, |is_so| json!(if is_so { 1.0 } else { 0.0 })),
                "category_applied_input_types": per_category(flagged, |_| json!(["text"])),
            })
        })
        .collect();
    json!({ "id": "modr-demo", "model": "demo", "results": results })
}

/// Returns a value for each category, by whether a text belongs to it. A harmful text is violent.
fn per_category(flagged: bool, value: fn(bool) -> Value) -> Value {
    CATEGORIES
        .iter()
        .map(|name| ((*name).to_owned(), value(flagged && *name == "violence")))
        .collect()
}

/// Paints pictures in one colour, which depends on the prompt.
fn paint_images(asked: &Value) -> Value {
    let [default_side, largest] = SIZE;
    let size = asked
        .get("size")
        .and_then(Value::as_str)
        .and_then(|size| size.split_once('x'));
    let side = |side: &str| side.parse().unwrap_or(default_side).clamp(1, largest);
    let (width, height) = size.map_or((default_side, default_side), |(width, height)| {
        (side(width), side(height))
    });
    let prompt = asked
        .get("prompt")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let [red, green, blue, ..] = text_hash(prompt).to_le_bytes();
    let picture =
        json!({ "b64_json": BASE64.encode(write_png(width, height, [red, green, blue])) });
    let count = usize::try_from(read_number(asked, "n", 1, 10)).unwrap_or(1);
    let read = split_words(prompt).count();
    let usage = json!({
        "input_tokens": read,
        "input_tokens_details": { "text_tokens": read, "image_tokens": 0 },
        "output_tokens": 0,
        "total_tokens": read,
    });
    json!({ "created": 0, "data": vec![picture; count], "usage": usage })
}

/// Writes a picture in one colour: one bit for each point, and a palette of one entry.
fn write_png(width: u32, height: u32, colour: [u8; 3]) -> Vec<u8> {
    let header = [
        width.to_be_bytes().as_slice(),
        &height.to_be_bytes(),
        &[1, 3, 0, 0, 0],
    ]
    .concat();
    // Each line begins with its filter; all of it is zero.
    let length = (width.div_ceil(8) + 1).saturating_mul(height);
    let rows = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut packed = vec![0x78, 0x01];
    let blocks = rows.chunks(usize::from(u16::MAX));
    let last = blocks.len().saturating_sub(1);
    for (index, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        packed.push(u8::from(index == last));
        packed.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
        packed.extend_from_slice(block);
    }
    // The checksum (Adler-32) of so many zeros.
    packed.extend((((length % 65_521) << 16) | 1).to_be_bytes());
    let mut picture = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in [
        (b"IHDR", header.as_slice()),
        (b"PLTE", &colour),
        (b"IDAT", &packed),
        (b"IEND", &[]),
    ] {
        let chunk = [name, data].concat();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        picture.extend(length.to_be_bytes());
        picture.extend_from_slice(&chunk);
        picture.extend(crc32fast::hash(&chunk).to_be_bytes());
    }
    picture
}

/// Writes a beep of a quarter of a second: 8,000 bytes a second, one channel.
fn write_beep() -> Vec<u8> {
    const RATE: u32 = 8_000;
    let samples: Vec<u8> = (0..RATE / 4)
        .map(|sample| if sample / 8 % 2 == 0 { 0xa0 } else { 0x60 })
        .collect();
    let length = RATE / 4;
    let (whole, rate) = ((length + 36).to_le_bytes(), RATE.to_le_bytes());
    // 16 bytes follow: samples as they are, one channel; one byte for each sample, of 8 bits.
    let format = [16, 0, 0, 0, 1, 0, 1, 0];
    [
        b"RIFF",
        &whole,
        b"WAVEfmt ".as_slice(),
        &format,
        &rate,
        &rate,
        &[1, 0, 8, 0],
        b"data",
        &length.to_le_bytes(),
        &samples,
    ]
    .concat()
}

#[cfg(test)]
mod tests;
