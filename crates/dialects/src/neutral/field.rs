//! A field is one thing that a request can say, whatever a caller's format calls it.
//!
//! A dialect refuses, loses or weakens fields. The front door says them in the caller's words.

/// One thing that a request can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// The conversation as a whole.
    Messages,
    /// The message at this index.
    Message(usize),
    /// The part of a message that is no text: the message's index, and the part's in it.
    Part(usize, usize),
    /// The calls of the message at this index.
    Calls(usize),
    /// The id of the call that the message at this index answers.
    CallId(usize),
    /// A second result of a call that has one.
    SecondResult,
    /// That the system says something, and not the user.
    SystemRole,
    /// What the system says besides text.
    SystemMedia,
    /// The name of a participant.
    ParticipantName,
    /// What a model thought, as text.
    Reasoning,
    /// What a model thought, with a provider's signature.
    Thoughts,
    /// The signature of the thought behind a call.
    CallSignature,
    /// The arguments of a call of a function.
    CallArguments,
    /// The input of a call of a custom tool.
    CustomCall,
    /// How exactly to look at a picture.
    ImageDetail,
    /// The name of a file.
    FileName,
    /// Another field of a message, by the name that the caller wrote.
    OtherOfMessage(String),
    /// That a prompt cache may end here.
    CacheHint,
    /// The tools as a whole.
    Tools,
    /// The tool at this index.
    Tool(usize),
    /// What a function takes.
    ToolParameters,
    /// That calls of a function keep to its parameters exactly.
    ToolStrict,
    /// Which tools may or must be called.
    ToolChoice,
    /// Whether several tools may be called at once.
    ParallelCalls,
    /// The format of the answer.
    Format,
    /// What the format is for.
    FormatDescription,
    /// The schema of the answer.
    FormatSchema,
    /// That the answer keeps to its schema exactly.
    FormatStrict,
    /// The most tokens of the answer.
    MaxTokens,
    /// How random the answer may be.
    Temperature,
    /// From which share of the likeliest tokens to draw.
    TopP,
    /// From how many of the likeliest tokens to draw.
    TopK,
    /// Against words that came often.
    FrequencyPenalty,
    /// Against words that came at all.
    PresencePenalty,
    /// Where to stop.
    Stop,
    /// The seed of chance.
    Seed,
    /// The number of choices.
    Choices,
    /// How likely each token was.
    Logprobs,
    /// An answer in sound.
    Audio,
    /// How hard to think.
    Effort,
    /// How to think, as Anthropic says it.
    Thinking,
    /// The kind in [`Field::Thinking`].
    ThinkingType,
    /// The budget in [`Field::Thinking`].
    ThinkingBudget,
    /// For whom this is.
    User,
    /// Labels of the request.
    Metadata,
    /// How fast, and at which price.
    ServiceTier,
    /// Another field of the request, by the name that the caller wrote.
    Other(String),
    /// Fields beyond the most that are counted.
    Rest,
}
