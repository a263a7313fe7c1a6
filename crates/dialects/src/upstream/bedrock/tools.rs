//! This module writes the tools, the choice among them, and the format of the answer.
//!
//! Converse has no order against all calls, and it refuses calls in a conversation without tools.
//! So tools that must not be called are left out if possible. If not, one tool is offered that does
//! nothing, or the tools stay, and that is named as a loss.

use super::blocks::CachePoints;
use super::models::Family;
use crate::neutral::offer::{Choice, Naming};
use crate::neutral::{Field, LostFields, Request};
use crate::upstream::claude::tools::{Api, Tools};
use crate::wire::json::Writer;

/// Returns what the API can express to models of this family.
pub(super) fn family_api(family: Family) -> Api {
    Api {
        none: false,
        naming: if family == Family::Mistral {
            Naming::None
        } else {
            Naming::One
        },
        fitted_schemas: family == Family::Claude,
        format_description: true,
    }
}

const STUB_NAME: &str = "no_tool";
const STUB: &str = r#"{"toolSpec":{"name":"no_tool","description":"Does nothing. There are no tools any more: do not call any.","inputSchema":{"json":{"type":"object","properties":{}}}}}"#;

/// Adds the tools that must be there although none may be called, and names the losses.
pub(super) fn complete_tools<'r, 'a>(
    tools: &mut Tools<'r, 'a>,
    request: &'r Request<'a>,
    has_calls: bool,
    losses: &mut LostFields,
) {
    if has_calls && !tools.any() {
        if request.tools.is_empty() {
            // The model might call this tool, though the caller does not offer it. The answer hides
            // such a call, and the loss shows that the tool is there.
            losses.note_addition(Field::Tools);
            tools.stubs.push(STUB_NAME);
        } else {
            losses.add(Field::ToolChoice);
            tools.offer.tools.extend(&request.tools);
        }
    }
    losses.add_if(
        request.parallel_tool_calls == Some(false) && !tools.offer.tools.is_empty(),
        Field::ParallelCalls,
    );
}

/// Writes the members of `outputConfig` for the format.
pub(super) fn write_output(w: &mut Writer, tools: &Tools<'_, '_>) {
    let Some(native) = &tools.native else { return };
    w.key("textFormat").object(|w| {
        w.key("type").text("json_schema");
        w.key("structure").object(|w| {
            w.key("jsonSchema").object(|w| {
                w.key("schema").text(&native.schema);
                for (key, text) in [("name", Some(native.name)), ("description", native.about)] {
                    w.optional(key, text.filter(|text| !text.is_empty()), Writer::text);
                }
            });
        });
    });
}

/// Writes the members of `toolConfig`.
pub(super) fn write_tools(
    w: &mut Writer,
    tools: &Tools<'_, '_>,
    points: &mut CachePoints,
    losses: &mut LostFields,
) {
    w.key("tools").array(|w| {
        tools.stubs.iter().for_each(|_| w.raw(STUB));
        tools.describe(losses, |name, described, cache, losses| {
            w.object(|w| {
                w.key("toolSpec").object(|w| {
                    w.key("name").text(name);
                    w.optional("description", described.about.as_deref(), |w, about| {
                        about.write(w)
                    });
                    w.key("inputSchema")
                        .object(|w| w.key("json").raw(&described.schema));
                    if described.strict {
                        w.key("strict").bool(true);
                    }
                });
            });
            points.tool(w, cache, losses);
        });
    });
    match tools.choice() {
        // Some models do not know `auto`.
        Choice::Free | Choice::Never => {}
        Choice::Any => w.key("toolChoice").raw(r#"{"any":{}}"#),
        Choice::One(name) => {
            w.key("toolChoice")
                .object(|w| w.key("tool").object(|w| w.key("name").text(name)));
        }
    }
}
