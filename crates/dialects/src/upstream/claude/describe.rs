//! A description is one tool in the form that the model is shown. It also has the demand that the
//! tool's input matches its schema.

use std::borrow::Cow;

use super::schema::{self, Fit, Fitted};
use crate::neutral::{Field, LazyText, LostFields, Tool, ToolKind};

/// The description and the parameters of a tool, as the model is shown them.
#[derive(Debug, PartialEq)]
pub(crate) struct Described<'t> {
    pub(crate) about: Option<Cow<'t, LazyText<'t>>>,
    /// The schema of the input, which is an object.
    pub(crate) schema: Cow<'t, str>,
    /// True if the input is held to the schema.
    pub(crate) strict: bool,
}

impl<'t> Described<'t> {
    /// Describes a tool of the caller's. `limits` is `None` if models cannot be held to a schema.
    pub(crate) fn from_tool(
        tool: &'t Tool<'_>,
        limits: Option<&mut Limits>,
        losses: &mut LostFields,
    ) -> Self {
        let (schema, strict) = match &tool.kind {
            ToolKind::Function(schema, strict) => (schema.as_deref(), strict.unwrap_or(false)),
            ToolKind::Custom | ToolKind::Other => (None, false),
        };
        let about = tool
            .description
            .as_ref()
            .filter(|about| !about.is_empty())
            .map(Cow::Borrowed);
        if strict {
            if let Some(fitted) = limits.and_then(|limits| limits.strict(schema)) {
                losses.add_if(fitted.fit == Fit::Weaker, Field::ToolParameters);
                return Self {
                    about,
                    schema: fitted.text.into(),
                    strict,
                };
            }
            losses.add(Field::ToolStrict);
        }
        Self::loosely(about, schema, Field::ToolParameters, losses)
    }

    /// Describes a tool whose input is not held to its schema. The keywords that may not stand at
    /// the top of the schema become text in the description, and `lost` is then a loss.
    pub(crate) fn loosely(
        about: Option<Cow<'t, LazyText<'t>>>,
        schema: Option<&'t str>,
        lost: Field,
        losses: &mut LostFields,
    ) -> Self {
        let parameters = schema::object_parameters(schema);
        let Some(moved) = parameters.moved else {
            return Self {
                about,
                schema: parameters.schema,
                strict: false,
            };
        };
        losses.add(lost);
        let also = format!("The input must also match this JSON Schema: {moved}");
        let about = match about {
            Some(about) => format!("{}\n\n{also}", &**about),
            None => also,
        };
        Self {
            about: Some(Cow::Owned(about.into())),
            schema: parameters.schema,
            strict: false,
        }
    }
}

/// The limits of the API for all schemas of a request that answers are held to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    tools: usize,
    optional: usize,
    unions: usize,
    /// The number of tools whose schemas are tried. It limits the gateway's work; the API does not
    /// ask for it.
    tries: usize,
}

impl Limits {
    pub(crate) const MAX: Self = Self {
        tools: 20,
        optional: 24,
        unions: 16,
        tries: 40,
    };

    /// Returns whether this schema is still within the limits. If so, the schema counts.
    pub(crate) fn take(&mut self, fitted: &Fitted) -> bool {
        let (Some(optional), Some(unions)) = (
            self.optional.checked_sub(fitted.optional),
            self.unions.checked_sub(fitted.unions),
        ) else {
            return false;
        };
        (self.optional, self.unions) = (optional, unions);
        true
    }

    /// Returns the schema that a tool's input is held to, if that is possible.
    pub(crate) fn strict(&mut self, schema: Option<&str>) -> Option<Fitted> {
        if self.tools == 0 {
            return None;
        }
        self.tries = self.tries.checked_sub(1)?;
        let parameters = schema::object_parameters(schema);
        let fitted = schema::fit_schema(&parameters.schema, None);
        let taken =
            parameters.moved.is_none() && !matches!(fitted.fit, Fit::No(_)) && self.take(&fitted);
        self.tools -= usize::from(taken);
        taken.then_some(fitted)
    }
}
