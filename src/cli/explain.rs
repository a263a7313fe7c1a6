//! `portcullis explain` prints what would become of a request, and why. It calls nobody, and reads
//! no secret except the key of the admin listener, if it asks that for the state.

mod doors;
pub(super) mod status;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;

use super::{ExplainArgs, tell, write};
use crate::catalog::load::{Loaded, Secrets, load, shown};
use crate::exchange::lists;
use crate::explain::{Input, Report, Settings, apart, explain, front, headers, is_id, render};
use dialects::front::Asked;

/// Runs the command. Exits with 0 if an account would be asked, with 1 if none would, and with 2 if
/// that cannot be found out.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    if let Some(model) = &args.doors {
        return match doors::explain(&args.conf.folder(), model, args.json) {
            Ok(text) if write(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(why) => {
                tell(&why);
                ExitCode::from(2)
            }
        };
    }
    match explained(args) {
        Ok(report) => {
            let text = if args.json { report.json() } else { render(&report) };
            let is_written = write(&text).is_ok();
            if is_written && report.is_tried() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            tell(&why);
            ExitCode::from(2)
        }
    }
}

fn explained(args: &ExplainArgs) -> Result<Report, String> {
    // The text is not repeated: it may be the secret.
    let key = args.key.as_deref().unwrap_or_default();
    if !is_id(key) {
        return Err("--key: this is not the id of a key. Write the name that the logs show, such as acme/prod, and never the secret"
            .to_owned());
    }
    let front = front(&args.door).map_err(|why| format!("--door: {why}"))?;
    let written = args.headers.iter().map(|header| header.split_once(':').unwrap_or_default());
    let headers = headers(written, front).map_err(|why| format!("--header: {why}"))?;
    let conf = args.conf.folder();
    let Loaded { server, catalog, .. } = loaded(&conf)?;
    let instance = args.status.as_deref().map(|from| status::read(from, &conf)).transpose()?;
    let body = body(args.request.as_deref().unwrap_or(Path::new("-")), server.limits.request_body)?;
    let asked = Asked { model: args.model.clone(), stream: args.stream };
    let snapshot = apart(catalog, server.proxies.clone());
    lists::recall(&server, &snapshot);
    Ok(explain(
        key,
        &Input {
            settings: Settings::from(&server),
            snapshot,
            is_counted: false,
            instance,
            headers,
            front,
            asked,
            body,
        },
    ))
}

/// Loads the configuration.
fn loaded(conf: &Path) -> Result<Loaded, String> {
    load(conf, Secrets::Assume).map_err(|problems| {
        format!(
            "{problems}\n{}: with these errors no request can be explained. `portcullis check` prints them, too",
            shown(conf)
        )
    })
}

/// Reads the request's body. Of a body that is too large, it reads one byte more than the limit.
fn body(path: &Path, limit: usize) -> Result<Bytes, String> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut body = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut body)
    } else {
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut body))
    };
    read.map_err(|why| format!("the file with the request cannot be read: {why}"))?;
    Ok(body.into())
}
