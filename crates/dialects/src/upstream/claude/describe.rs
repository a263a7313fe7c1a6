//! A description of one tool for the model, and how far its input can be held to its schema.

use std::borrow::Cow;

use super::schema::{self, Fit, Fitted};
use crate::neutral::{Field, LostFields, Tool, ToolKind};

/// What a tool does and takes, as it is said to the model.
#[derive(Debug, PartialEq)]
pub(crate) struct Described<'t> {
    pub(crate) about: Option<Cow<'t, str>>,
    /// An object's.
    pub(crate) schema: Cow<'t, str>,
    /// Its input is held to it.
    pub(crate) strict: bool,
}

impl<'t> Described<'t> {
    /// Describes a caller's tool. `limits`: where models can be held to a schema.
    pub(crate) fn of(tool: &'t Tool<'_>, limits: Option<&mut Limits>, losses: &mut LostFields) -> Self {
        let (schema, strict) = match &tool.kind {
            ToolKind::Function(schema, strict) => (schema.as_ref().map(|raw| raw.0), strict.unwrap_or(false)),
            ToolKind::Custom | ToolKind::Other => (None, false),
        };
        let about = tool.description.as_deref().filter(|about| !about.is_empty());
        if strict {
            if let Some(fitted) = limits.and_then(|limits| limits.strict(schema)) {
                losses.add_if(fitted.fit == Fit::Weaker, Field::ToolParameters);
                return Self { about: about.map(Cow::Borrowed), schema: fitted.text.into(), strict };
            }
            losses.add(Field::ToolStrict);
        }
        Self::loosely(about, schema, Field::ToolParameters, losses)
    }

    /// Describes a tool whose schema nothing is held to. What may not stand at its top becomes
    /// words; `lost` is the name of it then.
    pub(crate) fn loosely(
        about: Option<&'t str>,
        schema: Option<&'t str>,
        lost: Field,
        losses: &mut LostFields,
    ) -> Self {
        let parameters = schema::parameters(schema);
        let Some(moved) = parameters.moved else {
            return Self { about: about.map(Cow::Borrowed), schema: parameters.schema, strict: false };
        };
        losses.add(lost);
        let also = format!("The input must also match this JSON Schema: {moved}");
        let about = match about {
            Some(about) => format!("{about}\n\n{also}"),
            None => also,
        };
        Self { about: Some(about.into()), schema: parameters.schema, strict: false }
    }
}

/// What the API takes of schemas that answers are held to, all of a request's together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    tools: usize,
    optional: usize,
    unions: usize,
    /// How many tools' schemas are looked at. It bounds our work, not the API's.
    tries: usize,
}

impl Limits {
    pub(crate) const MOST: Self = Self { tools: 20, optional: 24, unions: 16, tries: 40 };

    /// Returns whether this one may be among them; then it counts.
    pub(crate) fn take(&mut self, fitted: &Fitted) -> bool {
        let (Some(optional), Some(unions)) =
            (self.optional.checked_sub(fitted.optional), self.unions.checked_sub(fitted.unions))
        else {
            return false;
        };
        (self.optional, self.unions) = (optional, unions);
        true
    }

    /// Returns the schema that a tool's input is held to, if it can be.
    pub(crate) fn strict(&mut self, schema: Option<&str>) -> Option<Fitted> {
        if self.tools == 0 {
            return None;
        }
        self.tries = self.tries.checked_sub(1)?;
        let parameters = schema::parameters(schema);
        let fitted = schema::fit(&parameters.schema, None);
        let taken = parameters.moved.is_none() && fitted.fit != Fit::No && self.take(&fitted);
        self.tools -= usize::from(taken);
        taken.then_some(fitted)
    }
}
