//! The rules of Claude that Anthropic and Bedrock share. Both serve Claude, and its rules for
//! conversations, tools and thinking hold at both. Most rules hold for Bedrock's other models too.

pub(super) mod alternation;
pub(super) mod blocks;
pub(super) mod conversation;
pub(super) mod describe;
pub(super) mod fields;
pub(super) mod refuse;
pub(super) mod schema;
pub(super) mod thinking;
pub(super) mod tools;
