//! What a front door's writer must be able to say of an answer.

/// What is told of an answer, in the order that a caller may see it.
pub(crate) trait Words {
    /// The upstream's id of the answer.
    fn id(&mut self, id: &str);
    /// A choice shows for the first time: always the next one.
    fn open(&mut self, choice: usize);
    /// More of one of a choice's texts; never empty.
    fn say(&mut self, choice: usize, said: Said, text: &str);
    /// A call begins: always the choice's next one.
    fn call(&mut self, choice: usize, number: usize, id: &str, name: &str, signature: Option<&str>);
    /// More of the last call's arguments; never empty.
    fn arguments(&mut self, choice: usize, number: usize, text: &str);
    /// A picture, or a file that is none; each of them counted for itself.
    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str);
    /// A choice ends.
    fn finish(&mut self, choice: usize, reason: &'static str);
}

/// Which of a choice's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Content,
    Reasoning,
    Refusal,
}

/// Whether it goes where clients look for pictures.
pub(crate) fn is_picture(mime: &str) -> bool {
    mime.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("image/"))
}
