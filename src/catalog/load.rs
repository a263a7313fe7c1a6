//! Loading reads the files of the configuration folder once, and puts them together.
//!
//! No message repeats a name that a file holds: a secret may stand where the place of the secret
//! should. The result comes with everything that was read, or looked for in vain, so that a later
//! change of it can be seen.

mod references;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::files::{
    FileList, LARGEST_NAMED, list_catalog_files, no_file, read_regular_file, too_large_catalog,
};
use super::resolve::{Documents, find_faults, resolve_catalog, resolve_with_documents};
use super::texts::{FileText, Texts, is_source};
use super::{Catalog, PUBLISHED_KEY};
use crate::base::problem::{self, Problem, Problems, in_column, unless_secret};
use crate::conf::config::{self, Server};
use crate::conf::secret_ref::Reference;
use crate::conf::yaml;
use crate::limits::Limits;
use crate::tls::is_pipe;
use references::{ReferenceReader, unreadable_message};

const SERVER_FILE: &str = "server.yaml";
/// The folders that may hold the configuration, if none is given.
const DEFAULT_FOLDERS: [&str; 2] = ["conf", "/etc/portcullis"];

/// The choice between secrets and stand-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Secrets are read, as `serve` does.
    Read,
    /// Stand-ins take the place of secrets, and of CA and certificate files: for checks where they
    /// are absent.
    StandIns,
    /// Secrets are read if they can be, and stand-ins take the place of the others: for commands
    /// that need one of them.
    ReadIfPossible,
}

/// Returns the text that a reference names, or the reason why there is none.
pub fn look_up_reference(reference: Reference<'_>) -> Result<String, String> {
    ReferenceReader::new(Path::new(""), Secrets::Read, Texts::new()).look_up(reference)
}

/// Everything that `serve` starts from.
#[derive(Debug)]
pub struct Loaded {
    /// `server.yaml`.
    pub server: Server,
    /// `catalog.yaml` with all of `catalog.d`.
    pub catalog: Catalog,
    /// The texts that the catalog was read from: its files, and the secret and CA files that it
    /// names.
    pub texts: Texts,
    /// The environment variables that the catalog names and that were read.
    pub variables: BTreeSet<String>,
    /// The number of files of the folder that were read.
    pub count: usize,
}

/// A catalog, or the errors that prevent it, with everything that was read. A file that was not
/// there is listed too, because it may be the one that mends an error.
#[derive(Debug)]
pub struct ReadCatalog {
    /// The catalog, or its errors.
    pub catalog: Result<Catalog, Problems>,
    /// The paths that were read, or looked for in vain: the catalog's files, and the secret and CA
    /// files that it names.
    pub texts: Texts,
    variables: BTreeSet<String>,
    count: usize,
}

/// Returns the folder to read: the one given, or the first that exists of `./conf` and
/// `/etc/portcullis`.
pub fn choose_folder(given: Option<&Path>) -> PathBuf {
    match given {
        Some(given) => given.to_owned(),
        None => PathBuf::from(
            DEFAULT_FOLDERS
                .into_iter()
                .find(|folder| Path::new(folder).is_dir())
                .unwrap_or("conf"),
        ),
    }
}

/// Reads everything, and reports everything that is wrong in all files at once.
pub fn load_folder(conf: &Path, secrets: Secrets) -> Result<Loaded, Problems> {
    check_folder(conf)?;
    let has_server = conf.join(SERVER_FILE).exists();
    let server = read_server(conf, secrets);
    let ReadCatalog {
        catalog,
        texts,
        variables,
        count,
    } = read_catalog(conf, secrets);
    match (server, catalog) {
        (Ok(server), Ok(mut catalog)) => {
            catalog.warnings.splice(
                0..0,
                server
                    .warnings
                    .iter()
                    .cloned()
                    .chain(warn_forgotten_limits(&server, &catalog))
                    .chain(warn_missing_traces(&server, &catalog)),
            );
            Ok(Loaded {
                server,
                catalog,
                texts,
                variables,
                count: count + usize::from(has_server),
            })
        }
        (Ok(server), Err(Problems(errors, warnings))) => {
            Err(Problems(errors, [server.warnings, warnings].concat()))
        }
        (Err(Problems(errors, warnings)), Ok(catalog)) => {
            Err(Problems(errors, [catalog.warnings, warnings].concat()))
        }
        (Err(server), Err(catalog)) => Err(Problems(
            [server.0, catalog.0].concat(),
            [server.1, catalog.1].concat(),
        )),
    }
}

