//! The command line, from clap's commands.

use clap::{Arg, Command, CommandFactory};
use portcullis_cli::Cli;

use super::{check, code, sentence, table};

#[test]
fn the_chapter_of_the_command_line_is_current() {
    let mut top = Cli::command();
    top.build();
    let mut text = format!(
        "{}\n\n{}",
        sentence(&text_or_empty(top.get_about())),
        list(&top, "portcullis")
    );
    describe(&top, "portcullis", &mut text);
    check("command-line.md", "Command line", &text);
}

/// The commands below this one.
fn describe(above: &Command, path: &str, text: &mut String) {
    for command in above
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
    {
        let path = format!("{path} {}", command.get_name());
        text.push_str(&format!("\n## {path}\n\n{}\n", sentence(&about(command))));
        if command.has_subcommands() {
            text.push_str(&format!("\n{}", list(command, &path)));
            describe(command, &path, text);
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        text.push_str(&format!(
            "\n```text\n{}\n```\n\n",
            usage.trim_start_matches("Usage: ")
        ));
        let arguments = command
            .get_arguments()
            .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()));
        let rows: Vec<[String; 3]> = arguments.map(row).collect();
        if !rows.is_empty() {
            text.push_str(&table(["Argument", "Default", "Meaning"], rows));
        }
        if let Some(after) = command.get_after_help() {
            let after = after.to_string();
            let paragraphs: Vec<&str> = after.lines().filter(|line| !line.is_empty()).collect();
            text.push_str(&format!("\n{}\n", paragraphs.join("\n\n")));
        }
    }
}

fn list(command: &Command, path: &str) -> String {
    let commands = command
        .get_subcommands()
        .filter(|command| command.get_name() != "help");
    let row = |command: &Command| {
        let name = format!("{path} {}", command.get_name());
        [
            format!("[`{name}`](#{})", crate::docs::links::slug(&name)),
            sentence(&text_or_empty(command.get_about())),
        ]
    };
    table(["Command", "What it does"], commands.map(row))
}

fn row(argument: &Arg) -> [String; 3] {
    let value = argument
        .get_value_names()
        .unwrap_or_default()
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    let takes = argument.get_action().takes_values();
    let several = if argument
        .get_num_args()
        .is_some_and(|number| number.max_values() > 1)
    {
        "…"
    } else {
        ""
    };
    let mut names: Vec<&str> = argument.get_long().into_iter().collect();
    names.extend(argument.get_visible_aliases().unwrap_or_default());
    let written = match takes {
        _ if names.is_empty() => code(&value),
        true => names
            .iter()
            .map(|name| code(&format!("--{name} {value}{several}")))
            .collect::<Vec<_>>()
            .join(", "),
        false => names
            .iter()
            .map(|name| code(&format!("--{name}")))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let help = text_or_empty(argument.get_long_help().or(argument.get_help()));
    // Where clap does not know the default, the help says it in brackets.
    let (meaning, said) = match help.rsplit_once(" [default: ") {
        Some((meaning, default)) if default.ends_with(']') => {
            (meaning.to_owned(), default.trim_end_matches(']').to_owned())
        }
        _ => (help, String::new()),
    };
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes)
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let default = match defaults.as_slice() {
        _ if argument.is_required_set() => "required".to_owned(),
        [] => said,
        some => code(&some.join(" ")),
    };
    let words: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| takes)
        .map(|word| {
            format!(
                "<br>`{}`: {}",
                word.get_name(),
                sentence(&text_or_empty(word.get_help()))
            )
        })
        .collect();
    [
        written,
        default,
        format!("{}{}", sentence(&meaning), words.concat()),
    ]
}

fn about(command: &Command) -> String {
    text_or_empty(command.get_long_about().or(command.get_about()))
}

fn text_or_empty(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
