//! The tools of a Gemini request, and the choice among them.

use std::borrow::Cow;
use std::collections::HashSet;

use super::schema::{self, SchemaForm};
use super::{read_camel_members, read_each};
use crate::front::FieldNames;
use crate::front::reading::others;
use crate::front::reading::value::{Name, ReadFault, ReadResult, Value};
use crate::neutral::{Field, Raw, Refused, Tool, ToolChoice, ToolKind};
use crate::wire::json::Kind;

/// The tools of a request.
#[derive(Default)]
pub(super) struct DeclaredTools<'a> {
    /// The functions.
    pub(super) list: Vec<Tool<'a>>,
    names: HashSet<Cow<'a, str>>,
    /// The fields that have no meaning here, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
    mode: Option<Mode>,
    allowed: Vec<Cow<'a, str>>,
    /// The caller's names for the parameters, each name once.
    parameter_names: Vec<&'static str>,
}

/// The names under which callers write the parameters of a function.
const PARAMETER_NAMES: [&str; 3] = [
    "tools[].functionDeclarations[].parameters",
    "tools[].functionDeclarations[].parametersJsonSchema",
    "tools[].functionDeclarations[].parameters_json_schema",
];

/// The way in which functions are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Auto,
    Any,
    None,
}

impl<'a> DeclaredTools<'a> {
    /// Reads `tools`.
    pub(super) fn read(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        read_each(value, |_, value| {
            read_camel_members(value, |known, _, mut value| match known {
                "functionDeclarations" => read_each(value, |_, value| self.function(value)),
                // An empty object asks for the tool, too.
                _ if value.kind()? != Kind::Null => Err(value.place.unsupported(
                    "only Google's own models and servers have this tool; remove the tool for this model",
                )),
                _ => value.skip(),
            })
            .map(drop)
        })
    }

    fn function(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut name = None;
        let mut description = None;
        let mut parameters = None;
        let is_there = read_camel_members(value, |known, written, value| {
            match known {
                "name" => name = value.text()?,
                "description" => description = value.lazy_text()?,
                "parametersJsonSchema" => {
                    let schema = value.raw_object()?;
                    parameters = schema
                        .map(|schema| (schema, SchemaForm::JsonSchema, written.clone()))
                        .or(parameters.take());
                }
                "parameters" => {
                    let schema = value.raw_object()?;
                    parameters = parameters
                        .take()
                        .or(schema.map(|schema| (schema, SchemaForm::Google, written.clone())));
                }
                _ => value.note_lost_value(
                    &mut self.others,
                    "tools[].functionDeclarations[].",
                    written,
                )?,
            }
            Ok(())
        })?;
        if !is_there {
            return Err(place.wrong("an object", Kind::Null));
        }
        let name = place.require_text("name", name)?;
        if !self.names.insert(name.clone()) {
            return Err(place
                .field("name")
                .refuse("is also the name of another function"));
        }
        let schema = parameters.map(|(schema, form, written)| {
            self.note_name(&written);
            let standard = schema::standard_schema(schema, form);
            if standard.forbids_null {
                others::note_value(
                    &mut self.others,
                    format!("tools[].functionDeclarations[].{written}"),
                    schema,
                );
            }
            standard.text
        });
        self.list.push(Tool {
            name,
            description,
            kind: ToolKind::Function(schema, None),
            cache: None,
        });
        Ok(())
    }

    /// Notes the caller's name for the parameters of a function.
    fn note_name(&mut self, written: &str) {
        let name = PARAMETER_NAMES
            .into_iter()
            .find(|known| known.rsplit('.').next() == Some(written));
        self.parameter_names
            .extend(name.filter(|name| !self.parameter_names.contains(name)));
    }

    /// Hands over the caller's name for the parameters, unless the name differs from tool to tool.
    pub(super) fn name_parameters(&self, names: &mut FieldNames) {
        if let [name] = self.parameter_names.as_slice() {
            names.write(Field::ToolParameters, name);
        }
    }

    /// Reads `toolConfig`.
    pub(super) fn config(
        &mut self,
        value: Value<'_, 'a>,
        lost: &mut Vec<(Name<'a>, Raw<'a>)>,
    ) -> ReadResult<()> {
        read_camel_members(value, |known, name, value| match known {
            "functionCallingConfig" => read_camel_members(value, |known, name, value| {
                self.calling_field(known, name, value, lost)
            })
            .map(drop),
            _ => value.note_lost_value(lost, "toolConfig.", name),
        })?;
        Ok(())
    }

    fn calling_field(
        &mut self,
        known: &str,
        name: &Name<'a>,
        mut value: Value<'_, 'a>,
        lost: &mut Vec<(Name<'a>, Raw<'a>)>,
    ) -> ReadResult<()> {
        const PREFIX: &str = "toolConfig.functionCallingConfig.";
        match known {
            "mode" => {
                let raw = value.peek_raw()?;
                self.mode = read_mode(value)?;
                // No other provider promises that calls match their schemas.
                if raw.0.eq_ignore_ascii_case(r#""VALIDATED""#) {
                    lost.push((format!("{PREFIX}mode").into(), raw));
                }
                Ok(())
            }
            "allowedFunctionNames" => value.array(|_, value| {
                self.allowed.extend(value.text()?);
                Ok(())
            }),
            _ => value.note_lost_value(lost, PREFIX, name),
        }
    }

    /// Returns the choice of a tool. Without tools there is no choice.
    pub(super) fn choice(&mut self) -> ReadResult<Option<ToolChoice<'a>>> {
        let mut allowed = std::mem::take(&mut self.allowed);
        let Some(mode) = self.mode.filter(|_| !self.list.is_empty()) else {
            return Ok(None);
        };
        if allowed.iter().any(|name| !self.names.contains(name)) {
            return Err(unknown_function());
        }
        Ok(Some(match (mode, allowed.len()) {
            (Mode::None, _) => ToolChoice::None,
            (Mode::Auto, 0) => ToolChoice::Auto,
            (Mode::Any, 0) => ToolChoice::Required,
            (Mode::Any, 1) => allowed
                .pop()
                .map_or(ToolChoice::Required, ToolChoice::Named),
            (Mode::Auto | Mode::Any, _) => ToolChoice::Allowed {
                must_call: mode == Mode::Any,
                names: allowed,
            },
        }))
    }
}

fn read_mode(value: Value<'_, '_>) -> ReadResult<Option<Mode>> {
    let place = value.place;
    let word = value.text()?.map(|word| word.to_ascii_uppercase());
    match word.as_deref() {
        None | Some("" | "MODE_UNSPECIFIED") => Ok(None),
        Some("AUTO" | "VALIDATED") => Ok(Some(Mode::Auto)),
        Some("ANY") => Ok(Some(Mode::Any)),
        Some("NONE") => Ok(Some(Mode::None)),
        Some(_) => Err(place.refuse("must be one of `AUTO`, `ANY`, `NONE` and `VALIDATED`")),
    }
}

fn unknown_function() -> ReadFault {
    let field = "toolConfig.functionCallingConfig.allowedFunctionNames";
    Box::new(Refused::invalid(
        field,
        format!("`{field}` names a function that is not declared"),
    ))
}
