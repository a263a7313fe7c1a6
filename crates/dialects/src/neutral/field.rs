//! A field is one setting or part of a request, whatever its name in a caller's format is.
//!
//! A dialect refuses, loses or weakens fields. The front door names them in the caller's words.

use super::shown::shown_name;

/// One setting or part of a request. A comment names it in general words; a front door has the
/// caller's name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The conversation as a whole.
    Messages,
    /// The message at this index.
    Message(usize),
    /// The part of a message that is no text: the index of the message, and the index of the part
    /// in it.
    Part(usize, usize),
    /// The calls of the message at this index.
    Calls(usize),
    /// The id of the call that the message at this index answers.
    CallId(usize),
    /// A second result of a call that has one.
    SecondResult,
    /// The role of the system, which distinguishes its texts from the user's.
    SystemRole,
    /// The parts of a system message that are no text.
    SystemMedia,
    /// The name of a participant.
    ParticipantName,
    /// A model's thoughts, as text.
    Reasoning,
    /// A model's thoughts, with a provider's signature.
    Thoughts,
    /// The signature of the thought behind a call.
    CallSignature,
    /// The arguments of a call of a function.
    CallArguments,
    /// The input of a call of a custom tool.
    CustomCall,
    /// The detail in which a model looks at a picture.
    ImageDetail,
    /// The name of a file.
    FileName,
    /// Another field of a message, by the name that the caller wrote.
    OtherOfMessage(String),
    /// The hint that a prompt cache may end here.
    CacheHint,
    /// The tools as a whole.
    Tools,
    /// The tool at this index.
    Tool(usize),
    /// The parameters of a function.
    ToolParameters,
    /// The demand that calls of a function match its parameters exactly.
    ToolStrict,
    /// The choice of the tools that may or must be called.
    ToolChoice,
    /// The permission to call several tools at once.
    ParallelCalls,
    /// The format of the answer.
    Format,
    /// The description of the format.
    FormatDescription,
    /// The schema of the answer.
    FormatSchema,
    /// The demand that the answer matches its schema exactly.
    FormatStrict,
    /// The most tokens of the answer.
    MaxTokens,
    /// The randomness of the answer.
    Temperature,
    /// The share of the likeliest tokens from which to draw.
    TopP,
    /// The number of the likeliest tokens from which to draw.
    TopK,
    /// The penalty for tokens by the number of times that they came before.
    FrequencyPenalty,
    /// The penalty for tokens that came before at all.
    PresencePenalty,
    /// The texts at which to stop.
    Stop,
    /// The seed of the random numbers.
    Seed,
    /// The number of choices.
    Choices,
    /// The probability of each token.
    Logprobs,
    /// An answer in sound.
    Audio,
    /// The effort of thinking.
    Effort,
    /// The settings of thinking, in Anthropic's form.
    Thinking,
    /// The kind in [`Field::Thinking`].
    ThinkingType,
    /// The budget in [`Field::Thinking`].
    ThinkingBudget,
    /// The end user for whom the request is made.
    User,
    /// Labels of the request.
    Metadata,
    /// The speed of the answer, and with it the price.
    ServiceTier,
    /// Another field of the request, by the name that the caller wrote.
    Other(String),
    /// The fields beyond the largest number that is counted.
    Rest,
}

impl Field {
    /// The bits of all options.
    pub(crate) const OPTION_BITS: u16 = (1 << 15) - 1;

    /// Returns a bit for each field that is one value for the whole request: an option. Each
    /// dialect has a table of them. Other fields have none.
    pub(crate) const fn option_bit(&self) -> u16 {
        use Field::*;
        match self {
            MaxTokens => 1,
            Temperature => 1 << 1,
            TopP => 1 << 2,
            TopK => 1 << 3,
            FrequencyPenalty => 1 << 4,
            PresencePenalty => 1 << 5,
            Stop => 1 << 6,
            Seed => 1 << 7,
            Choices => 1 << 8,
            Logprobs => 1 << 9,
            Audio => 1 << 10,
            Effort => 1 << 11,
            User => 1 << 12,
            Metadata => 1 << 13,
            ServiceTier => 1 << 14,
            Messages | Message(_) | Part(..) | Calls(_) | CallId(_) | SecondResult | SystemRole
            | SystemMedia | ParticipantName | Reasoning | Thoughts | CallSignature
            | CallArguments | CustomCall | ImageDetail | FileName | OtherOfMessage(_)
            | CacheHint | Tools | Tool(_) | ToolParameters | ToolStrict | ToolChoice
            | ParallelCalls | Format | FormatDescription | FormatSchema | FormatStrict
            | Thinking | ThinkingType | ThinkingBudget | Other(_) | Rest => 0,
        }
    }

    /// Returns a field by the name that the caller wrote, or as `other` if the name is not safe to
    /// show. So names that a caller invents count once.
    pub(crate) fn other(name: &str) -> Self {
        Self::Other(shown_name(name).to_owned())
    }

    /// Returns a field of a message by the name that the caller wrote, or as `other` if the name is
    /// not safe to show.
    pub(crate) fn other_of_message(name: &str) -> Self {
        Self::OtherOfMessage(shown_name(name).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::LostFields;

    #[test]
    fn names_that_a_caller_invents_count_once() {
        let mut losses = LostFields::default();
        (0..70).for_each(|n| losses.add(Field::other_of_message(&format!("a {n}"))));
        (0..70).for_each(|n| losses.add(Field::other(&format!("b {n}"))));
        losses.add(Field::Seed);
        let other = || "other".to_owned();
        assert_eq!(
            losses.names(),
            [
                Field::OtherOfMessage(other()),
                Field::Other(other()),
                Field::Seed
            ]
        );
    }
}