/// Warns of limits that a restart empties.
fn warn_forgotten_limits(server: &Server, catalog: &Catalog) -> Option<Problem> {
    let of_callers = catalog.callers().iter().map(|caller| &caller.limits);
    let of_keys = catalog.keys().flat_map(|key| {
        let of_models = key.model_limits.iter().map(|(_, limits)| limits);
        of_models.chain([&key.limits])
    });
    let mut limits = of_callers.chain(of_keys);
    let forgets = !server.ledger.enabled && server.store.is_none() && limits.any(Limits::by_date);
    let message =
        "is false, so the gateway counts daily and monthly limits from zero after each restart";
    forgets.then(|| Problem {
        path: "ledger.enabled".to_owned(),
        ..Problem::of_file(SERVER_FILE.to_owned(), message)
    })
}

/// Warns of accounts that ask for traces although there are none.
fn warn_missing_traces(server: &Server, catalog: &Catalog) -> Option<Problem> {
    const SHOWN: usize = 8;
    let accounts = catalog.accounts().iter();
    let mut names = accounts
        .filter(|account| account.enabled && account.added_fields.trace && server.traces.is_none())
        .map(|account| problem::quote_safely(&account.id));
    let mut shown: Vec<String> = names.by_ref().take(SHOWN).collect();
    let more = names.count();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    let message = format!(
        "is not written, or switched off, so `trace: true` has no effect, and these accounts get no `traceparent`: {}",
        shown.join(", ")
    );
    (!shown.is_empty()).then(|| Problem {
        path: "traces".to_owned(),
        ..Problem::of_file(SERVER_FILE.to_owned(), message)
    })
}

/// Returns the folder's name for messages. The name of a folder that is not there is not shown if
/// it may be a secret.
pub fn display_folder(conf: &Path) -> String {
    let name = conf.display().to_string();
    if conf.is_dir() || name.split('/').all(is_folder_name) {
        name
    } else {
        "--conf".to_owned()
    }
}

/// Returns whether a part of a path is plainly the name of a folder: of short words in lower case,
/// and with few digits.
fn is_folder_name(part: &str) -> bool {
    const MAX_LENGTH: usize = 24;
    const LONGEST_WORD: usize = 10;
    const DIGITS: usize = 4;
    part.len() <= MAX_LENGTH
        && part
            .split(['.', '_', '-'])
            .all(|word| word.len() <= LONGEST_WORD)
        && part.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
        })
        && part.bytes().filter(u8::is_ascii_digit).count() <= DIGITS
        && unless_secret(part) == part
}

/// Refuses a folder that is not there, so that no single file is reported as missing in it.
pub(super) fn check_folder(conf: &Path) -> Result<(), Problems> {
    if fs::metadata(conf).is_err_and(|why| why.kind() == io::ErrorKind::NotFound) {
        let message = "this folder does not exist: use `--conf DIR` to name the folder with catalog.yaml, or \
                       make one with `portcullis init`";
        return Err(Problems::one(Problem::of_file(
            display_folder(conf),
            message,
        )));
    }
    Ok(())
}

