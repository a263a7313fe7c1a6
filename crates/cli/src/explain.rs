//! `portcullis explain` prints what would become of a request, and why. It calls no upstream, and
//! reads no secret except the key of the admin listener, if it asks that for the state.

mod doors;
pub(super) mod status;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;

use super::{ExplainArgs, http, print_error, write_stdout};
use dialects::front::PathRequest;
use portcullis::base::secret::Secret;
use portcullis::catalog::files::read_regular_file;
use portcullis::catalog::load::{Loaded, Secrets, display_folder, load_folder};
use portcullis::exchange::lists;
use portcullis::explain::{
    Input, Report, Settings, explain_request, find_front, is_id, read_headers, render_report,
    standalone_snapshot,
};
use status::Sender;

/// The exit code if an account would be asked as far as is known, but the running gateway does not
/// say what is used of the limits, or shows nothing of its state.
const UNSURE: u8 = 3;

/// Runs the command. Exits with 0 if an account would be asked, with 1 if none would, with 2 if
/// that cannot be found out, and with 3 if the gateway does not say all that it depends on.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    if let Some(model) = &args.doors {
        return match doors::explain_doors(&args.conf.folder(), model, args.json) {
            Ok(text) if write_stdout(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(why) => {
                print_error(&why);
                ExitCode::from(2)
            }
        };
    }
    match make_report(args) {
        Ok(report) => {
            let text = if args.json {
                report.json()
            } else {
                render_report(&report)
            };
            let is_written = write_stdout(&text).is_ok();
            match (is_written && report.is_tried(), report.is_unsure()) {
                (true, false) => ExitCode::SUCCESS,
                (true, true) => ExitCode::from(UNSURE),
                (false, _) => ExitCode::FAILURE,
            }
        }
        Err(why) => {
            print_error(&why);
            ExitCode::from(2)
        }
    }
}

fn make_report(args: &ExplainArgs) -> Result<Report, String> {
    // The text is not repeated: it may be the secret.
    let key = args.key.as_deref().unwrap_or_default();
    if !is_id(key) {
        return Err("--key: this is not the id of a key. Write the name that the logs show, such as acme/prod, and never the secret"
            .to_owned());
    }
    let front = find_front(&args.door).map_err(|why| format!("--door: {why}"))?;
    let written = args
        .headers
        .iter()
        .map(|header| header.split_once(':').unwrap_or_default());
    let headers = read_headers(written, front).map_err(|why| format!("--header: {why}"))?;
    let conf = args.conf.folder();
    let Loaded {
        server, catalog, ..
    } = load_configuration(&conf)?;
    let admin_key = args.admin_key.as_deref().map(read_admin_key).transpose()?;
    let (instance, hidden) = match args
        .status
        .as_deref()
        .map(|from| status::read_status(from, &conf, admin_key.clone()))
    {
        None => (None, None),
        Some(Ok(instance)) => (Some(instance), None),
        Some(Err(no)) if no.is_hidden => (None, Some(no.why)),
        Some(Err(no)) => return Err(format!("--status: {}", no.why)),
    };
    let body = read_body(
        args.request.as_deref().unwrap_or(Path::new("-")),
        server.limits.request_body,
    )?;
    let asked = PathRequest {
        model: args.model.clone(),
        stream: args.stream,
    };
    let snapshot = standalone_snapshot(catalog, server.proxies.clone());
    lists::load_kept_lists(&server, &snapshot);
    let settings = Settings::from(&server);
    let input = Input {
        settings,
        snapshot,
        is_counted: false,
        instance,
        headers,
        front,
        asked,
        body,
    };
    let mut report = explain_request(key, &input);
    if let Some(why) = hidden {
        // A gateway that does not show its state does not explain either.
        report.miss_state(&why);
        return Ok(report);
    }
    // A saved page does not say what is used of the limits.
    if let Some(from) = args.status.as_ref().filter(|from| from.contains("://")) {
        let sender = Sender {
            key,
            door: &args.door,
        };
        let keys = http::key_lookup(&conf, admin_key);
        match status::ask_gateway(from, sender, &input, &keys) {
            Ok(live) => report.take_limits(&live),
            Err(why) => report.miss_limits(&why),
        }
    }
    Ok(report)
}

/// Reads the file with the key of the admin listener.
fn read_admin_key(path: &Path) -> Result<Secret, String> {
    const LARGEST_KEY: usize = 64 << 10;
    let bytes = read_regular_file(path, LARGEST_KEY)
        .map_err(|why| format!("--admin-key: the file cannot be read: {why}"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| "--admin-key: the file is not UTF-8".to_owned())?;
    Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
}

/// Loads the configuration.
fn load_configuration(conf: &Path) -> Result<Loaded, String> {
    load_folder(conf, Secrets::StandIns).map_err(|problems| {
        format!(
            "{problems}\n{}: with these errors no request can be explained. `portcullis check` prints them, too",
            display_folder(conf)
        )
    })
}

/// Reads the request's body. Of a body that is too large, it reads one byte more than the limit.
fn read_body(path: &Path, limit: usize) -> Result<Bytes, String> {
    let max_bytes = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut body = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(max_bytes).read_to_end(&mut body)
    } else {
        File::open(path).and_then(|file| file.take(max_bytes).read_to_end(&mut body))
    };
    read.map_err(|why| format!("the file with the request cannot be read: {why}"))?;
    Ok(body.into())
}
