//! What a service manager such as systemd is told through `NOTIFY_SOCKET`, and `portcullis ready`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::operation::put_pipe;
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, free_port, ready};
use crate::support::process::Process;
use crate::support::script::finish;
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat_stream, eventually, run,
};

/// Returns the next message.
fn heard(socket: &Socket) -> String {
    let socket = &socket.socket;
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    let length = socket
        .recv(&mut buffer)
        .expect("a message for the service manager");
    String::from_utf8(buffer[..length].to_vec()).expect("text")
}

/// Returns the next message that is not a sign of life.
fn next_message(socket: &Socket) -> String {
    loop {
        let message = heard(socket);
        if message != "WATCHDOG=1" {
            return message;
        }
    }
}

/// Returns a socket with the name that `NOTIFY_SOCKET` has for it.
fn socket(is_abstract: bool) -> (Socket, String) {
    let name = format!(
        "portcullis-test-{}-{}",
        std::process::id(),
        free_port().port()
    );
    if is_abstract {
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        return (Socket { socket, path: None }, format!("@{name}"));
    }
    // The name of a socket has at most 107 bytes, so it lies in the system's folder.
    let path = std::env::temp_dir().join(name);
    let (socket, name) = (
        UnixDatagram::bind(&path).unwrap(),
        path.to_str().unwrap().to_owned(),
    );
    let path = Some(path);
    (Socket { socket, path }, name)
}

/// A socket that leaves no file behind.
struct Socket {
    socket: UnixDatagram,
    path: Option<PathBuf>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[test]
fn starts_that_wait_for_certificates_are_not_given_up() {
    let (socket, name) = socket(false);
    let (ca, folder, [address, admin]) = (Ca::new(), Folder::new(&[]), [free_port(), free_port()]);
    let leaf = ca.leaf();
    let listen =
        format!("listen: [{{ address: '{address}', tls: {{ cert: cert.pem, key: key.pem }} }}]");
    folder.write(
        "server.yaml",
        format!("{listen}\nadmin: {{ address: '{admin}' }}\nledger: {{ enabled: false }}\n"),
    );
    folder.write("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n");
    folder.write("cert.pem", &leaf.cert);
    let key = folder.path().join("key.pem");
    put_pipe(&key);
    let mut process = Process::spawn(
        Command::new(BINARY)
            .args(["serve", "--conf", "."])
            .current_dir(folder.path())
            .env("NOTIFY_SOCKET", &name),
    );
    let starting = "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=starting: the log says what is awaited";
    assert_eq!(
        [next_message(&socket), next_message(&socket)],
        [starting; 2]
    );
    std::fs::remove_file(&key).unwrap();
    std::fs::write(&key, &leaf.key).unwrap();
    ready(&mut process, admin).unwrap();
    let ready =
        std::iter::repeat_with(|| next_message(&socket)).find(|message| message != starting);
    assert!(ready.unwrap().starts_with("READY=1\n"));
}

#[test]
fn a_service_manager_hears_of_serving_and_stopping() {
    for is_abstract in [false, true] {
        run(async move {
            let (socket, name) = socket(is_abstract);
            let (mock, gate) = (Mock::start().await, Gate::new());
            mock.always(
                Script::sse()
                    .words(0..1)
                    .wait(&gate)
                    .words(1..3)
                    .event(finish("stop"))
                    .done(),
            );
            let setup = Gateway::with(Catalog::over(&mock)).env("NOTIFY_SOCKET", &name);
            let mut gateway = setup.server("drain: { grace: 20s }").start().await;
            assert_eq!(
                next_message(&socket),
                "READY=1\nSTATUS=serving 1 model, catalog 1"
            );
            assert_eq!(
                gateway.admin("/readyz").0,
                200,
                "READY=1 comes when it serves"
            );
            gateway
                .swap(Catalog::over(&mock).model("other", &["a"]))
                .await;
            assert_eq!(next_message(&socket), "STATUS=serving 2 models, catalog 2");
            let (mut stream, mut head) = gateway.open(&chat_stream("m")).await;
            eventually("it runs", || {
                (gateway.status()["exchanges"] == 1).then_some(())
            })
            .await;
            gateway.signal("TERM");
            assert_eq!(
                next_message(&socket),
                "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\nSTATUS=stopping"
            );
            assert_eq!(next_message(&socket), "STATUS=stopping: 1 exchange runs");
            gate.open();
            stream.rest(&mut head).await;
            assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
            drop(std::fs::remove_file(name));
        });
    }
}

#[test]
fn a_watchdog_is_fed_while_serving_and_draining() {
    run(async {
        let (socket, name) = socket(true);
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..2).stall());
        let start = Instant::now();
        let setup = Gateway::with(Catalog::over(&mock))
            .env("NOTIFY_SOCKET", &name)
            .env("WATCHDOG_USEC", "200000");
        let mut gateway = setup.server("drain: { grace: 5s }").start().await;
        assert!(heard(&socket).starts_with("READY=1\n"));
        for _ in 0..5 {
            assert_eq!(heard(&socket), "WATCHDOG=1");
        }
        // Since before the first: on a busy machine the others may wait in the socket already.
        assert!(
            start.elapsed() >= Duration::from_millis(400),
            "{:?}",
            start.elapsed()
        );
        let (_stream, _head) = gateway.open(&chat_stream("m")).await;
        gateway.signal("TERM");
        while !heard(&socket).starts_with("STOPPING=1\n") {}
        let mut fed = 0;
        while fed < 3 {
            fed += usize::from(heard(&socket) == "WATCHDOG=1");
        }
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
    });
}

