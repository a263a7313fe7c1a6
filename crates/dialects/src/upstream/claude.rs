//! What Anthropic and Bedrock share: both serve Claude, whose rules for conversations, tools and
//! thinking hold wherever it runs. Most of them hold for Bedrock's other models too.

pub(super) mod alternation;
pub(super) mod blocks;
pub(super) mod conversation;
pub(super) mod describe;
pub(super) mod fields;
pub(super) mod names;
pub(super) mod refuse;
pub(super) mod schema;
pub(super) mod thinking;
pub(super) mod tools;
