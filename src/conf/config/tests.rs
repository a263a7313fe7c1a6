use super::*;
use crate::base::secret::Secret;
use crate::conf::secret_ref::Reference;

fn read(name: &str, text: &str) -> Result<Server, Problems> {
    super::parse_server(name, text, &mut |reference| match reference {
        Reference::Env("REDIS_URL") => Ok("rediss://:s3cret@cache:6380".to_owned()),
        Reference::File("seal.key") => Ok("0123456789abcdef0123456789abcdef\n".to_owned()),
        Reference::File("short.key") => Ok("short\n".to_owned()),
        Reference::Ca("ca.pem") => Ok("-----BEGIN CERTIFICATE-----".to_owned()),
        Reference::Optional(_) => Ok(String::new()),
        Reference::Env(_) | Reference::File(_) | Reference::Ca(_) | Reference::Keys(_) => {
            Err("is not there".to_owned())
        }
    })
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    match read("server.yaml", text) {
        Ok(_) => assert!(expected.is_empty(), "{text}: no error"),
        Err(problems) => {
            let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), expected.len(), "{text}: {told:#?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(
                    told.starts_with(&format!("server.yaml:{expected}")),
                    "{text}: {told:?} is not {expected:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_not_written_has_the_documented_default() {
    let server = read("server.yaml", "{}").unwrap();
    let shipped = read("server.yaml", include_str!("../../../conf/server.yaml")).unwrap();
    assert_eq!(
        format!("{server:?}"),
        format!("{shipped:?}"),
        "conf/server.yaml writes out the defaults"
    );
    assert_eq!(
        format!("{server:?}"),
        "Server { listen: [Listen { address: 127.0.0.1:8080, h2c: false, tls: None }], admin: Admin { address: 127.0.0.1:9090, hosts: [], key: None, page: true }, workers: 0, attempts: 3, \
         limits: Bounds { request_body: 33554432, response_body: 67108864, event: 8388608, header_bytes: 32768, connections: 10000, \
         buffered_total: 1073741824, upload: 104857600, spool_total: 4294967296, catalog_size: 33554432 }, timeouts: ClientTimeouts { client_read: 30s, client_write: 30s, keepalive: 75s, commit_after: 10s, \
         comment: 15s }, drain: Drain { delay: 0ns, grace: 25s }, trusted_proxies: [], cors: [], log: Log { format: Auto, level: Info, \
         access: Stdout }, ledger: Ledger { enabled: true, path: \"data/ledger.sqlite\", retention: 7776000s }, list_refresh: 3600s, store: None, seal: [], item_cache: Memory, notify: None, traces: None, proxies: Proxies { https: None, http: None, exempt: Exempt([]), uses_environment: false }, series: SeriesBounds { has_caller: true, has_account: true, most_sets: 20000 }, warnings: [] }"
    );
}

#[test]
fn the_admin_listener_is_found_beside_errors() {
    let usual = Some("127.0.0.1:9090".parse().unwrap());
    for (text, expected) in [
        (
            "admin: { address: \"0.0.0.0:19090\", keys: 1 }\nattempts: many\n",
            Some("0.0.0.0:19090".parse().unwrap()),
        ),
        ("attempts: many\n", usual),
        ("admin: { page: maybe }\n", usual),
        ("admin: { address: nowhere }\n", None),
        ("admin: [1]\n", None),
        ("admin: [", None),
    ] {
        assert_eq!(admin_address(text), expected, "{text}");
    }
}

#[test]
fn what_is_written_is_read() {
    let server = read(
        "server.yaml",
        "listen:\n- {address: '[::1]:80', tls: {cert: a.pem, key: b.pem}}\n- {address: 0.0.0.0:81, h2c: true}\nadmin: {address: '127.0.0.1:82', hosts: [gw.example.com]}\n\
         workers: 2\nattempts: 5\nlimits: {request_body: 1KiB, connections: 1}\ntimeouts: {comment: 100ms}\ndrain: {delay: 1m}\n\
         trusted_proxies: [10.0.0.0/8, '::1']\ncors: {origins: ['*', 'HTTPS://App.example.com:443', 'http://localhost:3000']}\n\
         log: {format: text, level: off, access: ./a.log}\nledger: {enabled: false, path: /l, retention: 1d}\n",
    )
    .unwrap();
    assert_eq!(
        format!("{server:?}"),
        "Server { listen: [Listen { address: [::1]:80, h2c: false, tls: Some(ListenTls { cert: \"a.pem\", key: \"b.pem\" }) }, \
         Listen { address: 0.0.0.0:81, h2c: true, tls: None }], admin: Admin { address: 127.0.0.1:82, hosts: [\"gw.example.com\"], key: None, page: true }, workers: 2, attempts: 5, \
         limits: Bounds { request_body: 1024, response_body: 67108864, event: 8388608, header_bytes: 32768, connections: 1, \
         buffered_total: 1073741824, upload: 104857600, spool_total: 4294967296, catalog_size: 33554432 }, timeouts: ClientTimeouts { client_read: 30s, client_write: 30s, keepalive: 75s, commit_after: 10s, \
         comment: 100ms }, drain: Drain { delay: 60s, grace: 25s }, trusted_proxies: [Cidr { address: 10.0.0.0, bits: 8 }, \
         Cidr { address: ::1, bits: 128 }], cors: [\"*\", \"https://app.example.com\", \"http://localhost:3000\"], \
         log: Log { format: Text, level: Off, access: File(\"./a.log\") }, ledger: Ledger { enabled: false, path: \"/l\", retention: 86400s }, list_refresh: 3600s, store: None, seal: [], item_cache: Memory, notify: None, traces: None, proxies: Proxies { https: None, http: None, exempt: Exempt([]), uses_environment: false }, series: SeriesBounds { has_caller: true, has_account: true, most_sets: 20000 }, warnings: [] }"
    );
}

#[test]
fn f15_what_is_wrong_with_the_server() {
    check("", &["1: is empty: write `{}`"]);
    check("[]", &["1: must be a map of listen, admin"]);
    check("listen: []", &["1 listen: must list at least one address"]);
    check("listen: [{}]", &["1 listen[0].address: is missing"]);
    check(
        "listen: [{address: localhost:80}]",
        &["1 listen[0].address: must be an IP address and a port"],
    );
    check(
        "listen: [{address: 8080}]",
        &["1 listen[0].address: must be an IP address and a port"],
    );
    check(
        "listen:\n- {address: '127.0.0.1:80'}\n- {address: '127.0.0.1:80'}",
        &["3 listen[1].address: 127.0.0.1:80 is written twice"],
    );
    check(
        "listen: [{address: '127.0.0.1:0'}, {address: '127.0.0.1:0'}]",
        &[
            "1 listen[0].address: has port 0",
            "1 listen[1].address: has port 0",
        ],
    );
    check(
        "listen: [{address: '127.0.0.1:80', tls: {cert: a}}]",
        &["1 listen[0].tls.key: is missing"],
    );
    check(
        "listen: [{address: '127.0.0.1:80', h2c: true, tls: {cert: a, key: b}}]",
        &["1 listen[0].h2c: is HTTP/2 without TLS"],
    );
    check(
        "admin: {address: '127.0.0.1:8080'}",
        &["1 admin.address: 127.0.0.1:8080 is already a listener for callers"],
    );
    check("admin: {}", &["1 admin.address: is missing"]);
    check(
        "admin: {address: '127.0.0.1:1', hosts: ['*.example.com', 'gw:9090', '', ok.example.com]}",
        &[
            "1 admin.hosts[0]: must be a name such as",
            "1 admin.hosts[1]: must be a name",
            "1 admin.hosts[2]: must be a name",
        ],
    );
    check(
        "workers: 1025\nattempts: 0\n",
        &[
            "1 workers: must be at most 1024",
            "2 attempts: must be 1 to 100",
        ],
    );
    check(
        "limits: { upload: 2MiB, spool_total: 1MiB }",
        &["1 limits.spool_total: must be at least as large as upload"],
    );
    check(
        "limits:\n  event: 0B\n  header_bytes: 2MiB\n  connections: 0\n  buffered_total: 1MiB\n  request_body: 5MB\n",
        &[
            "2 limits.event: must be more than 0B",
            "3 limits.header_bytes: must be at most 1MiB",
            "4 limits.connections: must be at least 1",
            "5 limits.buffered_total: must be at least",
            "6 limits.request_body: must be a size",
        ],
    );
    check(
        "timeouts: {keepalive: 0s}",
        &["1 timeouts.keepalive: must be more than 0s"],
    );
    check("drain: {delay: 0s, grace: 0s}", &[]);
    check(
        "trusted_proxies: [10.0.0.0/8, proxy]",
        &["1 trusted_proxies[1]: must be an IP address or a range"],
    );
    for origin in [
        "https://a.b/",
        "https://a.b/x",
        "a.b",
        "ftp://a.b",
        "https://",
        "https://u@a.b",
        "null",
    ] {
        check(
            &format!("cors: {{origins: ['{origin}']}}"),
            &["1 cors.origins[0]: must be \"*\" or an origin"],
        );
    }
    check(
        "log: {access: stdot}",
        &["1 log.access: must be stdout, off, or the path of a file with a / in it"],
    );
    check(
        "log: {level: loud}",
        &["1 log.level: is not known; allowed: off, error"],
    );
    check(
        "log: {format: jsn}",
        &["1 log.format: \"jsn\" is not known; did you mean `json`?"],
    );
    check(
        "ledger: {path: ''}",
        &["1 ledger.path: must be the path of a file"],
    );
    check(
        "ledger: {path: data/}",
        &["1 ledger.path: must be the path of a file"],
    );
    check(
        "ledger: {retention: 90}",
        &["1 ledger.retention: must be a number of days"],
    );
    check(
        "ledger: {retention: 0d}",
        &["1 ledger.retention: must be 1d to 3650d"],
    );
    check(
        "listens: []\nadmins: {}",
        &[
            "1 listens: unknown field; did you mean `listen`?",
            "2 admins: unknown field; did you mean `admin`?",
        ],
    );
    check(
        "workers:\nlog: {}\nlog: {}\n",
        &["1 workers: has no value", "3 log: is written twice"],
    );
}

#[test]
fn the_store_is_read_without_its_password() {
    let store = |text: &str| read("server.yaml", text).unwrap();
    let server = store(
        "seal: { keys: [{ file: seal.key }] }\nstore: { redis: { env: REDIS_URL }, tls: { ca: ca.pem }, instances: 3, on_store_down: refuse, timeout: 5ms, prefix: p }",
    );
    assert_eq!(
        format!("{:?} {:?}", server.store.as_ref().unwrap(), server.warnings),
        "Store { address: rediss://cache:6380/0, ca: Some(\"-----BEGIN CERTIFICATE-----\"), instances: 3, on_store_down: Refuse, timeout: 5ms, \
         prefix: \"p\" } []"
    );
    let literal =
        store("store:\n  redis: redis://:s3cret@localhost/1\nseal: { keys: [{ file: seal.key }] }");
    assert_eq!(
        format!("{:?}", literal.store.as_ref().unwrap()),
        "Store { address: redis://localhost:6379/1, ca: None, instances: 1, on_store_down: Local, timeout: 20ms, prefix: \"portcullis\" }"
    );
    let warnings: Vec<String> = literal.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "server.yaml:2 store.redis: holds a password in clear text: `{ env: NAME }` or `{ file: /path }` with \
             the whole URL is safer"
        ]
    );
    let key = "seal: { keys: [{ file: seal.key }] }\nstore: { redis: 'redis://localhost' }";
    assert!(store(key).warnings.is_empty());
    check("store: {}", &["1 store.redis: is missing"]);
    check(
        "store: { redis: localhost }",
        &["1 store.redis: must be a URL such as redis://host:6379"],
    );
    check(
        "store: { redis: { env: NO_URL } }",
        &["1 store.redis.env: is not there"],
    );
    check(
        "store: { redis: 'redis://h', tls: { ca: ca.pem } }",
        &["1 store.tls.ca: does not apply to redis:"],
    );
    check(
        "store: { redis: 'rediss://h', tls: { ca: none.pem } }",
        &["1 store.tls.ca: is not there"],
    );
    check(
        "store:\n  redis: redis://h\n  instances: 0\n  timeout: 6s\n  prefix: 'a{b}'\n",
        &[
            "3 store.instances: must be 1 to 1000",
            "4 store.timeout: must be more than 0ms",
            "5 store.prefix: must have 1 to 64",
        ],
    );
    check(
        "store: { redis: 'redis://h', on_store_down: wait }",
        &["1 store.on_store_down: is not known; allowed: local, refuse"],
    );
}

