//! `portcullis completion` and `portcullis man`: what shells and `man` show of the commands. Both
//! are made from the same types that read the arguments.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use super::{Cli, print_result};

/// `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: KnownShell,
}

/// The shells that have a script.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KnownShell {
    /// Write it into ~/.local/share/bash-completion/completions/portcullis
    Bash,
    /// Write it into _portcullis, in a folder of zsh's `fpath`
    Zsh,
    /// Write it into ~/.config/fish/completions/portcullis.fish
    Fish,
}

/// `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder for the pages. It is made if it does not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Prints the script that a shell completes commands with.
pub(super) fn print_completion(args: &CompletionArgs) -> ExitCode {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "portcullis", &mut script);
    print_result(&String::from_utf8_lossy(&script))
}

/// Writes a manual page for each command.
pub(super) fn write_pages(args: &ManArgs) -> Result<ExitCode, String> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let folder = std::env::temp_dir().join(format!("portcullis-man-{}", std::process::id()));
        let args = ManArgs {
            folder: folder.clone(),
        };
        write_pages(&args).expect("the folder can be written");
        let top = Cli::command();
        for command in top.get_subcommands() {
            let page = folder.join(format!("portcullis-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).expect("a page for each command");
            let about = command.get_about().expect("each command says what it does");
            let words = about.to_string().replace('-', "\\-");
            assert!(text.contains(&words), "{page:?} is not about {words}");
        }
        std::fs::remove_dir_all(&folder).expect("the pages can be removed");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "portcullis", &mut script);
            let script = String::from_utf8(script).expect("text");
            for command in top.get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}");
            }
        }
    }
}
