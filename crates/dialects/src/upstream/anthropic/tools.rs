//! This module writes the tools, the choice among them, and the format of the answer.

use std::collections::BTreeSet;

use super::blocks::Breakpoints;
use crate::neutral::offer::{Choice, Naming};
use crate::neutral::{Field, LostFields, Request};
use crate::upstream::claude::schema;
use crate::upstream::claude::tools::{Api, Tools};
use crate::upstream::shared::names::called_names;
use crate::wire::json::Writer;

/// The abilities of the API.
pub(super) const API: Api = Api {
    none: true,
    naming: Naming::One,
    fitted_schemas: true,
    format_description: false,
};

/// Returns the functions that were called before, if the request has no tools. The API refuses
/// calls without tools, so these functions must be declared.
pub(super) fn stub_names<'r>(request: &'r Request<'_>, losses: &mut LostFields) -> Vec<&'r str> {
    if !request.tools.is_empty() {
        return Vec::new();
    }
    let called: BTreeSet<&str> = called_names(request).collect();
    if !called.is_empty() {
        losses.note_addition(Field::Tools);
    }
    called.into_iter().collect()
}

/// Writes `output_config`, if it has any content.
pub(super) fn write_output(w: &mut Writer, tools: &Tools<'_, '_>, effort: Option<&str>) {
    w.group("output_config", |w| {
        w.optional("effort", effort, Writer::text);
        w.optional("format", tools.native.as_ref(), |w, native| {
            w.object(|w| {
                w.key("type").text("json_schema");
                w.key("schema").raw(&native.schema);
            });
        });
    });
}

/// Writes the tools and the choice among them, if there are tools.
pub(super) fn write_tools(
    w: &mut Writer,
    tools: &Tools<'_, '_>,
    request: &Request<'_>,
    breakpoints: &mut Breakpoints,
    losses: &mut LostFields,
) {
    if !tools.any() {
        return;
    }
    w.key("tools").array(|w| {
        for name in &tools.stubs {
            w.object(|w| {
                w.key("name").text(tools.names.written(name));
                w.key("input_schema")
                    .raw(&schema::object_parameters(None).schema);
            });
        }
        tools.describe(losses, |name, described, cache, losses| {
            w.object(|w| {
                w.key("name").text(name);
                w.optional("description", described.about.as_deref(), |w, about| {
                    about.write(w)
                });
                w.key("input_schema").raw(&described.schema);
                if described.strict {
                    w.key("strict").bool(true);
                }
                breakpoints.write(w, cache, losses);
            });
        });
    });
    // An answer that came twice would be no answer.
    let is_one_at_a_time = request.parallel_tool_calls == Some(false) || tools.answer.is_some();
    let choice = tools.choice();
    let (kind, name) = match choice {
        Choice::Free if request.tool_choice.is_none() && !is_one_at_a_time => return,
        Choice::Free => ("auto", None),
        Choice::Never => ("none", None),
        Choice::Any => ("any", None),
        Choice::One(name) => ("tool", Some(name)),
    };
    w.key("tool_choice").object(|w| {
        w.key("type").text(kind);
        w.optional("name", name, Writer::text);
        if is_one_at_a_time && choice != Choice::Never {
            w.key("disable_parallel_tool_use").bool(true);
        }
    });
}

#[cfg(test)]
mod tests;