/// Reads `server.yaml`. Without that file, everything has its default. The relative paths of
/// certificates are joined to the folder.
pub fn read_server(conf: &Path, secrets: Secrets) -> Result<Server, Problems> {
    check_folder(conf)?;
    let path = conf.join(SERVER_FILE);
    let bytes = match read_regular_file(&path, yaml::LARGEST) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => b"{}".to_vec(),
        read => read.map_err(|why| Problems::one(no_file(&path, &why)))?,
    };
    let text = decode_utf8(SERVER_FILE, bytes).map_err(Problems::one)?;
    let mut references = ReferenceReader::new(conf, secrets, Texts::default());
    let mut server = config::parse_server(SERVER_FILE, &text, &mut |reference| {
        references.look_up(reference)
    })?;
    let mut private = references.private;
    private.extend(
        server
            .listen
            .iter()
            .filter_map(|listen| Some(conf.join(&listen.tls.as_ref()?.key))),
    );
    server
        .warnings
        .extend(open_to_all(conf, &private, HOLDS_SECRET));
    let mut problems = Vec::new();
    for (index, tls) in server
        .listen
        .iter_mut()
        .enumerate()
        .filter_map(|(index, listen)| Some((index, listen.tls.as_mut()?)))
    {
        for (field, path, mark) in [
            ("cert", &mut tls.cert, "CERTIFICATE-----"),
            ("key", &mut tls.key, "PRIVATE KEY-----"),
        ] {
            *path = conf.join(&*path);
            let (wrong, list) = match read_regular_file(path, LARGEST_NAMED) {
                _ if secrets != Secrets::Read => continue,
                Ok(pem) if String::from_utf8_lossy(&pem).contains(mark) => continue,
                Ok(_) => (
                    format!("the file is not PEM with a `-----BEGIN … {mark}`"),
                    &mut problems,
                ),
                // The other listeners need not wait for somebody to put the file there.
                Err(_) if is_pipe(path) => {
                    let message = "the file is a pipe, which is not read: the listener waits until it is a regular file";
                    (message.to_owned(), &mut server.warnings)
                }
                Err(why) => (unreadable_message(conf, path, &why), &mut problems),
            };
            let root = yaml::Path::Root.key("listen");
            let listener = root.index(index);
            let tls = listener.key("tls");
            let field_path = tls.key(field);
            let tree = yaml::parse(&text).ok().map(|(tree, _)| tree);
            let found = tree.as_ref().and_then(|tree| tree.find(&field_path));
            let message = found.map_or_else(
                || wrong.clone(),
                |found| in_column(&wrong, found.node.column),
            );
            let line = found.map(|found| found.line);
            list.push(Problem {
                file: SERVER_FILE.to_owned(),
                line,
                path: field_path.to_string(),
                message,
            });
        }
    }
    if problems.is_empty() {
        Ok(server)
    } else {
        Err(Problems(problems, server.warnings))
    }
}

/// Returns the address of the admin listener. Another error in `server.yaml` is no obstacle: the
/// file is read once, at the start, and may have been edited since.
pub fn admin_address(conf: &Path) -> Result<SocketAddr, Problems> {
    let server = read_server(conf, Secrets::StandIns);
    server
        .map(|server| server.admin.address)
        .or_else(|problems| {
            let bytes = read_regular_file(&conf.join(SERVER_FILE), yaml::LARGEST).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.and_then(|text| config::admin_address(&text))
                .ok_or(problems)
        })
}

/// Returns the `catalog_size` of the folder's `server.yaml`. Another error in that file is no
/// obstacle.
pub fn catalog_size(conf: &Path) -> usize {
    let bytes = read_regular_file(&conf.join(SERVER_FILE), yaml::LARGEST).unwrap_or_default();
    config::catalog_size(&String::from_utf8_lossy(&bytes))
}

/// Reads `catalog.yaml` and all of `catalog.d`, with the files that they name.
pub fn read_catalog(conf: &Path, secrets: Secrets) -> ReadCatalog {
    catalog_within(conf, secrets, catalog_size(conf))
}

/// Reads the same, if all files of the catalog together have at most `size` bytes.
pub fn catalog_within(conf: &Path, secrets: Secrets, size: usize) -> ReadCatalog {
    match check_folder(conf) {
        Ok(()) => assemble_catalog(
            ReferenceReader::new(conf, secrets, Texts::default()),
            list_catalog_files(conf),
            size,
        ),
        Err(problems) => ReadCatalog {
            catalog: Err(problems),
            texts: Texts::default(),
            variables: BTreeSet::new(),
            count: 0,
        },
    }
}

