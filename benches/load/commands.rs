//! The commands that start what is measured beside the mock, with its configuration.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::mock;
use crate::row::{MODULES, Row};
use crate::subject::{CALLER_KEY, KEY_VARIABLE, World, program};

/// Where a subject runs: its folder and ports, and the upstream.
pub struct Place<'a> {
    pub folder: &'a Path,
    pub port: SocketAddr,
    /// For metrics or administration.
    pub admin: SocketAddr,
    pub upstream: SocketAddr,
    pub world: &'a World,
}

/// Configures the gateway with everything on: keys, catalog, metrics, ledger, an access log in a
/// file.
pub fn portcullis(place: &Place<'_>) -> Result<Command, String> {
    let folder = place.folder;
    let server = format!(
        "listen: [{{ address: \"{}\" }}]\nadmin: {{ address: \"{}\" }}\nworkers: {}\ndrain: {{ grace: 1s }}\n\
         limits: {{ connections: 20000 }}\nlog: {{ format: json, level: info, access: \"{dir}/access.log\" }}\n\
         ledger: {{ path: \"{dir}/ledger.sqlite\" }}\n",
        place.port,
        place.admin,
        place.world.workers,
        dir = folder.display(),
    );
    write(&folder.join("conf/server.yaml"), &server)?;
    write(&folder.join("conf/catalog.yaml"), &catalog(place)?)?;
    fs::create_dir_all(folder.join("conf/catalog.d")).map_err(|e| e.to_string())?;
    let mut command = Command::new(program());
    command
        .args(["serve", "--conf"])
        .arg(folder.join("conf"))
        .env(KEY_VARIABLE, mock::KEY);
    Ok(command)
}

fn catalog(place: &Place<'_>) -> Result<String, String> {
    let models: String = place
        .world
        .models()
        .iter()
        .map(|model| catalog_entry(model))
        .collect();
    let key = place.folder.join("key");
    write(&key, CALLER_KEY)?;
    let key = fs::File::open(&key).map_err(|e| e.to_string())?;
    let hash = Command::new(program())
        .args(["key", "hash"])
        .stdin(key)
        .output()
        .map_err(|e| e.to_string())?;
    Ok(format!(
        "accounts:\n  mock: {{ dialect: openai, base_url: \"http://{upstream}/v1\", key: {{ env: {KEY_VARIABLE} }} }}\n\
         \x20 claude: {{ dialect: anthropic, base_url: \"http://{upstream}/v1\", key: {{ env: {KEY_VARIABLE} }} }}\nmodels:\n{models}\
         callers:\n  bench: {{ keys: {{ load: {{ hash: \"{}\" }} }} }}\n",
        String::from_utf8_lossy(&hash.stdout).trim(),
        upstream = place.upstream,
    ))
}

fn catalog_entry(model: &str) -> String {
    let account = if model.starts_with("claude-") {
        "claude"
    } else {
        "mock"
    };
    format!("  bench-{model}: {{ targets: [{{ account: {account}, model: mock-{model} }}] }}\n")
}

pub fn bare(place: &Place<'_>) -> Result<Command, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command
        .arg("bare")
        .args([place.port, place.upstream].map(|address| address.to_string()))
        .args([CALLER_KEY, mock::KEY])
        .arg(place.world.workers.to_string());
    Ok(command)
}

