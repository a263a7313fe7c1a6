//! The questions at a terminal. Where there is none, or nobody is to be asked, each question has
//! its default as the answer.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::print_text;

/// The person at the terminal, if there is one to ask.
pub(super) struct Dialogue {
    pub(super) is_open: bool,
}

impl Dialogue {
    /// Opens a dialogue, unless nobody is to be asked.
    pub(super) fn open(asks_nothing: bool) -> Dialogue {
        Dialogue {
            is_open: !asks_nothing && io::stdin().is_terminal() && io::stdout().is_terminal(),
        }
    }

    /// Asks until the answer can be read. An empty answer is the default.
    pub(super) fn ask<T>(
        &self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        if !self.is_open {
            return read(default);
        }
        loop {
            let shown = match default {
                "" => String::new(),
                default => format!(" [{default}]"),
            };
            print_text(&format!("{question}{shown}: "))?;
            let mut line = String::new();
            let length = io::stdin().lock().read_line(&mut line);
            if length.is_ok_and(|length| length > 0) {
                match read(
                    Some(line.trim())
                        .filter(|text| !text.is_empty())
                        .unwrap_or(default),
                ) {
                    Ok(answer) => return Ok(answer),
                    Err(why) => print_text(&format!("{why}\n"))?,
                }
            } else {
                return Err("\nNothing was written: the input has ended.".to_owned());
            }
        }
    }

    /// Asks for a yes or a no. The default is yes.
    pub(super) fn confirms(&self, question: &str) -> Result<bool, String> {
        self.ask(question, "yes", read_yes)
    }
}

fn read_yes(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("Answer yes or no.".to_owned()),
    }
}
