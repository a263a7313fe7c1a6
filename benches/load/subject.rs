//! A subject is what is measured: the mock alone, the gateway, a bare proxy on Pingora, or nginx
//! with Lua, if that is installed.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Plan;
use crate::callers::{Kind, Load};
use crate::mock::{self, Mock};
use crate::process::Process;

/// The gateway under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");
/// The variable in which the catalog finds the upstream's key.
pub const KEY_VARIABLE: &str = "PORTCULLIS_LOAD_UPSTREAM_KEY";
const CALLER_KEY: &str = "sk-load-caller-0001";
const PATIENCE: Duration = Duration::from_secs(15);
/// Where Debian's packages have Lua for nginx (`libnginx-mod-http-lua` and `lua-cjson`).
const MODULES: [&str; 2] = [
    "/usr/lib/nginx/modules/ndk_http_module.so",
    "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];

/// What all subjects are started with.
pub struct World {
    /// The names of the mock's models that scenarios need, without the `mock-`.
    pub wanted: Vec<String>,
    /// The number of threads or processes that serve.
    pub workers: usize,
}

impl World {
    /// Returns the models that are served: those wanted, and those that everybody needs.
    fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> = self
            .wanted
            .iter()
            .map(String::as_str)
            .chain(["plain", "held", "stream-5-2"])
            .collect();
        models.sort_unstable();
        models.dedup();
        models
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    Direct,
    Portcullis,
    Bare,
    Lua,
}

impl Row {
    pub fn installed() -> Vec<Row> {
        let lua = MODULES.iter().all(|module| Path::new(module).exists());
        let mut rows = vec![Row::Direct, Row::Portcullis, Row::Bare];
        rows.extend(lua.then_some(Row::Lua));
        rows
    }

    pub fn name(self) -> &'static str {
        match self {
            Row::Direct => "direct",
            Row::Portcullis => "portcullis",
            Row::Bare => "bare Pingora",
            Row::Lua => "nginx with Lua",
        }
    }

    /// Returns the name of a model at this subject. Not all subjects give models other names.
    fn model(self, model: &str) -> String {
        format!(
            "{}-{model}",
            if matches!(self, Row::Portcullis | Row::Lua) {
                "bench"
            } else {
                "mock"
            }
        )
    }
}

/// A subject that is running.
pub struct Subject {
    pub row: Row,
    pub address: SocketAddr,
    /// The process; `None` for the mock itself.
    pub process: Option<Process>,
    /// The subject's own folder, which is removed at the end.
    pub folder: PathBuf,
}

impl Subject {
    /// Starts a subject, and waits for its first right answer.
    pub async fn start(
        row: Row,
        mock: &Mock,
        folder: &Path,
        world: &World,
    ) -> Result<Subject, String> {
        let folder = folder.join(row.name().replace(' ', "-"));
        let failed = |why: String| format!("{}: {why}", row.name());
        // Somebody else may take a port between our check and the start.
        let mut tries = 3;
        loop {
            tries -= 1;
            fs::create_dir_all(&folder).map_err(|e| failed(e.to_string()))?;
            let mut subject = Subject {
                row,
                address: mock.address,
                process: None,
                folder: folder.clone(),
            };
            if row != Row::Direct {
                let [port, admin] = free_ports().map_err(|e| failed(e.to_string()))?;
                subject.address = port;
                let mut command = match row {
                    Row::Lua => lua(&folder, port, mock.address, world),
                    Row::Bare => bare(port, mock.address, world),
                    _ => portcullis(&folder, [port, admin], mock.address, world),
                }
                .map_err(failed)?;
                subject.process =
                    Some(Process::start(row.name(), &mut command, &folder).map_err(failed)?);
            }
            match subject.ready().await {
                Err(why) if why.to_ascii_lowercase().contains("in use") && tries > 0 => {}
                Err(why) => return Err(failed(why)),
                Ok(()) => return Ok(subject),
            }
        }
    }

