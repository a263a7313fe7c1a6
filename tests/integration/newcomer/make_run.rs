//! `make run`, as in a terminal: Ctrl-C reaches all programs there, the shell of the recipe
//! included.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::client::{Connection, content_of, post};
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port};
use crate::support::process::Process;
use crate::support::script::finish;
use crate::support::{Catalog, Gate, Mock, PATIENCE, Script, chat_stream, eventually, root, run};

/// Runs `make run` at this port, with a program that is built already, over a mock.
fn make_run(folder: &Folder, mock: &Mock, port: u16) -> Process {
    let conf = folder.path().join("conf");
    folder.write(
        "conf/server.yaml",
        format!(
            "admin: {{ address: \"{}\" }}\nledger: {{ enabled: false }}\n",
            free_port()
        ),
    );
    folder.write("conf/catalog.yaml", Catalog::over(mock).to_string());
    let serve = format!(
        "#!/bin/sh\nexec {BINARY} serve --conf {} --listen \"$5\"\n",
        conf.display()
    );
    for (program, script) in [
        ("bin/cargo", "#!/bin/sh\n"),
        ("bin/cmake", "#!/bin/sh\n"),
        ("debug/portcullis", &*serve),
    ] {
        folder.write(program, script);
        let path = folder.path().join(program);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).expect("permissions");
    }
    let path = format!(
        "{}:{}",
        folder.path().join("bin").display(),
        std::env::var("PATH").expect("a path")
    );
    // A shell that runs tests in the background lets them ignore the signal.
    let mut command = Command::new("env");
    command.args([
        "--default-signal=INT",
        "make",
        "run",
        &format!("PORT={port}"),
    ]);
    command.current_dir(root()).process_group(0);
    command
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", folder.path())
        .env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL");
    Process::spawn(&mut command)
}

fn press_ctrl_c(make: &Process) {
    let line = format!("kill -s INT -- -{}", make.pid());
    assert!(
        Command::new("bash")
            .args(["-c", &line])
            .status()
            .expect("a shell")
            .success()
    );
}

#[test]
fn make_run_ends_by_ctrl_c_after_its_requests() {
    run(async {
        let (mock, gate, folder) = (Mock::start().await, Gate::new(), Folder::new(&[]));
        mock.always(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..3)
                .event(finish("stop"))
                .done(),
        );
        let address = free_port();
        let mut make = make_run(&folder, &mock, address.port());
        let printed = |make: &Process| {
            format!(
                "{}{}",
                String::from_utf8_lossy(&make.stdout()),
                make.stderr()
            )
        };
        let logged = async |make: &Process, text: &str| {
            eventually(text, || printed(make).contains(text).then_some(())).await;
        };
        logged(&make, "Press Ctrl-C to stop it.").await;
        let text = printed(&make);
        let (_, steps) = text.split_once("Portcullis serves").expect("the steps");
        let (steps, _) = steps.split_once("Ctrl-C").expect("the last step");
        assert!(
            steps.lines().count() <= 5
                && steps.contains(&format!("portcullis try http://{address} --key -")),
            "{text}"
        );
        let mut connection = Connection::plain(address, None).await;
        connection.send(post(&chat_stream("m"))).await;
        let mut head = connection.head().await.expect("a head");
        while content_of(&connection.event(&mut head).await.expect("a word").data).is_empty() {}
        press_ctrl_c(&make);
        logged(&make, "stopping on a signal: 1 exchange runs").await;
        // The shell of the recipe has heard it too by the time that new callers are refused.
        eventually("new callers are refused", || {
            std::net::TcpStream::connect(address).is_err().then_some(())
        })
        .await;
        gate.open();
        connection.rest(&mut head).await;
        assert_eq!(head.content(), "w0 w1 w2 ", "it is not cut");
        assert!(make.wait(PATIENCE).is_some(), "{}", printed(&make));
        assert!(
            !printed(&make).contains("***") && printed(&make).contains("stopped"),
            "{}",
            printed(&make)
        );
        // Who presses it again does not want to wait, and that is no error either.
        let gate = Gate::new();
        mock.always(Script::sse().words(0..1).wait(&gate).done());
        let mut make = make_run(&folder, &mock, address.port());
        logged(&make, "Press Ctrl-C to stop it.").await;
        let mut connection = Connection::plain(address, None).await;
        connection.send(post(&chat_stream("m"))).await;
        connection.head().await.expect("a head");
        press_ctrl_c(&make);
        logged(&make, "stopping on a signal: 1 exchange runs").await;
        press_ctrl_c(&make);
        assert!(make.wait(PATIENCE).is_some(), "{}", printed(&make));
        assert!(
            !printed(&make).contains("***") && printed(&make).contains("stopped"),
            "{}",
            printed(&make)
        );
    });
}
