//! The dialects that accounts speak, a module each: how a request is written for them, and how
//! their answers, streams and errors are read.

pub mod anthropic;
pub mod azure;
pub mod bedrock;
pub mod cohere;
pub mod demo;
pub mod gemini;
pub mod ollama;
pub mod openai;
pub mod shared;
