//! This module checks that every call has its result. Providers, OpenAI included, refuse a
//! conversation in which a call has none.
//!
//! A result may stand anywhere before the assistant's next message. A result that belongs to no
//! call is left to the dialects: some of them do not need the call.

use super::field::Field;
use super::refused::FieldRefused;
use super::request::{Message, PartKind, Request, Role};

/// Refuses a conversation in which a call has no result, even if the call is the last message.
pub fn check_calls_answered(request: &Request<'_>) -> Result<(), FieldRefused> {
    // The calls that wait for a result, and the message that made them.
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut has_results = false;
    for (index, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => {
                // Messages of the assistant that follow each other count as one.
                if has_results && has_speech(message) {
                    refuse_open_call(&open)?;
                    open.clear();
                    has_results = false;
                }
                open.extend(message.calls.iter().map(|call| (index, &*call.id)));
            }
            Role::Tool | Role::Function => {
                has_results = true;
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                if let Some(position) = open.iter().position(|(_, call)| *call == id) {
                    open.remove(position);
                }
            }
            Role::User => has_results |= has_speech(message),
            Role::System | Role::Developer => {}
        }
    }
    refuse_open_call(&open)
}

fn refuse_open_call(open: &[(usize, &str)]) -> Result<(), FieldRefused> {
    let Some((index, _)) = open.first() else {
        return Ok(());
    };
    let param = Field::Calls(*index);
    Err(FieldRefused::invalid(
        param,
        "Each tool call must be answered by a tool message before any other message. One call has no answer.",
    ))
}

fn has_speech(message: &Message<'_>) -> bool {
    !message.calls.is_empty()
        || message.content.iter().any(|part| match &part.kind {
            PartKind::Text(text) => !text.is_blank(),
            PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::chat::read::read_request;

    /// The conversation in short: `u` and `s` are texts of user and system, `a` is an answer with
    /// text, `e` an empty one, `c12` has the calls 1 and 2, `r1` is the result of call 1.
    #[track_caller]
    fn check(conversation: &str, unanswered: Option<usize>) {
        let message = |word: &str| {
            let (kind, ids) = word.split_at(1);
            let calls: Vec<_> = ids
                .chars()
                .map(|id| format!(r#"{{"id":"{id}","function":{{"name":"f"}}}}"#))
                .collect();
            match kind {
                "u" => r#"{"role":"user","content":"x"}"#.to_owned(),
                "s" => r#"{"role":"system","content":"x"}"#.to_owned(),
                "a" => r#"{"role":"assistant","content":"x"}"#.to_owned(),
                "e" => r#"{"role":"assistant","content":" "}"#.to_owned(),
                "c" => format!(
                    r#"{{"role":"assistant","tool_calls":[{}]}}"#,
                    calls.join(",")
                ),
                _ => format!(r#"{{"role":"tool","tool_call_id":"{ids}","content":""}}"#),
            }
        };
        let messages: Vec<_> = conversation.split(' ').map(message).collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let found = match check_calls_answered(&read_request(body.as_bytes()).unwrap().0) {
            Ok(()) => None,
            Err(FieldRefused::Invalid(complaint)) => Some(complaint.param),
            Err(FieldRefused::Unsupported(complaint)) => panic!("{complaint:?}"),
        };
        assert_eq!(found, unanswered.map(Field::Calls), "{conversation}");
    }

    #[test]
    fn calls_need_results_before_the_assistant_speaks() {
        check("u", None);
        check("u c12 r1 r2", None);
        check("u c12 r2 r1 a u", None);
        check("u c1 r1 c1 r1", None);
        check("u c11 r1 r1", None);
        check("u c1 u r1", None);
        check("u c1 a r1", None);
        check("u c12 r1 e r2", None);
        check("u c12 r1 s r2", None);
        check("u c1 r1 r1 r9", None);
        check("u c1", Some(1));
        check("u c12 r1", Some(1));
        check("u c12 r1 a r2", Some(1));
        check("u c1 u a", Some(1));
        check("u c1 r1 u c2 u", Some(4));
        check("u c11 r1", Some(1));
        check("u c1 r9", Some(1));
    }
}