    async fn ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let load = self.load("plain", Kind::Plain, 1, 0);
        loop {
            let Err(why) = load.once().await else {
                return Ok(());
            };
            if let Some(said) = self.process.as_mut().and_then(Process::ended) {
                return Err(said);
            }
            if start.elapsed() > PATIENCE {
                return Err(format!(
                    "no right answer in {} s: {why}",
                    PATIENCE.as_secs()
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn warm_up(&self, plan: &Plan) {
        self.load("plain", Kind::Plain, 32, 0)
            .run(plan.time / 3)
            .await;
    }

    /// Returns the load of callers of this subject. The prompt is filled up to `prompt` bytes.
    pub fn load(&self, model: &str, kind: Kind, callers: usize, prompt: usize) -> Load {
        let key = if self.row == Row::Direct {
            mock::KEY
        } else {
            CALLER_KEY
        };
        let filler = "The quick brown fox jumps over the lazy dog, and \\\"nobody\\\" minds.\\n";
        let body = format!(
            "{{\"model\":\"{}\",\"messages\":[{{\"role\":\"system\",\"content\":\"You are a helpful assistant. Answer briefly and do not \
             make anything up.\"}},{{\"role\":\"user\",\"content\":\"Explain in two sentences why a reverse proxy should keep its \
             connections to the upstream. {}\"}}],\"temperature\":0.2,\"max_tokens\":256{}}}",
            self.row.model(model),
            filler.repeat(prompt / filler.len()),
            if matches!(kind, Kind::Stream { .. }) {
                ",\"stream\":true"
            } else {
                ""
            }
        );
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        Load {
            to: self.address,
            request: request.into_bytes().into(),
            kind,
            callers,
        }
    }

    /// Writes a request that asks whether a model is served.
    pub fn look_up(&self, model: &str) -> Vec<u8> {
        format!(
            "GET /v1/models/{model} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {CALLER_KEY}\r\n\r\n",
            self.address
        )
        .into_bytes()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.process = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Configures the gateway with everything on: keys, catalog, metrics, ledger, an access log in a
/// file.
fn portcullis(
    folder: &Path,
    [port, admin]: [SocketAddr; 2],
    upstream: SocketAddr,
    world: &World,
) -> Result<Command, String> {
    let server = format!(
        "listen: [{{ address: \"{port}\" }}]\nadmin: {{ address: \"{admin}\" }}\nworkers: {}\ndrain: {{ grace: 1s }}\n\
         limits: {{ connections: 20000 }}\nlog: {{ format: json, level: info, access: \"{dir}/access.log\" }}\n\
         ledger: {{ path: \"{dir}/ledger.sqlite\" }}\n",
        world.workers,
        dir = folder.display(),
    );
    write(&folder.join("conf/server.yaml"), &server)?;
    write(
        &folder.join("conf/catalog.yaml"),
        &catalog(folder, upstream, world)?,
    )?;
    fs::create_dir_all(folder.join("conf/catalog.d")).map_err(|e| e.to_string())?;
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--conf"])
        .arg(folder.join("conf"))
        .env(KEY_VARIABLE, mock::KEY);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

fn catalog(folder: &Path, upstream: SocketAddr, world: &World) -> Result<String, String> {
    let account = |model: &str| {
        if model.starts_with("claude-") {
            "claude"
        } else {
            "mock"
        }
    };
    let target = |model: &&str| {
        format!(
            "  bench-{model}: {{ targets: [{{ account: {}, model: mock-{model} }}] }}\n",
            account(model)
        )
    };
    let models: String = world.models().iter().map(target).collect();
    let key = folder.join("key");
    write(&key, CALLER_KEY)?;
    let key = fs::File::open(&key).map_err(|e| e.to_string())?;
    let hash = Command::new(BINARY)
        .args(["key", "hash"])
        .stdin(key)
        .output()
        .map_err(|e| e.to_string())?;
    Ok(format!(
        "accounts:\n  mock: {{ dialect: openai, base_url: \"http://{upstream}/v1\", key: {{ env: {KEY_VARIABLE} }} }}\n\
         \x20 claude: {{ dialect: anthropic, base_url: \"http://{upstream}/v1\", key: {{ env: {KEY_VARIABLE} }} }}\nmodels:\n{models}\
         callers:\n  bench: {{ keys: {{ load: {{ hash: \"{}\" }} }} }}\n",
        String::from_utf8_lossy(&hash.stdout).trim()
    ))
}

fn bare(port: SocketAddr, upstream: SocketAddr, world: &World) -> Result<Command, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command
        .arg("bare")
        .args([port, upstream].map(|address| address.to_string()))
        .args([CALLER_KEY, mock::KEY]);
    command
        .arg(world.workers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}

/// Configures nginx to do the core of a gateway's work in Lua: it checks the key, reads the JSON of
/// the body, changes the model's name and the key. It logs nothing.
fn lua(
    folder: &Path,
    port: SocketAddr,
    upstream: SocketAddr,
    world: &World,
) -> Result<Command, String> {
    let dir = folder.display();
    let modules: String = MODULES
        .iter()
        .map(|module| format!("load_module {module};\n"))
        .collect();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|of| format!("  {of}_temp_path {dir}/{of};\n"))
        .collect();
    let models: String = world
        .models()
        .iter()
        .map(|model| format!("[\"bench-{model}\"] = \"mock-{model}\", "))
        .collect();
    let conf = format!(
        "{modules}daemon off;\nworker_processes {};\npid {dir}/nginx.pid;\nerror_log {dir}/error.log warn;\n\
         events {{ worker_connections 8192; }}\nhttp {{\n  access_log off;\n{paths}  keepalive_requests 10000000;\n\
         \x20 client_max_body_size 32m;\n  client_body_buffer_size 2m;\n  lua_load_resty_core off;\n  init_by_lua_block {{\n\
         \x20   json = require \"cjson.safe\"\n    names = {{ {models} }}\n  }}\n\
         \x20 upstream mock {{ server {upstream}; keepalive 1024; keepalive_requests 10000000; }}\n\
         \x20 server {{\n    listen {port} backlog=4096;\n    location /v1/ {{\n      access_by_lua_block {{\n\
         \x20       if ngx.var.http_authorization ~= \"Bearer {CALLER_KEY}\" then return ngx.exit(401) end\n\
         \x20       ngx.req.read_body()\n        local body = json.decode(ngx.req.get_body_data() or \"\")\n\
         \x20       local name = body and names[body.model]\n        if not name then return ngx.exit(404) end\n\
         \x20       body.model = name\n        ngx.req.set_body_data(json.encode(body))\n      }}\n\
         \x20     proxy_pass http://mock;\n      proxy_http_version 1.1;\n      proxy_buffering off;\n      proxy_read_timeout 120s;\n\
         \x20     proxy_set_header Connection \"\";\n      proxy_set_header Authorization \"Bearer {}\";\n    }}\n  }}\n}}\n",
        world.workers,
        mock::KEY
    );
    let path = folder.join("nginx.conf");
    write(&path, &conf)?;
    let mut command = Command::new("nginx");
    command
        .arg("-e")
        .arg(folder.join("start.log"))
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn free_ports() -> std::io::Result<[SocketAddr; 2]> {
    let (one, other) = (
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    );
    Ok([one.local_addr()?, other.local_addr()?])
}
