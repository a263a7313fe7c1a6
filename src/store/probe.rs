//! A look at the store from outside: it is opened and logged in to as a gateway does it, and asked
//! what it is.

use super::link::{Link, call_once, error_of};
use super::trouble::redacted_line;
use crate::conf::config::Store;
use crate::tls::trust::Trust;
use redis::{Pipeline, Value};
use std::time::Duration;

/// The longest wait for the answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Writes and deletes what the scripts write: a text and a hash with an end. Returns the time.
const PROBE: &str = "redis.call('SET', KEYS[1], '1') redis.call('DEL', KEYS[1]) \
                     redis.call('HSET', KEYS[1], 'a', '1') redis.call('PEXPIRE', KEYS[1], 1000) \
                     redis.call('DEL', KEYS[1]) local t = redis.call('TIME') \
                     return t[1] * 1000 + math.floor(t[2] / 1000)";

/// The store's answers. An answer that the user in the store's URL may not have is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// The store's clock, in milliseconds of Unix time.
    pub clock_ms: Option<u64>,
    /// The program, with its version: `Redis 7.0.15`.
    pub program: Option<String>,
    /// The first number of the version of Redis that it is, or is compatible with.
    pub major: Option<u32>,
    /// The bytes that it may keep; 0 for no bound.
    pub max_memory: Option<u64>,
    /// Its policy when they are full.
    pub policy: Option<String>,
}

/// Opens the store and asks it. An error is a line for operators, without secrets.
pub async fn probe_store(settings: &Store) -> Result<StoreFacts, String> {
    let tls = settings
        .address
        .tls
        .then(|| Trust::new(settings.ca.as_deref().map(str::as_bytes), &[]));
    let probing = async {
        let mut link = Link::open(settings, tls.as_ref()).await?;
        let mut batch = Pipeline::new();
        // The braces are the hash tag of Redis Cluster.
        batch.add_command(call_once(
            PROBE,
            &format!("{{{}}}:doctor-{:016x}", settings.prefix, fastrand::u64(..)),
        ));
        batch.cmd("INFO");
        let answers = link.send(&batch, ANSWER_TIMEOUT).await?;
        let [probed, info] = answers.as_slice() else {
            return Err("it sent too few answers".to_owned());
        };
        if let Some(error) = error_of(probed) {
            return Err(error);
        }
        Ok(read_facts(probed, info))
    };
    let facts: Result<StoreFacts, String> = probing.await;
    facts.map_err(|why| redacted_line(&settings.address, &why))
}

fn read_facts(probed: &Value, info: &Value) -> StoreFacts {
    let info = redis::from_redis_value_ref::<String>(info).unwrap_or_default();
    let lines: Vec<(&str, &str)> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let line = |name: &str| lines.iter().find(|(field, _)| *field == name);
    let field = |name: &str| line(name).map(|(_, value)| value.trim());
    StoreFacts {
        clock_ms: if let Value::Int(ms) = probed {
            u64::try_from(*ms).ok()
        } else {
            None
        },
        program: field("valkey_version")
            .map(|version| format!("Valkey {version}"))
            .or_else(|| field("redis_version").map(|version| format!("Redis {version}"))),
        major: field("redis_version").and_then(|version| version.split('.').next()?.parse().ok()),
        max_memory: field("maxmemory").and_then(|bytes| bytes.parse().ok()),
        policy: field("maxmemory_policy").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_itself() {
        let info = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let seen = read_facts(
            &Value::Int(7),
            &info(
                "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.0.1\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n",
            ),
        );
        let expected = StoreFacts {
            clock_ms: Some(7),
            program: Some("Valkey 8.0.1".to_owned()),
            major: Some(7),
            max_memory: Some(100),
            policy: Some("allkeys-lru".to_owned()),
        };
        assert_eq!(seen, expected);
        assert_eq!(read_facts(&Value::Nil, &Value::Nil), StoreFacts::default());
        assert_eq!(
            read_facts(&Value::Nil, &info("redis_version:6.0\n"))
                .program
                .as_deref(),
            Some("Redis 6.0")
        );
    }
}
