//! `examples/proxies`: nginx and Caddy of Debian in front of a gateway, with the files as they are
//! but for addresses and certificates. `tests/proxies/setup.sh` unpacks both programs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::canary::KEY;
use crate::support::client::{Connection, content_of, post};
use crate::support::folder::Folder;
use crate::support::gateway::free_port;
use crate::support::process::Process;
use crate::support::script::{finish, usage};
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually_blocking, root, run,
};

/// Where a proxy serves: its address, and a folder with its certificate.
struct Site {
    address: SocketAddr,
    ca: Ca,
    folder: Folder,
}

/// A proxy in front of the gateway.
struct Proxy {
    site: Site,
    _process: Process,
}

impl Site {
    fn new() -> Site {
        let (ca, folder) = (Ca::new(), Folder::new(&[]));
        let leaf = ca.leaf();
        folder.write("gateway.pem", &leaf.cert);
        folder.write("gateway.key", &leaf.key);
        Site {
            address: free_port(),
            ca,
            folder,
        }
    }

    /// Returns the folder's path, as a configuration names it.
    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }
}

#[test]
fn nginx_holds_no_stream_back() {
    run(passes_streams_and_callers(start_nginx));
}

#[test]
fn caddy_holds_no_stream_back() {
    run(passes_streams_and_callers(start_caddy));
}

/// Each word is at the caller before the next one is sent; who leaves ends the upstream; the access
/// line has the caller's own address.
async fn passes_streams_and_callers(start: impl Fn(&Gateway, Site) -> Proxy) {
    let mock = Mock::start().await;
    let gateway = Gateway::with(Catalog::over(&mock))
        .server("trusted_proxies: [127.0.0.1]")
        .start()
        .await;
    let proxy = start(&gateway, Site::new());
    let gate = Gate::new();
    mock.push(
        Script::sse()
            .words(0..1)
            .wait(&gate)
            .words(1..3)
            .event(finish("stop"))
            .event(usage(3))
            .done(),
    );
    let mut connection = proxy.connect().await;
    connection.send(post(&chat_stream("m"))).await;
    let mut answer = connection.head().await.expect("a head");
    while content_of(&connection.event(&mut answer).await.expect("a word").data).is_empty() {}
    assert_eq!(answer.content(), "w0 ", "the rest waits at the gate");
    gate.open();
    connection.rest(&mut answer).await;
    assert_eq!(answer.content(), "w0 w1 w2 ");
    assert!(
        answer.text().ends_with("data: [DONE]\n\n"),
        "{}",
        answer.text()
    );

    mock.push(Script::sse().words(0..1).stall());
    let mut connection = proxy.connect().await;
    connection.send(post(&chat_stream("m"))).await;
    let mut cut = connection.head().await.expect("a head");
    while content_of(&connection.event(&mut cut).await.expect("a word").data).is_empty() {}
    drop(connection);
    mock.left(1).await;

    let output = Command::new("curl")
        .args(["-sS", "--noproxy", "*", "-k", "--interface", "127.0.0.2"])
        .args(["-H", &format!("authorization: Bearer {KEY}")])
        .args(["-d", &chat("m").to_string()])
        .arg(format!(
            "https://{}/v1/chat/completions",
            proxy.site.address
        ))
        .output()
        .expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Hello from the mock."), "{text}");
    let lines = gateway.access_lines(3).await;
    let addresses: Vec<_> = lines.iter().map(|line| line["address"].clone()).collect();
    assert!(
        addresses.contains(&json!("127.0.0.2")),
        "the caller's own address is in a line: {lines:?}"
    );
}

impl Proxy {
    async fn connect(&self) -> Connection {
        Connection::tls(self.site.address, &self.site.ca, &["http/1.1"], None).await
    }
}

fn start_nginx(gateway: &Gateway, site: Site) -> Proxy {
    let (address, here) = (site.address, site.path());
    let example = example(
        "nginx.conf",
        &[
            ("listen 443 ssl", format!("listen {address} ssl")),
            ("127.0.0.1:8080", gateway.address.to_string()),
            ("/etc/nginx/", format!("{here}/")),
        ],
    );
    site.folder.write(
        "nginx.conf",
        format!(
            "master_process off;\npid {here}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n\
             access_log off;\nclient_body_temp_path {here}/body;\nproxy_temp_path {here}/proxy;\n\
             fastcgi_temp_path {here}/fastcgi;\nuwsgi_temp_path {here}/uwsgi;\n\
             scgi_temp_path {here}/scgi;\n{example}\n}}\n"
        ),
    );
    let mut command = Command::new(program("usr/sbin/nginx"));
    command
        .args(["-g", "daemon off;", "-e", "stderr", "-c"])
        .arg(site.folder.path().join("nginx.conf"));
    Proxy {
        _process: serve(command, address),
        site,
    }
}

fn start_caddy(gateway: &Gateway, site: Site) -> Proxy {
    let (address, here) = (site.address, site.path());
    let block = format!(
        "https://:{} {{\n\ttls {here}/gateway.pem {here}/gateway.key\n",
        address.port()
    );
    let example = example(
        "Caddyfile",
        &[
            ("gateway.example.com {\n", block),
            ("127.0.0.1:8080", gateway.address.to_string()),
        ],
    );
    let options = "{\n\tadmin off\n\tauto_https off\n}\n";
    site.folder
        .write("Caddyfile", format!("{options}{example}"));
    let mut command = Command::new(program("usr/bin/caddy"));
    command
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(site.folder.path().join("Caddyfile"))
        .env("HOME", site.folder.path());
    Proxy {
        _process: serve(command, address),
        site,
    }
}

/// Returns the text of an example with these texts replaced, each of which must be there.
fn example(name: &str, replaced: &[(&str, String)]) -> String {
    let path = root().join("examples/proxies").join(name);
    let text = std::fs::read_to_string(path).expect("an example");
    replaced.iter().fold(text, |text, (written, here)| {
        assert!(text.contains(written), "{name} has {written:?}");
        text.replace(written, here)
    })
}

/// Starts a proxy, and waits until it accepts connections.
fn serve(mut command: Command, address: SocketAddr) -> Process {
    let mut process = Process::spawn(&mut command);
    let accepts = |process: &mut Process| {
        assert!(process.exited().is_none(), "{}", process.stderr());
        std::net::TcpStream::connect(address).map_err(|why| why.to_string())
    };
    eventually_blocking("the proxy accepts connections", || accepts(&mut process))
        .expect("it accepts");
    process
}

/// Returns where `tests/proxies/setup.sh` has unpacked a program.
fn program(path: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let program = target
        .expect("the target folder")
        .join("proxies")
        .join(path);
    assert!(
        program.exists(),
        "{} is not there: run tests/proxies/setup.sh",
        program.display()
    );
    program
}