/// Makes the catalog for a reload from texts that are known to be whole. Only files that the
/// catalog names and that were never looked at are read. All files of the catalog together may have
/// `size` bytes.
pub fn of_texts(conf: &Path, known: Texts, size: usize) -> ReadCatalog {
    let listed = list_catalog_files(conf).map(|FileList { passed_over, .. }| {
        let there = known
            .iter()
            .filter(|(_, version)| version.text != FileText::Missing)
            .map(|(path, _)| path);
        let main = conf.join("catalog.yaml");
        let mut paths = vec![main.clone()];
        paths.extend(
            there
                .filter(|path| is_source(conf, path) && **path != main)
                .cloned(),
        );
        FileList { paths, passed_over }
    });
    assemble_catalog(
        ReferenceReader::new(conf, Secrets::Read, known),
        listed,
        size,
    )
}

fn assemble_catalog(
    mut references: ReferenceReader<'_>,
    listed: Result<FileList, Problem>,
    size: usize,
) -> ReadCatalog {
    let conf = references.conf;
    let (listed, no_list) = match listed {
        Ok(listed) => (listed, None),
        Err(problem) => (
            FileList {
                paths: vec![conf.join("catalog.yaml")],
                passed_over: Vec::new(),
            },
            Some(problem),
        ),
    };
    let count = listed.paths.len();
    let not_read = "is ignored: only files whose names end in .yaml are read";
    let passed_over = listed.passed_over.iter();
    let mut warnings: Vec<_> = passed_over
        .map(|path| Problem::of_file(display_name(conf, path), not_read))
        .collect();
    let (sources, unreadable) = read_all(conf, listed.paths, size, |path, limit| {
        references.read(path, limit)
    });
    let (paths, texts): (Vec<_>, Vec<_>) = sources
        .into_iter()
        .map(|source| (source.path, (source.name, source.text)))
        .unzip();
    let mut problems: Vec<_> = no_list.into_iter().chain(unreadable).collect();
    let resolved = if problems.is_empty() {
        resolve_catalog(&texts, &mut |reference| references.look_up(reference))
    } else {
        Err(find_faults(&texts))
    };
    let catalog = match resolved {
        Ok(mut catalog) => {
            for (file, (_, text)) in texts.iter().enumerate() {
                let Some(path) = paths.get(file) else {
                    continue;
                };
                if catalog.literal_secrets.contains(&file) {
                    references.private.insert(path.clone());
                } else if holds_guessable_hash(text) {
                    references.guessable.insert(path.clone());
                }
            }
            warnings.extend(open_to_all(conf, &references.private, HOLDS_SECRET));
            warnings.extend(open_to_all(conf, &references.guessable, HOLDS_HASH));
            catalog.warnings.extend(warnings);
            Ok(catalog)
        }
        Err(Problems(more, warned)) => {
            problems.extend(more);
            warnings.extend(open_to_all(conf, &references.private, HOLDS_SECRET));
            Err(Problems(problems, [warned, warnings].concat()))
        }
    };
    ReadCatalog {
        catalog,
        texts: references.read_texts,
        variables: references.variables,
        count,
    }
}

/// A file of the catalog.
#[derive(Clone)]
pub struct CatalogFile {
    /// The file's path.
    pub path: PathBuf,
    /// The file's name in messages: `catalog.d/10-acme.yaml`.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// Reads the files that the catalog is made of, in their order.
pub fn read_sources(conf: &Path) -> Result<Vec<CatalogFile>, Problems> {
    let (sources, problems) = read_all(
        conf,
        list_catalog_files(conf).map_err(Problems::one)?.paths,
        catalog_size(conf),
        read_regular_file,
    );
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(Problems(problems, Vec::new()))
    }
}