#[test]
fn a_service_manager_out_of_reach_is_no_obstacle() {
    run(async {
        let mock = Mock::start().await;
        for (name, log) in [
            ("/does/not/exist", "could not be told"),
            ("vsock:2:1234", "the socket must begin with / or @"),
        ] {
            let mut gateway = Gateway::with(Catalog::over(&mock))
                .env("NOTIFY_SOCKET", name)
                .start()
                .await;
            gateway.logged(log).await;
            gateway.signal("TERM");
            assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
            assert_eq!(
                gateway.log().matches("NOTIFY_SOCKET").count(),
                1,
                "it is logged once"
            );
        }
    });
}

#[test]
fn ready_asks_the_folders_listener_or_a_url() {
    let (callers, admin) = (free_port(), free_port());
    let server = format!(
        "listen: [{{ address: \"0.0.0.0:{}\" }}]\nadmin: {{ address: \"0.0.0.0:{}\" }}\nledger: {{ enabled: false }}\n",
        callers.port(),
        admin.port()
    );
    let folder = Folder::new(&[
        ("server.yaml", &server),
        ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
    ]);
    let conf = folder.path().to_str().unwrap().to_owned();
    let ready_of = |arguments: &[&str]| {
        let ran = folder.run(&[&["ready"], arguments].concat());
        (ran.status.code(), ran.stdout, ran.stderr)
    };
    let (code, _, why) = ready_of(&["--conf", &conf]);
    assert!(
        code == Some(1) && why.contains("does not answer: Connection refused"),
        "{why}"
    );
    let mut process = folder.start(&["serve"]);
    ready(&mut process, admin).unwrap();
    let yes = (Some(0), "ready\n".to_owned(), String::new());
    assert_eq!(ready_of(&["--conf", &conf]), yes);
    for url in [
        format!("http://{callers}"),
        format!("http://{callers}/readyz"),
        format!("http://{admin}/livez"),
    ] {
        assert_eq!(ready_of(&["--url", &url]), yes, "{url}");
    }
    for (url, expected) in [
        (format!("http://{admin}/nothing"), "answers with HTTP 404"),
        (format!("https://{callers}"), "must begin with http://"),
        (format!("http://me@{callers}"), "must begin with http://"),
    ] {
        let (code, said, why) = ready_of(&["--url", &url]);
        assert!(
            code == Some(1) && said.is_empty() && why.contains(expected),
            "{url}: {said}{why}"
        );
    }
    // server.yaml is read once: an edit that has an error does not make the gateway unhealthy.
    for (edited, expected) in [
        (format!("{server}nonsense: 1\nattempts: many\n"), true),
        ("admin: { address: nowhere }\n".to_owned(), false),
        ("admin: [".to_owned(), false),
    ] {
        folder.write("server.yaml", &edited);
        assert_eq!(
            ready_of(&["--conf", &conf]).0 == Some(0),
            expected,
            "{edited}"
        );
    }
    assert!(process.exited().is_none());
}
