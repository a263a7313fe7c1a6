//! A row is one of those that are measured in turn: what it is called, which version it is, and
//! what it does with a request. No two of them do the same, so the report says it of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Plan;
use crate::subject::program;

/// Where Debian's packages have Lua for nginx (`libnginx-mod-http-lua` and `lua-cjson`).
pub const MODULES: [&str; 2] = [
    "/usr/lib/nginx/modules/ndk_http_module.so",
    "/usr/lib/nginx/modules/ngx_http_lua_module.so",
];
/// The versions of all crates, among them the bare proxy's Pingora.
const LOCK: &str = include_str!("../../Cargo.lock");

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    Direct,
    Portcullis,
    Bare,
    Lua,
    LiteLlm,
    Smg,
    VllmRouter,
    SglangRouter,
}

/// Other gateways, which `setup.sh` installs.
const OTHERS: [Row; 4] = [Row::LiteLlm, Row::Smg, Row::VllmRouter, Row::SglangRouter];

impl Row {
    /// Returns the rows that this machine can measure. In a quick run there are no other gateways,
    /// since some take a minute to start, unless they are asked for.
    pub fn installed(plan: &Plan) -> Vec<Row> {
        let lua = MODULES.iter().all(|module| Path::new(module).exists());
        let mut rows = vec![Row::Direct, Row::Portcullis, Row::Bare];
        rows.extend(lua.then_some(Row::Lua));
        if plan.others {
            let there = |row: &Row| row.tools().join("installed").exists();
            rows.extend(OTHERS.into_iter().filter(there));
        }
        rows
    }

    pub fn name(self) -> &'static str {
        match self {
            Row::Direct => "direct",
            Row::Portcullis => "portcullis",
            Row::Bare => "bare Pingora",
            Row::Lua => "nginx with Lua",
            Row::LiteLlm => "litellm",
            Row::Smg => "smg",
            Row::VllmRouter => "vllm-router",
            Row::SglangRouter => "sglang-router",
        }
    }

    /// Says what is done with a request, so that nothing unequal is compared silently.
    pub fn work(self) -> &'static str {
        match self {
            Row::Direct => "nothing is between callers and mock: the least of this machine",
            Row::Portcullis => {
                "key by its hash, model renamed, upstream's key set, limits, breakers, metrics, ledger, access log to a file"
            }
            Row::Bare => "key compared, upstream's key set; no body is read, no metrics, no log",
            Row::Lua => {
                "key compared, JSON decoded and written anew, model renamed, upstream's key set; no metrics, no log"
            }
            Row::LiteLlm => {
                "master key compared (no database), model renamed, upstream's key set, answer decoded and written anew; no log. \
                 Its core in Rust is on (`rust: true`, `LITELLM_RUST`), and serves where callers and upstream speak Messages"
            }
            Row::Smg => {
                "key compared and sent on, JSON decoded and written anew, metrics; model not renamed, no log below warnings. \
                 It knows one model of its worker: no streams here"
            }
            Row::VllmRouter => {
                "key not compared but sent on, JSON decoded and written anew, metrics; model not renamed, no log below warnings"
            }
            Row::SglangRouter => {
                "key compared and sent on, JSON decoded and written anew, metrics; model not renamed, no log below warnings"
            }
        }
    }

    /// Returns whether this is a gateway of others. It may lack what a scenario needs, or not
    /// start here.
    pub fn is_other(self) -> bool {
        OTHERS.contains(&self)
    }

    /// Returns whether callers' names of models differ from the upstream's.
    pub fn renames(self) -> bool {
        matches!(self, Row::Portcullis | Row::Lua | Row::LiteLlm)
    }

    /// Returns whether callers send the upstream's own key.
    pub fn passes_key(self) -> bool {
        matches!(
            self,
            Row::Direct | Row::Smg | Row::VllmRouter | Row::SglangRouter
        )
    }

    /// Returns whether this can answer in another format than the upstream's.
    pub fn translates(self) -> bool {
        matches!(self, Row::Portcullis) || self.is_other()
    }

    /// Returns the longest time that the start may take.
    pub fn start_timeout(self) -> Duration {
        Duration::from_secs(if self.is_other() { 180 } else { 15 })
    }

    /// Returns the folder that `setup.sh` has installed it in.
    pub fn tools(self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("../tools/bench")
            .join(self.name())
    }

    pub fn version(self) -> String {
        match self {
            Row::Direct => String::new(),
            Row::Portcullis => first_line(Command::new(program()).arg("--version")),
            Row::Bare => LOCK
                .split_once("name = \"pingora\"\nversion = \"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map_or(String::new(), |(version, _)| format!("pingora {version}")),
            Row::Lua => first_line(Command::new("nginx").arg("-v")),
            Row::LiteLlm | Row::Smg | Row::VllmRouter | Row::SglangRouter => {
                let pinned = fs::read_to_string(self.tools().join("installed"));
                pinned.unwrap_or_default().trim().to_owned()
            }
        }
    }
}

/// Returns the first line that a command writes.
fn first_line(command: &mut Command) -> String {
    let Ok(output) = command.output() else {
        return "version unknown".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}
