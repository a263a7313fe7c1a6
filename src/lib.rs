//! Portcullis is an LLM gateway on Pingora. Callers send standard chat completions to one address,
//! with one key. Behind it are many accounts at many providers.
//!
//! This file is the map: the words, the way of a request, what always holds, and where to look for
//! what.
//!
//! # Words
//!
//! | Word | Definition |
//! |---|---|
//! | caller | a team or an app that uses the gateway; it has its own limits, and it owns keys |
//! | key | the secret that a caller sends; it allows at most what its caller may do |
//! | identity | an issuer of tokens, and the rules that say to which caller a token belongs |
//! | subject | who has a token: a person or a machine; it is a key of its caller |
//! | account | an address of a provider, and a credential for it |
//! | model | an id that callers may ask for |
//! | pattern | a model whose id has a `*`; it stands for the models that a provider lists |
//! | target | one way to serve a model: an account, and that account's name for the model |
//! | endpoint | what an account's server is asked for: chat, or one of the other kinds |
//! | dialect | the wire format of a provider; the crate [`dialects`] translates it |
//! | desk | the part of the gateway that deals with callers |
//! | front door | the format that a caller speaks: its ids, its errors, its streams |
//! | catalog | all callers, keys, accounts and models; it never changes, a new one replaces it |
//! | snapshot | a catalog, and the running state that belongs to its entries |
//! | exchange | the life of one request, from its first byte until it is settled |
//! | attempt | one try at one target |
//! | candidate | a target that may be tried for a request |
//! | commit | the moment when an answer begins to leave for the caller; no other attempt follows |
//! | hedge | a second attempt while a slow first one runs; the answer that commits first counts |
//! | breaker | a switch that stops requests to a target's failing endpoint, until a test succeeds |
//! | limit | how much a caller, a key, or a key's use of one model may consume in a time |
//! | scope | a caller, a key, or a key's use of one model, with what is counted for it |
//! | reservation | the most that an exchange is expected to use; limits hold it until it settles |
//! | settling | the end of an exchange: its use replaces the reservation, and is written once |
//! | ledger | the file with one row for each settled exchange |
//! | store | a Redis or Valkey server, through which several gateways share limits |
//! | price | what each kind of token of a target costs; an unknown price is not zero |
//!
//! # The way of a request
//!
//! 1. [`desk::connection`] counts the connection, bounds the time of the request's head, and reads
//!    plain heads.
//! 2. [`desk::gateway`] has one short method for each of Pingora's phases. They call the [`desk`].
//! 3. [`desk::door`] finds what is asked for, and [`desk::auth`] finds whose key it is. Lists of
//!    [`models`] are answered at once.
//! 4. [`desk::intake`] reads the body. [`plan`] says which targets may be tried, and in
//!    what order. The caller's [`limits`] admit the request, or refuse it. The head of [`desk`] has
//!    the table of these stages.
//! 5. [`exchange`] tries one target after another until an attempt commits. [`account`] says which
//!    targets are fit. The request is written in the dialect of each target.
//!    The head of [`exchange`] has the table of what an exchange holds, and where it is released.
//! 6. [`desk::relay`] takes the answer piece by piece, and [`desk::reply`] writes it to the caller.
//! 7. [`desk::record`] settles the exchange when it ends. What is known then is a
//!    [`settled::Settled`]; [`access_log`], [`metrics`], [`traces`] and [`ledger`] read it.
//!
//! [`process`] makes the parts, and [`server`] runs them. An explanation ([`explain`]) goes the
//! same way with the same code, up to the first attempt, and says what it found.
//!
//! # What always holds
//!
//! * A stream that ends is complete, or says that it is not.
//! * An exchange keeps the catalog that it began with. It is settled exactly once, in whatever way
//!   it ends.
//! * Only the model's id decides where a request goes. The gateway fetches no URL of a request. It
//!   sends no URL to a provider that would fetch it with the operator's rights or in the operator's
//!   network, unless the account allows it.
//! * If a dialect cannot express a field of a request, the answer names the field, or the request
//!   is refused. No field is dropped in silence.
//! * A file of the catalog is taken only as a whole. A file that is still being written does not
//!   hold up the other files.
//! * A secret is a [`base::secret::Secret`], which cannot be printed.
//! * A request takes what it may use from all limits that bound it, or from none. It counts for the
//!   time of its admission. A request that is refused takes nothing.
//! * Each instance counts its own part exactly. The shared count is the sum of the parts, and no
//!   request waits long for it.
//! * Before the commit any failure may lead to another attempt, and two attempts may race. What is
//!   used in vain is counted as such, and retries do not multiply an outage.
//! * Much of the code is pure: it takes values, the time included, and knows no Pingora, no clock,
//!   no file and no socket. The test `layering` has the list, and which files may name Pingora.
//! * No modules import each other in a circle. The test `house` says so.
//!
//! # Where to look
//!
//! | Module | What is there |
//! |---|---|
//! | **[`base`]** | **small parts that know nothing of the gateway** |
//! | [`base::address`] | ranges of IP addresses, as an operator writes them |
//! | [`base::alarm`] | one timer for many deadlines |
//! | [`base::calendar`] | days and months of UTC, and times as texts |
//! | [`base::clock`] | the clock of cool-downs, looks and refreshes, which tests can hold |
//! | [`base::cut_keys`] | texts of clients, without the keys that they may have |
//! | [`base::descriptors`] | the files that the process may have open, and what is left of them |
//! | [`base::hash`] | a quick hash for names of the catalog |
//! | [`base::host`] | a host, as URLs name it |
//! | [`base::lock`] | a mutex that a panic does not close |
//! | [`base::memory`] | the budget of what all requests together may hold in memory |
//! | [`base::pool`] | memory of a thread for bytes that come and go |
//! | [`base::port_holder`] | which process has a port |
//! | [`base::problem`] | an error in the operator's files: file, line, cause, fix; no secrets |
//! | `base::read_buffer` | the bytes of a connection that were read and not taken yet |
//! | [`base::secret`] | a text that cannot be printed |
//! | [`base::shelves`] | values of many keys, bounded in bytes and in time |
//! | [`base::spool`] | large bodies, in files without a name |
//! | [`base::table`] | text in columns, for the terminal |
//! | [`base::trace_context`] | the headers that tell to which trace a request belongs |
//! | [`base::units`] | durations, sizes, shares and times, as an operator writes them |
//! | **[`conf`] and the catalog** | **from files to values** |
//! | [`catalog`] | callers, keys, accounts, models: reading, checking, finding and changing them |
//! | [`conf::config`] | `server.yaml`: ports, timeouts, limits of the process |
//! | [`conf::price`] | the list of prices that comes with the program |
//! | [`conf::proxy`] | proxies through which servers outside are reached |
//! | `conf::scribe` | the helper that reads a file's values and collects all of its errors |
//! | [`conf::secret_ref`] | names of environment variables and files that hold a secret |
//! | [`conf::yaml`] | the YAML reader and the editor, which know the lines of a file |
//! | **State of accounts and limits** | **what outlives a catalog** |
//! | [`account`] | cool-downs, breakers, latencies, quotas, connections; the choice of a target |
//! | [`item_cache`] | items of answers, kept for requests that refer to them |
//! | [`ledger`] | the rows of settled exchanges, their sums, and reports of use and cost |
//! | [`limits`] | what callers may use and have used: admission, reservation, settling |
//! | [`live`] | the catalog that is served now, and the thread that watches its files |
//! | [`seal`] | thoughts sealed into texts that callers carry |
//! | [`store`] | limits, hints, thoughts and items that several gateways share |
//! | [`vault`] | signed thoughts, kept for the next turn of a conversation |
//! | **Exchange** | **the side of the providers** |
//! | [`exchange`] | attempts, retries, hedges, connections to providers, credentials |
//! | [`plan`] | which targets may be tried for a request, and in what order |
//! | [`signers`] | signatures for AWS, and the sources of credentials at AWS, Azure and Google |
//! | [`tls`] | which certificates are trusted, and the certificates of the listeners |
//! | **Desk** | **the side of the callers** |
//! | [`desk::connection`] | the cap on connections, our session of HTTP/1.1, deadlines, bad heads |
//! | [`desk`] | doors, keys, bodies, admission, answers, the record of an exchange |
//! | [`error`] | everything that can go wrong for a caller: status, type and code |
//! | [`desk::gateway`] | Pingora's phases |
//! | [`identity`] | tokens of callers who sign in elsewhere: signatures, keys, claims, subjects |
//! | [`models`] | the lists of models |
//! | [`settled`] | what is known of an exchange at its end |
//! | **Operator** | **running it, and seeing what it does** |
//! | [`access_log`] | one line for each exchange |
//! | [`operator::admin`] | the listener of operators: `/metrics`, `/status`, `/usage`, the probes |
//! | [`operator::page`] | the page for operators, in `src/operator/page/` |
//! | [`operator::live`] | `/live`: what happens now, for the page of operators |
//! | [`drain`] | the phases of a shutdown, and the number of running exchanges |
//! | [`figures`] | what happened lately in the whole gateway, and what callers have used |
//! | [`explain`] | what would become of a request, and why |
//! | [`log`] | messages for the operator, on stderr |
//! | [`metrics`] | counters and histograms |
//! | [`operator::notify`] | tells somebody of problems that come and go |
//! | [`operator::problems`] | the rules that find what is wrong, and the verdict |
//! | [`operator::watch`] | looks at the process, and remembers since when a problem lasts |
//! | [`process`] | the parts of a process, made once |
//! | [`series`] | what happened in the last five minutes, in steps of five seconds |
//! | [`server`] | listeners, background work, signals, shutdown |
//! | [`status`] | the type of the page `/status` |
//! | [`traces`] | spans of settled exchanges, for OpenTelemetry's receivers |
//! | [`supervisor`] | messages to the service manager, such as systemd |
//! | [`inventory`] | a catalog as operators compare it: what a change means, and for whom |
//!
//! Two crates build on this one. Nothing here knows them.
//!
//! | Crate | What is there |
//! |---|---|
//! | `crates/import` | a configuration folder made of the files of another gateway |
//! | `crates/cli` | the program: `serve`, `check`, `explain`, `key` and the other subcommands |

pub mod access_log;
pub mod account;
pub mod base;
pub mod catalog;
pub mod conf;
pub mod desk;
pub mod drain;
pub mod error;
pub mod exchange;
pub mod explain;
pub mod figures;
pub mod identity;
pub mod inventory;
pub mod item_cache;
pub mod ledger;
pub mod limits;
pub mod live;
pub mod log;
pub mod metrics;
pub mod models;
pub mod operator;
pub mod plan;
pub mod process;
pub mod seal;
pub mod series;
pub mod server;
pub mod settled;
pub mod signers;
pub mod status;
pub mod store;
pub mod supervisor;
pub mod tls;
pub mod traces;
pub mod vault;
