//! A [`Link`] is one connection to the store: opened, logged in, with the scripts loaded. Commands
//! go over it in the order in which they are sent.
//!
//! An error from here quotes the server. [`trouble`](super::trouble) makes a line for operators
//! from it, without secrets.

use crate::conf::config::{Address, Store};
use crate::tls::trust::{Distrust, Trust};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, Value};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The longest time to open a connection. A server that needs longer counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An open connection. It closes when it is dropped.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// The digest of `admit.lua`, by which the script is called.
    pub(super) admit: String,
    /// The digest of `beat.lua`.
    pub(super) beat: String,
    _driver: JoinSet<()>,
}

impl Link {
    /// Opens a connection.
    pub(super) async fn open(settings: &Store, tls: Option<&Trust>) -> Result<Link, String> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, open_link(&settings.address, tls)).await;
        opened.unwrap_or_else(|_| {
            let or = if settings.address.tls {
                "; if the store has no TLS, write redis:// instead of rediss://"
            } else {
                ""
            };
            Err(format!(
                "no connection could be opened within {CONNECT_TIMEOUT:?}{or}"
            ))
        })
    }

    /// Sends all commands, and returns an answer to each.
    pub(super) async fn send(
        &mut self,
        batch: &Pipeline,
        timeout: Duration,
    ) -> Result<Vec<Value>, String> {
        let count = batch.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let answers = tokio::time::timeout(
            timeout,
            self.connection.send_packed_commands(batch, 0, count),
        )
        .await;
        let answers = answers
            .map_err(|_| format!("it did not answer within {timeout:?}"))?
            .map_err(|error| error_text(&error))?;
        if answers.len() == count {
            Ok(answers)
        } else {
            Err("it sent more or fewer answers than there were commands".to_owned())
        }
    }
}

/// Returns the error that an answer holds, if it is one.
pub(super) fn error_of(value: &Value) -> Option<String> {
    let Value::ServerError(error) = value else {
        return None;
    };
    Some(format!(
        "{} {}",
        error.code(),
        error.details().unwrap_or_default()
    ))
}

/// Returns a call of a script.
pub(super) fn script_call(script: &str, keys: &[String], arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

/// Returns a call of a script that is not loaded, over one key.
pub(super) fn call_once(script: &str, key: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(1).arg(key);
    command
}

async fn open_link(address: &Address, tls: Option<&Trust>) -> Result<Link, String> {
    let tcp = TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(|error| error.to_string())?;
    tcp.set_nodelay(true).map_err(|error| error.to_string())?;
    match tls {
        None => log_in(address, tcp).await,
        Some(tls) => {
            let distrusted = |Distrust { why, .. }| format!("TLS: {why}");
            log_in(
                address,
                tls.connect(&address.host, tcp).await.map_err(distrusted)?,
            )
            .await
        }
    }
}

async fn log_in(
    address: &Address,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Link, String> {
    let mut login = RedisConnectionInfo::default()
        .set_db(address.db)
        .set_skip_set_lib_name();
    if let Some(username) = &address.username {
        login = login.set_username(username);
    }
    if let Some(password) = &address.password {
        login = login.set_password(password.expose());
    }
    // Our own time limit is shorter, and depends on what is sent.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let (mut connection, driver) = MultiplexedConnection::new_with_config(&login, stream, config)
        .await
        .map_err(|error| error_text(&error))?;
    let mut running = JoinSet::new();
    running.spawn(driver);
    // A server that wants a password closes the connection over a long command, before it says why.
    redis::cmd("PING")
        .exec_async(&mut connection)
        .await
        .map_err(|error| error_text(&error))?;
    let admit = load(&mut connection, include_str!("admit.lua")).await?;
    let beat = load(&mut connection, include_str!("beat.lua")).await?;
    Ok(Link {
        connection,
        admit,
        beat,
        _driver: running,
    })
}

/// Gives a script to the store. Returns the name by which it is called.
async fn load(connection: &mut MultiplexedConnection, script: &str) -> Result<String, String> {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(script);
    let loaded = command.query_async::<String>(connection).await;
    loaded.map_err(|error| error_text(&error))
}

/// Returns the server's own words for an error, if the server has sent some.
fn error_text(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(_), None) | (None, _) => error.to_string(),
    }
}