/// Reads files of the catalog. Together they may have at most `size` bytes.
fn read_all(
    conf: &Path,
    paths: Vec<PathBuf>,
    size: usize,
    mut read: impl FnMut(&Path, usize) -> io::Result<Vec<u8>>,
) -> (Vec<CatalogFile>, Vec<Problem>) {
    let mut left = size;
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for path in &paths {
        let name = display_name(conf, path);
        let text = match read(path, left) {
            Ok(bytes) => {
                left = left.saturating_sub(bytes.len());
                decode_utf8(&name, bytes)
            }
            Err(why) if why.kind() == io::ErrorKind::FileTooLarge => {
                problems.push(too_large_catalog(path, &paths, size));
                // What is wrong with the other files is no matter yet.
                break;
            }
            Err(why) => Err(no_file(path, &why)),
        };
        match text {
            Ok(text) => files.push(CatalogFile {
                path: path.clone(),
                name,
                text,
            }),
            Err(problem) => problems.push(problem),
        }
    }
    (files, problems)
}

/// Makes the catalog of these files, without reading any secret.
/// The documents of files that did not change since the last time are `known`.
pub fn resolve_assumed(
    conf: &Path,
    sources: &[CatalogFile],
    known: &mut Documents,
) -> Result<Catalog, Problems> {
    let texts: Vec<_> = sources
        .iter()
        .map(|source| (source.name.clone(), source.text.clone()))
        .collect();
    let mut references = ReferenceReader::new(conf, Secrets::StandIns, Texts::default());
    resolve_with_documents(&texts, Some(known), &mut |reference| {
        references.look_up(reference)
    })
}

fn decode_utf8(name: &str, bytes: Vec<u8>) -> Result<String, Problem> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error
            .as_bytes()
            .get(..error.utf8_error().valid_up_to())
            .unwrap_or_default();
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        let message = match error.as_bytes() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16: save the file as UTF-8",
            _ => "is not UTF-8: save the file as UTF-8",
        };
        Problem {
            line: Some(line),
            ..Problem::of_file(name.to_owned(), message)
        }
    })
}

/// Returns whether a text holds the hash of a key that somebody could guess. The hash of the
/// published key does not count. Neither do the hashes that `key new` and `key rotate` write: they
/// stand next to the beginning of a secret of 256 random bits.
fn holds_guessable_hash(text: &str) -> bool {
    const MARK: &str = "sha256:";
    let published = super::raw::Digest(super::resolve::sha256_of(PUBLISHED_KEY)).to_string();
    text.lines()
        .filter(|line| line.contains(MARK) && !line.trim_start().starts_with('#'))
        .any(|line| {
            let note = line.rsplit_once('#').map(|(_, note)| note.trim());
            let id = note.and_then(|note| note.strip_prefix("sk-")?.strip_suffix("-…"));
            let made_here = id
                .is_some_and(|id| id.len() == 11 && id.bytes().all(|b| b.is_ascii_alphanumeric()));
            let hashes = line.matches(MARK).count();
            !(made_here && hashes == 1) && line.matches(&published).count() < hashes
        })
}

const HOLDS_SECRET: &str =
    "holds a secret, and every user of this machine can read it: run `chmod o-r` on it";
const HOLDS_HASH: &str = "holds the hash of a key that could be guessed, and every user of this machine can read it: run `chmod o-r` on it, or \
                          let `portcullis key new` make the key";

/// Warns of files that hold something private and can be read by everybody.
fn open_to_all(
    conf: &Path,
    private: &BTreeSet<PathBuf>,
    message: &'static str,
) -> impl Iterator<Item = Problem> {
    let can_be_read = |file: fs::Metadata| file.permissions().mode() & 0o004 != 0;
    let open = private
        .iter()
        .filter(move |path| fs::metadata(path).is_ok_and(can_be_read));
    open.map(move |path| Problem::of_file(display_name(conf, path), message))
}

/// Returns a file's name in the folder, such as `catalog.d/10-acme.yaml`. The name of a file
/// elsewhere is its whole path.
fn display_name(conf: &Path, path: &Path) -> String {
    path.strip_prefix(conf)
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests;
