//! The settings of the answer: `generationConfig`, and `serviceTier`.

use std::borrow::Cow;

use super::schema::{self, SchemaForm};
use super::{DEFAULTS, read_camel_members};
use crate::front::FieldNames;
use crate::front::reading::others;
use crate::front::reading::value::{Name, Place, ReadFault, ReadResult, Value, non_empty};
use crate::neutral::{Effort, Field, Format, Raw, Request};

/// The format and the schema of the answer, which several settings decide together.
#[derive(Default)]
struct Wanted<'a> {
    mime: Option<Cow<'a, str>>,
    schema: Option<Cow<'a, str>>,
    /// The caller's name for the schema.
    schema_name: Option<&'static str>,
}

/// Reads `generationConfig`. Notes the caller's name for the schema of the answer.
pub(super) fn read_settings<'a>(
    value: Value<'_, 'a>,
    request: &mut Request<'a>,
    names: &mut FieldNames,
) -> ReadResult<()> {
    let mut wanted = Wanted::default();
    let place = value.place;
    read_camel_members(value, |known, name, value| {
        let place = value.place;
        match known {
            "temperature" => request.temperature = value.number()?,
            "topP" => request.top_p = value.number()?,
            "topK" => request.top_k = value.count_from(0, &[])?,
            "candidateCount" => request.n = value.count_from(1, &[0])?.filter(|count| *count > 1),
            "maxOutputTokens" => request.max_tokens = value.count_from(1, &[0])?,
            "stopSequences" => value.strings(&mut request.stop)?,
            "seed" => request.seed = value.integer()?,
            "presencePenalty" => request.penalties.presence = value.number()?,
            "frequencyPenalty" => request.penalties.frequency = value.number()?,
            "responseMimeType" => wanted.mime = non_empty(value.text()?),
            "responseSchema" | "responseJsonSchema" => {
                let form = if known == "responseSchema" {
                    SchemaForm::Google
                } else {
                    SchemaForm::JsonSchema
                };
                if let Some(schema) = value.raw_object()? {
                    let standard = schema::standard_schema(schema, form);
                    if standard.forbids_null {
                        others::note_value(
                            &mut request.others,
                            format!("generationConfig.{name}"),
                            schema,
                        );
                    }
                    wanted.schema = Some(standard.text);
                    wanted.schema_name = SCHEMA_NAMES
                        .into_iter()
                        .find(|known| known.ends_with(&**name));
                }
            }
            "thinkingConfig" => {
                request.thinking.effort = read_thinking(value, &mut request.others)?
            }
            "responseModalities" => value.array(|_, value| {
                let place = value.place;
                match value.text()? {
                    Some(kind) if !kind.eq_ignore_ascii_case("TEXT") => Err(only_text(place)),
                    Some(_) | None => Ok(()),
                }
            })?,
            "speechConfig" | "imageConfig" => {
                if value.read_is_filled()? {
                    return Err(only_text(place));
                }
            }
            _ => value.note_lost_value(&mut request.others, "generationConfig.", name)?,
        }
        Ok(())
    })?;
    request.others.retain(|(name, raw)| {
        !(name.starts_with("generationConfig.") && DEFAULTS.hold(name, *raw))
    });
    if let Some(name) = wanted.schema_name {
        [
            Field::FormatSchema,
            Field::FormatDescription,
            Field::FormatStrict,
        ]
        .into_iter()
        .for_each(|field| names.write(field, name));
    }
    request.format = answer_format(wanted, place)?;
    Ok(())
}

/// The names under which callers write the schema of the answer.
const SCHEMA_NAMES: [&str; 4] = [
    "generationConfig.responseSchema",
    "generationConfig.response_schema",
    "generationConfig.responseJsonSchema",
    "generationConfig.response_json_schema",
];

/// Refuses an answer in pictures or sound.
fn only_text(place: Place<'_>) -> ReadFault {
    place.unsupported("this model can be asked for text only")
}

fn answer_format<'a>(wanted: Wanted<'a>, place: Place<'_>) -> ReadResult<Option<Format<'a>>> {
    let Wanted { mime, schema, .. } = wanted;
    match (mime.as_deref(), schema) {
        (Some("application/json"), None) => Ok(Some(Format::JsonObject)),
        (Some("application/json") | None, Some(schema)) => {
            let name = Cow::Borrowed("answer");
            Ok(Some(Format::JsonSchema {
                name,
                description: None,
                schema: Some(schema),
                strict: None,
            }))
        }
        (Some("text/plain") | None, None) => Ok(None),
        (Some("text/plain"), Some(_)) => Err(place
            .field("responseMimeType")
            .refuse("must be `application/json`, since there is a schema for the answer")),
        (Some(_), _) => Err(place
            .field("responseMimeType")
            .unsupported("this model can answer as `text/plain` or `application/json` only")),
    }
}

/// Reads the effort of thinking. The envelope has read whether thoughts are shown.
fn read_thinking<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<(Name<'a>, Raw<'a>)>,
) -> ReadResult<Option<Effort>> {
    let mut level = None;
    let mut budget = None;
    read_camel_members(value, |known, name, mut value| {
        let place = value.place;
        match known {
            "includeThoughts" => value.skip()?,
            "thinkingLevel" => {
                let word = value.text()?.map(|word| word.to_ascii_uppercase());
                level = match word.as_deref() {
                    None | Some("" | "THINKING_LEVEL_UNSPECIFIED") => None,
                    Some("MINIMAL") => Some(Effort::Minimal),
                    Some("LOW") => Some(Effort::Low),
                    Some("MEDIUM") => Some(Effort::Medium),
                    Some("HIGH") => Some(Effort::High),
                    Some("XHIGH") => Some(Effort::Xhigh),
                    Some(_) => {
                        return Err(place.refuse(
                            "must be one of `MINIMAL`, `LOW`, `MEDIUM`, `HIGH` and `XHIGH`",
                        ));
                    }
                };
            }
            // -1 leaves it to the model.
            "thinkingBudget" => {
                let raw = value.peek_raw()?;
                budget = value.count_from(0, &[-1])?;
                // An effort is only near the budget.
                if budget.is_some_and(|tokens| tokens > 0) {
                    lost.push((Cow::Owned(format!("{THINKING}thinkingBudget")), raw));
                }
            }
            _ => value.note_lost_value(lost, THINKING, name)?,
        }
        Ok(())
    })?;
    Ok(level.or(budget.map(|tokens| match tokens {
        0 => Effort::None,
        1..=LEAST => Effort::Minimal,
        _ => Effort::of_budget(tokens),
    })))
}

const THINKING: &str = "generationConfig.thinkingConfig.";

/// The largest budget of the least effort.
const LEAST: u64 = 512;

/// Reads `serviceTier`.
pub(super) fn read_service_tier<'a>(value: Value<'_, 'a>) -> ReadResult<Option<Cow<'a, str>>> {
    let tier = value.text()?.map(|tier| tier.to_ascii_lowercase());
    Ok(match tier.as_deref() {
        None | Some("" | "unspecified") => None,
        Some("standard") => Some(Cow::Borrowed("default")),
        Some(_) => tier.map(Cow::Owned),
    })
}
