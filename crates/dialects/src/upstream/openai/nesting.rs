//! What requests of both of OpenAI's formats have. In chat completions, the members of a tool or of
//! a format stand in an object of their own. In Responses, they stand next to its type.

use std::borrow::Cow;

use crate::neutral::{Field, Format, LostFields, Request, ToolChoice, ToolKind};
use crate::upstream::shared::names::Names;
use crate::upstream::shared::options::Rule::{Translated, UnderKey, WrittenBy};
use crate::upstream::shared::options::{Options, Row, Words};
use crate::wire::json::Writer;

/// The place of the members of a tool or of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// In an object of their own.
    Nested,
    /// Next to the type.
    Flat,
}

/// The longest name of an end user.
const MAX_USER: usize = 64;

/// The end user, the labels and the tier.
pub(super) const LABELS: &[Row] = &[
    (Field::User, WrittenBy(write_user)),
    (Field::Metadata, UnderKey("metadata")),
    (Field::ServiceTier, Translated("service_tier", TIERS)),
];

/// The callers' word, and the provider's. `None`: nothing is written, since it is the default. A
/// word that is not listed is lost.
const TIERS: Words = &[
    ("auto", None),
    ("default", Some("default")),
    ("flex", Some("flex")),
    ("priority", Some("priority")),
];

/// Lowers the maximum of tokens to the maximum in the model's traits, or else to the known maximum
/// of a model of this name. Only the caller's own maximum counts as lost.
pub(super) fn limit_tokens(options: &mut Options<'_>, losses: &mut LostFields) {
    let target = options.target;
    let known = target.traits.max_output;
    let is_lowered = options.limit_tokens(known.or_else(|| known_max_output(target.model)));
    losses.add_if(is_lowered, Field::MaxTokens);
}

/// Returns the most tokens of an answer of OpenAI's own models. Agents ask for more than most
/// models give, and the API refuses that.
fn known_max_output(model: &str) -> Option<u64> {
    const MODELS: [(&str, u64); 12] = [
        ("gpt-3.5-turbo", 4_096),
        ("gpt-4-turbo", 4_096),
        ("gpt-4o-2024-05-13", 4_096),
        ("gpt-4o", 16_384),
        ("gpt-4.1", 32_768),
        ("o1-mini", 65_536),
        ("o1-preview", 32_768),
        ("o1", 100_000),
        ("o3", 100_000),
        ("o4-mini", 100_000),
        ("gpt-5-chat", 16_384),
        ("gpt-5", 128_000),
    ];
    let name = model.rsplit('/').next().unwrap_or(model);
    MODELS
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, tokens)| *tokens)
}

/// Writes the name of the end user, unless it is too long.
fn write_user(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let asked = options.request.user.as_deref();
    let user = asked.filter(|user| user.len() <= MAX_USER);
    w.optional("user", user, Writer::text);
    losses.add_if(user != asked, Field::User);
}

/// The reason to refuse a file that a caller names by its id.
pub(super) const UPLOADED_ELSEWHERE: &str =
    "This model's provider does not have files that were uploaded to another one.";

/// Returns the name of a file, or `file` if it has none.
pub(super) fn file_name<'n>(name: &'n Option<Cow<'_, str>>, losses: &mut LostFields) -> &'n str {
    let name = name.as_deref().unwrap_or("file");
    losses.add_if(name.is_empty(), Field::FileName);
    if name.is_empty() { "file" } else { name }
}

/// Writes a part of sound.
pub(super) fn write_sound(w: &mut Writer, data: &str, format: &str) {
    w.object(|w| {
        w.key("type").text("input_audio");
        w.key("input_audio")
            .object(|w| w.texts([("data", data), ("format", format)]));
    });
}

impl Nesting {
    /// Writes members: in an object under this key, or next to the type.
    fn members(self, w: &mut Writer, key: &'static str, members: impl FnOnce(&mut Writer)) {
        match self {
            Nesting::Nested => w.key(key).object(members),
            Nesting::Flat => members(w),
        }
    }

    /// Returns the strictness that a request must set. In Responses, an absent field means that it
    /// is strict.
    fn strict(self, strict: Option<bool>) -> Option<bool> {
        strict.or((self == Nesting::Flat).then_some(false))
    }

    /// Writes the format of the answer.
    pub(super) fn write_format(self, w: &mut Writer, format: &Format<'_>, losses: &mut LostFields) {
        w.object(|w| match format {
            Format::JsonObject | Format::JsonSchema { schema: None, .. } => {
                w.key("type").text("json_object")
            }
            Format::JsonSchema {
                name,
                description,
                schema: Some(schema),
                strict,
            } => {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                let is_name = !name.is_empty() && name.len() <= 64 && name.bytes().all(fits);
                losses.add_if(!is_name, Field::Format);
                w.key("type").text("json_schema");
                self.members(w, "json_schema", |w| {
                    w.key("name").text(if is_name { name } else { "output" });
                    w.optional("description", description.as_deref(), Writer::text);
                    w.key("schema").raw(schema);
                    w.optional("strict", self.strict(*strict), Writer::bool);
                });
            }
        });
    }

    /// Writes the tools, and the choice among them.
    pub(super) fn write_tools(self, w: &mut Writer, request: &Request<'_>, names: &Names<'_>) {
        if request.tools.is_empty() {
            return;
        }
        w.list("tools", &request.tools, |w, tool| {
            let kind = if let ToolKind::Function(..) = tool.kind {
                "function"
            } else {
                "custom"
            };
            w.object(|w| {
                w.key("type").text(kind);
                self.members(w, kind, |w| {
                    w.key("name").text(names.written(&tool.name));
                    w.optional("description", tool.description.as_ref(), |w, text| {
                        text.write(w)
                    });
                    if let ToolKind::Function(parameters, strict) = &tool.kind {
                        let empty_schema = (self == Nesting::Flat)
                            .then_some(r#"{"type":"object","properties":{}}"#);
                        w.optional(
                            "parameters",
                            parameters.as_deref().or(empty_schema),
                            Writer::raw,
                        );
                        w.optional("strict", self.strict(*strict), Writer::bool);
                    }
                });
            });
        });
        w.optional("tool_choice", request.tool_choice.as_ref(), |w, choice| {
            self.write_choice(w, choice, names)
        });
        w.optional(
            "parallel_tool_calls",
            request.parallel_tool_calls,
            Writer::bool,
        );
    }

    fn write_choice(self, w: &mut Writer, choice: &ToolChoice<'_>, names: &Names<'_>) {
        match choice {
            ToolChoice::None => w.text("none"),
            ToolChoice::Auto => w.text("auto"),
            ToolChoice::Required => w.text("required"),
            ToolChoice::Named(name) => self.write_name(w, names.written(name)),
            ToolChoice::Allowed {
                must_call,
                names: allowed,
            } => w.object(|w| {
                w.key("type").text("allowed_tools");
                self.members(w, "allowed_tools", |w| {
                    w.key("mode")
                        .text(if *must_call { "required" } else { "auto" });
                    w.key("tools")
                        .each(allowed, |w, name| self.write_name(w, names.written(name)));
                });
            }),
        }
    }

    fn write_name(self, w: &mut Writer, name: &str) {
        w.object(|w| {
            w.key("type").text("function");
            self.members(w, "function", |w| w.key("name").text(name));
        });
    }
}