#[test]
fn keys_that_seal_are_read_and_not_shown() {
    let server = read(
        "server.yaml",
        "seal: { keys: [{ file: seal.key }, 'another-0123456789abcdef0123456789'] }",
    )
    .unwrap();
    let keys: Vec<&str> = server.seal.iter().map(Secret::expose).collect();
    assert_eq!(
        keys,
        [
            "0123456789abcdef0123456789abcdef",
            "another-0123456789abcdef0123456789"
        ]
    );
    assert_eq!(server.warnings.len(), 1, "one is in clear text");
    assert!(!format!("{server:?}").contains("0123456789"));
    check("seal: {}", &["1 seal.keys: is missing"]);
    check(
        "seal: { keys: [] }",
        &["1 seal.keys: must list 1 to 16 keys"],
    );
    check(
        "seal: { keys: [{ file: none.key }] }",
        &["1 seal.keys[0].file: is not there"],
    );
    check(
        "seal: { keys: [{ file: short.key }] }",
        &["1 seal.keys[0].file: the file holds a key of fewer than 32"],
    );
    check(
        "seal: { keys: [short] }",
        &["1 seal.keys[0]: holds a key of fewer than 32"],
    );
    let what = "1 item_cache: is `store`: it needs the section `store`, and `seal.keys`";
    check("item_cache: store", &[what]);
    check(
        "item_cache: store\nstore: { redis: 'redis://localhost' }",
        &[what],
    );
    check(
        "item_cache: disk",
        &["1 item_cache: is not known; allowed: off, memory, store"],
    );
    let shared = "item_cache: store\nstore: { redis: 'redis://localhost' }\nseal: { keys: [{ file: seal.key }] }";
    assert_eq!(
        read("server.yaml", shared).unwrap().item_cache,
        ItemCacheMode::Store
    );
    let alone = read("server.yaml", "store: { redis: 'redis://localhost' }").unwrap();
    assert!(
        alone.warnings[0].to_string().contains("seal.keys"),
        "{:?}",
        alone.warnings
    );
}

