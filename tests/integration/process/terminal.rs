//! A gateway in a terminal that is closed.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port};
use crate::support::process::Process;
use crate::support::{eventually_blocking, root};

/// Lines of a shell in a terminal: each starts the gateway that its arguments name.
const FOREGROUND: &str = r#"sh -c 'echo $$ >pid; exec "$@"' sh "$@"; true"#;
const DISOWNED: &str =
    r#"set -m; sh -c 'echo $$ >pid; exec "$@"' sh "$@" >nohup.out 2>&1 & sleep 1000"#;
const NOHUP: &str = r#"nohup sh -c 'echo $$ >pid; exec "$@"' sh "$@"; true"#;

/// A gateway that was started by a shell in a terminal.
struct AtTerminal {
    folder: Folder,
    terminal: Process,
    address: SocketAddr,
}

impl AtTerminal {
    fn start(line: &str) -> AtTerminal {
        let (address, admin) = (free_port(), free_port());
        let server =
            format!("listen: [{{ address: \"{address}\" }}]\nadmin: {{ address: \"{admin}\" }}\n");
        let folder = Folder::new(&[
            ("server.yaml", &server),
            ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ]);
        let mut command = Command::new("python3");
        command
            .arg(root().join("tests/integration/process/terminal.py"))
            .args(["sh", "-c", line, "sh"])
            .args([BINARY, "serve", "--conf", "."])
            .current_dir(folder.path());
        let gateway = AtTerminal {
            terminal: Process::spawn(&mut command),
            folder,
            address,
        };
        gateway.has_logged("serving on", 1);
        gateway
    }

    /// Returns what the gateway has written to its terminal, or to the file of `nohup`.
    fn log(&self) -> String {
        let file = std::fs::read_to_string(self.folder.path().join("nohup.out"));
        let printed = String::from_utf8_lossy(&self.terminal.stdout()).into_owned();
        format!("{printed}{}", file.unwrap_or_default())
    }

    fn has_logged(&self, text: &str, times: usize) {
        let found = eventually_blocking(text, || match self.log() {
            log if log.matches(text).count() == times => Ok(()),
            log => Err(log),
        });
        found.unwrap_or_else(|log| panic!("{log}"));
    }

    fn signal(&self, name: &str) {
        let line = format!("kill -s {name} $(cat pid)");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(self.folder.path());
        let status = shell.status().expect("a shell");
        assert!(status.success(), "{}", self.log());
    }

    /// Closes the terminal.
    fn close(&mut self) {
        self.terminal.signal("KILL");
        self.terminal
            .wait(crate::support::PATIENCE)
            .expect("it ends");
    }

    fn is_gone(&self) {
        let freed = eventually_blocking("the port", || match TcpStream::connect(self.address) {
            Err(_) => Ok(()),
            Ok(_) => Err(self.log()),
        });
        freed.unwrap_or_else(|log| panic!("{log}"));
    }
}

impl Drop for AtTerminal {
    fn drop(&mut self) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "kill -s KILL $(cat pid) 2>/dev/null"]);
        drop(shell.current_dir(self.folder.path()).status());
    }
}

#[test]
fn it_ends_with_its_terminal_and_reloads_before() {
    let mut gateway = AtTerminal::start(FOREGROUND);
    gateway.signal("HUP");
    gateway.has_logged("SIGHUP: reading the catalog", 1);
    gateway.signal("HUP");
    gateway.has_logged("SIGHUP: reading the catalog", 2);
    assert!(!gateway.log().contains("stopping"), "{}", gateway.log());
    gateway.close();
    gateway.is_gone();
}

/// A reload that comes long after the terminal was closed must not end the gateway.
#[test]
fn a_disowned_gateway_outlives_its_terminal() {
    let mut gateway = AtTerminal::start(DISOWNED);
    gateway.close();
    gateway.has_logged("the gateway goes on", 1);
    for times in 1..=2 {
        gateway.signal("HUP");
        gateway.has_logged("SIGHUP: reading the catalog", times);
    }
    assert!(!gateway.log().contains("stopping"), "{}", gateway.log());
}

#[test]
fn nohup_lets_it_outlive_its_terminal() {
    let mut gateway = AtTerminal::start(NOHUP);
    gateway.close();
    gateway.has_logged("SIGHUP: reading the catalog", 1);
    gateway.signal("HUP");
    gateway.has_logged("SIGHUP: reading the catalog", 2);
    assert!(!gateway.log().contains("stopping"), "{}", gateway.log());
    gateway.signal("TERM");
    gateway.is_gone();
}