/// Configures nginx to do the core of a gateway's work in Lua: it checks the key, reads the JSON of
/// the body, changes the model's name and the key. It logs nothing.
pub fn lua(place: &Place<'_>) -> Result<Command, String> {
    let folder = place.folder;
    let dir = folder.display();
    let modules: String = MODULES
        .iter()
        .map(|module| format!("load_module {module};\n"))
        .collect();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|of| format!("  {of}_temp_path {dir}/{of};\n"))
        .collect();
    let models: String = place
        .world
        .models()
        .iter()
        .map(|model| format!("[\"bench-{model}\"] = \"mock-{model}\", "))
        .collect();
    let conf = format!(
        "{modules}daemon off;\nworker_processes {};\npid {dir}/nginx.pid;\nerror_log {dir}/error.log warn;\n\
         events {{ worker_connections 32768; }}\nhttp {{\n  access_log off;\n{paths}  keepalive_requests 10000000;\n\
         \x20 client_max_body_size 32m;\n  client_body_buffer_size 2m;\n  lua_load_resty_core off;\n  init_by_lua_block {{\n\
         \x20   json = require \"cjson.safe\"\n    names = {{ {models} }}\n  }}\n\
         \x20 upstream mock {{ server {}; keepalive 1024; keepalive_requests 10000000; }}\n\
         \x20 server {{\n    listen {} backlog=4096;\n    location /v1/ {{\n      access_by_lua_block {{\n\
         \x20       if ngx.var.http_authorization ~= \"Bearer {CALLER_KEY}\" then return ngx.exit(401) end\n\
         \x20       ngx.req.read_body()\n        local body = json.decode(ngx.req.get_body_data() or \"\")\n\
         \x20       local name = body and names[body.model]\n        if not name then return ngx.exit(404) end\n\
         \x20       body.model = name\n        ngx.req.set_body_data(json.encode(body))\n      }}\n\
         \x20     proxy_pass http://mock;\n      proxy_http_version 1.1;\n      proxy_buffering off;\n      proxy_read_timeout 120s;\n\
         \x20     proxy_set_header Connection \"\";\n      proxy_set_header Authorization \"Bearer {}\";\n    }}\n  }}\n}}\n",
        place.world.workers,
        place.upstream,
        place.port,
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
    Ok(command)
}

/// Configures LiteLLM without a database: its master key is the only key. One process a worker.
/// Its core in Rust is on; where callers and upstream speak Messages it has an effect.
pub fn litellm(place: &Place<'_>) -> Result<Command, String> {
    let models: String = place
        .world
        .models()
        .iter()
        .map(|model| litellm_entry(model, place.upstream))
        .collect();
    let conf = format!(
        "model_list:\n{models}litellm_settings: {{ telemetry: false, num_retries: 0, request_timeout: 120, \
         use_chat_completions_url_for_anthropic_messages: true }}\n\
         general_settings: {{ master_key: {CALLER_KEY} }}\n"
    );
    let path = place.folder.join("litellm.yaml");
    write(&path, &conf)?;
    let bin = Row::LiteLlm.tools().join("bin");
    let mut command = Command::new(bin.join("litellm"));
    command
        .arg("--config")
        .arg(path)
        .args(["--telemetry", "False"]);
    command.args([
        "--host",
        "127.0.0.1",
        "--port",
        &place.port.port().to_string(),
    ]);
    command.args(["--num_workers", &place.world.workers.to_string()]);
    // A worker that takes more than five seconds to start would be started anew, without an end.
    command.args(["--timeout_worker_healthcheck", "120"]);
    // It asks no other server for prices and the like.
    for name in ["MODEL_COST_MAP", "BLOG_POSTS", "ANTHROPIC_BETA_HEADERS"] {
        command.env(format!("LITELLM_LOCAL_{name}"), "True");
    }
    command
        .env("LITELLM_MODE", "PRODUCTION")
        .env("LITELLM_RUST", "true")
        .env("LITELLM_LOG", "ERROR");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    Ok(command)
}

fn litellm_entry(model: &str, upstream: SocketAddr) -> String {
    let (kind, path) = if model.starts_with("claude-") {
        ("anthropic", "")
    } else {
        ("openai", "/v1")
    };
    format!(
        "  - model_name: bench-{model}\n    litellm_params: {{ model: {kind}/mock-{model}, api_base: \"http://{upstream}{path}\", \
         api_key: {}, rust: true }}\n",
        mock::KEY
    )
}

/// Configures one of the routers for workers of inference, with the mock as its one worker. All
/// three take these arguments, and send the caller's key on.
pub fn router(row: Row, place: &Place<'_>) -> Result<Command, String> {
    let mut command = Command::new(row.tools().join("bin").join(row.name()));
    if row != Row::VllmRouter {
        command.arg("launch");
    }
    command.args([
        "--host",
        "127.0.0.1",
        "--port",
        &place.port.port().to_string(),
    ]);
    command.args(["--worker-urls", &format!("http://{}", place.upstream)]);
    command.args(["--api-key", mock::KEY, "--policy", "round_robin"]);
    // A worker that could not be asked at once is asked again within a second, and not in 30.
    command.args(["--worker-startup-check-interval", "1"]);
    let warnings = if row == Row::VllmRouter {
        "warning"
    } else {
        "warn"
    };
    command.args(["--log-level", warnings, "--prometheus-host", "127.0.0.1"]);
    command.args(["--prometheus-port", &place.admin.port().to_string()]);
    command.env("TOKIO_WORKER_THREADS", place.world.workers.to_string());
    Ok(command)
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}
