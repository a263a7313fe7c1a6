//! This module refuses a request if it would change its meaning to leave something out. It is for
//! APIs whose answers have one choice and whose conversations have turns.

use super::fields::REFUSED;
use crate::neutral::traits::Traits;
use crate::neutral::{Field, FieldRefused, Message, PartKind, Role, ToolKind};
use crate::upstream::shared::options::Options;

/// Refuses what cannot be sent. `shows_tools` is true if the model is shown the tools. `is_image`
/// returns whether a part is an image, or the reason why it cannot be sent.
pub(crate) fn refuse_unsupported(
    options: &Options<'_>,
    shows_tools: bool,
    is_image: impl Fn(&PartKind<'_>) -> Result<bool, &'static str>,
) -> Result<(), FieldRefused> {
    options.check(REFUSED)?;
    let (request, traits) = (options.request, &options.target.traits);
    for (index, tool) in request.tools.iter().enumerate() {
        let (field, why) = match tool.kind {
            ToolKind::Function(..) if traits.tools || !shows_tools => continue,
            ToolKind::Function(..) => (Field::Tools, "This model does not support tools."),
            ToolKind::Custom | ToolKind::Other => (
                Field::Tool(index),
                "This model supports tools of type `function` only.",
            ),
        };
        return Err(FieldRefused::unsupported(field, why));
    }
    request
        .messages
        .iter()
        .enumerate()
        .try_for_each(|(index, message)| of_message(index, message, traits, &is_image))
}

fn of_message(
    index: usize,
    message: &Message<'_>,
    traits: &Traits,
    is_image: impl Fn(&PartKind<'_>) -> Result<bool, &'static str>,
) -> Result<(), FieldRefused> {
    if !message.calls.is_empty() && !traits.tools {
        return Err(FieldRefused::unsupported(
            Field::Calls(index),
            "This model does not support tools.",
        ));
    }
    // Only texts of the system are sent. Its other parts are already noted as losses.
    if matches!(message.role, Role::System | Role::Developer) {
        return Ok(());
    }
    for (part_index, part) in message.content.iter().enumerate() {
        if matches!(part.kind, PartKind::Text(_)) {
            continue;
        }
        let why = match is_image(&part.kind) {
            Err(why) => why,
            Ok(_) if message.role == Role::Assistant => {
                "Pictures and files are accepted in the user's messages only."
            }
            Ok(true) if !traits.images => "This model does not accept pictures.",
            Ok(_) => continue,
        };
        return Err(FieldRefused::unsupported(
            Field::Part(index, part_index),
            why,
        ));
    }
    Ok(())
}