#[test]
fn proxies_of_the_environment_need_the_file() {
    let read = |text: &str, variables: &[(&str, &str)]| {
        super::parse_server("server.yaml", text, &mut |reference| match reference {
            Reference::Optional("NO_PROXY") if variables.is_empty() => {
                Err("the environment variable is not UTF-8".to_owned())
            }
            Reference::Optional(name) => {
                let found = variables.iter().find(|(of, _)| *of == name);
                Ok(found
                    .map(|(_, value)| (*value).to_owned())
                    .unwrap_or_default())
            }
            Reference::Env(_) | Reference::File(_) | Reference::Ca(_) | Reference::Keys(_) => {
                Err("is not there".to_owned())
            }
        })
    };
    let set = [
        ("HTTPS_PROXY", "http://u:s3cret@p:1"),
        ("NO_PROXY", "a.b,http://c"),
    ];
    assert_eq!(*read("{}", &set).unwrap().proxies, Proxies::default());
    assert_eq!(
        *read("upstream_proxy: none", &set).unwrap().proxies,
        Proxies::default()
    );
    let server = read("upstream_proxy: environment", &set).unwrap();
    let shown = format!("{server:?}");
    assert!(
        shown.contains("https: Some(http://p:1), http: None") && !shown.contains("s3cret"),
        "{shown}"
    );
    let warned: Vec<String> = server.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warned.len() == 1
            && warned[0].starts_with(
                "server.yaml:1 upstream_proxy: NO_PROXY has entries that match nothing (1)"
            ),
        "{warned:?}"
    );
    let told = read("upstream_proxy: environment", &[])
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("the environment variable NO_PROXY is not UTF-8"),
        "{told}"
    );
    let none = read("upstream_proxy: environment", &[("NO_PROXY", "a.b")])
        .unwrap()
        .warnings;
    assert!(
        none.len() == 1
            && none[0]
                .to_string()
                .contains("neither HTTPS_PROXY nor HTTP_PROXY is set"),
        "{none:?}"
    );
    let all = read(
        "upstream_proxy: environment",
        &[("ALL_PROXY", "http://u:s3cret@p:1")],
    )
    .unwrap()
    .warnings;
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert!(
        all.len() == 1 && all[0].contains("only ALL_PROXY is set") && !all[0].contains("s3cret"),
        "{all:?}"
    );
    let socks = [("https_proxy", "socks5://u:s3cret@p:1")];
    let told = read("upstream_proxy: environment", &socks)
        .unwrap_err()
        .to_string();
    let expected =
        "server.yaml:1 upstream_proxy: the environment variable https_proxy is a SOCKS proxy";
    assert!(
        told.starts_with(expected) && !told.contains("s3cret"),
        "{told}"
    );
    check(
        "upstream_proxy: 'http://u:s3cret@p:1'",
        &["1 upstream_proxy: is not known; allowed: none, environment"],
    );
}
