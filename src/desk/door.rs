//! A [`Door`] is a thing that a caller may ask for. Only the method and the path decide which door
//! it is; keys do not count, so an unknown path is a 404 for everybody. Headers decide in which
//! format models are listed.

use crate::base::cut_keys::cut_keys;
use crate::error::{FailureKind, Refusal};
use dialects::front::{DOORS, Front, ModelsAsked, PathRequest, STANDARD};
use dialects::wire::shorten_text;

/// The doors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model(String),
    /// `POST` to a path of a front door: a question to a model, and what the path says of it.
    Exchange(&'static Front, PathRequest),
    /// `POST` to a path of a front door that asks how many tokens a request has.
    Count(&'static Front, PathRequest),
    /// `GET /portcullis/key` and `GET /portcullis/usage`: a question of a key about itself.
    Own(Own),
    /// `GET /` of a browser: what this is.
    Welcome,
    /// `HEAD /api/hello`, by which Claude Code finds out whether it has a connection.
    Hello,
    /// `GET /livez`
    Live,
    /// `GET /readyz`
    Ready,
    /// `OPTIONS` on one of the doors above, while CORS is on.
    Preflight {
        /// The methods that a page of another origin may use there.
        methods: &'static str,
    },
}

/// The questions of a key about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The models of the key, and the rest of its limits.
    Key,
    /// The use of the key.
    Usage,
}

impl Door {
    /// Returns the door's name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Door::Models => "models",
            Door::Model(_) => "model",
            Door::Exchange(front, _) => front.name,
            Door::Count(..) => "count",
            Door::Own(Own::Key) => "key",
            Door::Own(Own::Usage) => "usage",
            Door::Welcome => "welcome",
            Door::Hello => "hello",
            Door::Live => "livez",
            Door::Ready => "readyz",
            Door::Preflight { .. } => "preflight",
        }
    }
}

/// Returns the format in which callers at this path expect an answer. The questions of a key about
/// itself have one format, whatever the query and the headers look like.
pub fn front_for_path(
    path: &str,
    query: Option<&str>,
    has: &dyn Fn(&str) -> bool,
) -> &'static Front {
    if path.trim_start_matches('/').starts_with("portcullis/") {
        STANDARD
    } else {
        Front::for_path(path, query, has)
    }
}

/// Returns the door. `path` is the request's path as it was sent, without the query; `front` is the
/// format in which callers expect an answer there.
pub fn door_for_path(
    method: &str,
    path: &str,
    query: Option<&str>,
    cors: bool,
    front: &'static Front,
) -> Result<Door, Refusal> {
    if method == "CONNECT" {
        // The target of CONNECT is no path. There is no tunnel here, whatever the target.
        return Err(Refusal::new(
            FailureKind::MethodNotSupported {
                allow: "GET, HEAD, POST",
            },
            "CONNECT is not supported: this gateway is not a forward proxy.",
        ));
    }
    let Some(door) = by_path(path, query, front) else {
        return Err(Refusal::new(
            FailureKind::UnknownUrl,
            unknown_path_message(path),
        ));
    };
    let (methods, allow, with_cors) = match door {
        Door::Exchange(..) | Door::Count(..) => ("POST", "POST", "POST, OPTIONS"),
        Door::Models
        | Door::Model(_)
        | Door::Own(_)
        | Door::Welcome
        | Door::Hello
        | Door::Live
        | Door::Ready
        | Door::Preflight { .. } => ("GET", "GET, HEAD", "GET, HEAD, OPTIONS"),
    };
    let allow = if cors { with_cors } else { allow };
    if method == methods || (method == "HEAD" && methods == "GET") {
        Ok(door)
    } else if cors && method == "OPTIONS" {
        Ok(Door::Preflight { methods })
    } else if let Door::Exchange(front, _) = door
        && front.errors.asks_upgrade
        && method == "GET"
    {
        Err(Refusal::new(
            FailureKind::NoWebSocket,
            "There is no WebSocket here: send the request by POST.",
        ))
    } else {
        let shown = shorten_text(method, 16);
        Err(Refusal::new(
            FailureKind::MethodNotSupported { allow },
            format!("This path does not support {shown}; use {allow}."),
        ))
    }
}

/// Returns what stands at a path, whatever the method. The path may have too many slashes, or no
/// `/v1`: clients make such paths from a base URL that ends with a slash, or has no version.
fn by_path(sent: &str, query: Option<&str>, front: &'static Front) -> Option<Door> {
    let path = sent.starts_with('/').then(|| sent.trim_matches('/'))?;
    match path {
        "livez" => return Some(Door::Live),
        "readyz" => return Some(Door::Ready),
        "api/hello" => return Some(Door::Hello),
        "portcullis/key" => return Some(Door::Own(Own::Key)),
        "portcullis/usage" => return Some(Door::Own(Own::Usage)),
        _ => {}
    }
    for front in DOORS {
        if let Some(asked) = front.route(sent, query) {
            return Some(Door::Exchange(front, asked));
        }
        if let Some(counting) = &front.counting
            && let Some(asked) = (counting.route)(sent, query)
        {
            return Some(Door::Count(front, asked));
        }
    }
    Some(match (front.models.route)(sent)? {
        ModelsAsked::List => Door::Models,
        ModelsAsked::One(id) => Door::Model(id),
    })
}

/// Makes the id of an answer.
pub fn make_id(front: &Front) -> String {
    let mut buffer = uuid::Uuid::encode_buffer();
    [
        front.id_prefix,
        uuid::Uuid::now_v7().simple().encode_lower(&mut buffer),
    ]
    .concat()
}

/// Returns the message for an unknown path. For a near miss, it says what to use.
fn unknown_path_message(path: &str) -> String {
    let bare = path.trim_matches('/').to_ascii_lowercase();
    // The client adds `/v1` to a base URL that already has it, or should have it.
    let twice = bare
        .strip_prefix("v1/")
        .filter(|rest| rest.starts_with("v1/"));
    // The same of Google's clients, which add `/v1beta`.
    let beta = bare
        .strip_prefix("v1/")
        .filter(|rest| rest.starts_with("v1beta/"));
    let note = match (twice, beta) {
        (Some(_), _) => " (the path has `/v1` twice: remove it from the client's base URL)",
        (None, Some(_)) => {
            " (the path has `/v1` before `/v1beta`: remove `/v1` from the client's base URL)"
        }
        (None, None) => "",
    };
    let bare = twice.or(beta).unwrap_or(&bare);
    let shown = shorten_text(&cut_keys(path), 80);
    let words = bare.strip_prefix("v1/").unwrap_or(bare);
    let first = words.split('/').next().unwrap_or_default();
    if let Some((_, subject)) = NOT_SERVED.iter().find(|(path, _)| first == *path) {
        return format!(
            "The path {shown} does not exist: {subject} are not served by this gateway{note}."
        );
    }
    if first == "api" {
        return format!(
            "The path {shown} does not exist: this gateway does not speak Ollama's own format. {OLLAMA_ADVICE}"
        );
    }
    let hint = match bare {
        "chat/completions" | "v1/chat/completions" | "v1/chat/completion" | "v1/chat" | "chat" => {
            "POST /v1/chat/completions"
        }
        "messages" | "v1/messages" | "v1/message" => "POST /v1/messages",
        "responses" | "v1/responses" | "v1/response" => "POST /v1/responses",
        path if path.starts_with("v1/responses/") => "POST /v1/responses (nothing is stored)",
        "models" | "v1/models" | "v1/model" => "GET /v1/models",
        path if path.starts_with("v1beta")
            || path.contains(":generate")
            || path.contains(":stream") =>
        {
            "POST /v1beta/models/{model}:generateContent or :streamGenerateContent"
        }
        "livez" | "healthz" | "health" => "GET /livez",
        "readyz" | "ready" => "GET /readyz",
        "usage" | "v1/usage" | "key" | "v1/key" | "key/info" | "portcullis" => {
            "GET /portcullis/usage or GET /portcullis/key"
        }
        _ => "POST /v1/chat/completions, POST /v1/responses, POST /v1/messages or GET /v1/models",
    };
    format!("The path {shown} does not exist; use {hint}{note}.")
}

/// The endpoints of OpenAI's API that this gateway does not have, by the first word of the path
/// after `/v1`.
const NOT_SERVED: [(&str, &str); 12] = [
    ("files", "files"),
    ("uploads", "files"),
    ("batches", "batches"),
    ("realtime", "realtime sessions"),
    ("vector_stores", "vector stores"),
    ("assistants", "assistants"),
    ("threads", "assistants"),
    ("fine_tuning", "fine-tuning jobs"),
    ("evals", "evals"),
    ("containers", "containers"),
    ("conversations", "stored conversations"),
    ("videos", "videos"),
];

/// The advice for clients of Ollama's own format.
const OLLAMA_ADVICE: &str = "Use the client's setting for OpenAI-compatible servers, with a base URL that ends with /v1: \
                      POST /v1/chat/completions, POST /v1/embeddings or GET /v1/models.";

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::front::{CHAT, GEMINI, GEMINI_ARRAY, MESSAGES};

    fn front_at(path: &str) -> &'static Front {
        Front::for_path(path, None, &|_| false)
    }

    fn find(method: &str, path: &str, query: Option<&str>, cors: bool) -> Result<Door, Refusal> {
        super::door_for_path(method, path, query, cors, front_at(path))
    }

    fn plain(front: &'static Front) -> Door {
        Door::Exchange(front, PathRequest::default())
    }

    #[test]
    fn doors() {
        let check = |method: &str, path: &str, expected: Result<Door, u16>| {
            assert_eq!(
                find(method, path, None, false).map_err(|r| r.kind.row().status),
                expected,
                "{method} {path}"
            );
        };
        check("POST", "/v1/chat/completions", Ok(plain(&CHAT)));
        check("POST", "/v1/messages", Ok(plain(&MESSAGES)));
        check("POST", "//messages/", Ok(plain(&MESSAGES)));
        check(
            "POST",
            "/v1/messages/count_tokens",
            Ok(Door::Count(&MESSAGES, PathRequest::default())),
        );
        check("GET", "/v1/messages/count_tokens", Err(405));
        check("POST", "/v1/messagesx", Err(404));
        check("HEAD", "/api/hello", Ok(Door::Hello));
        assert_eq!(
            (
                front_at("/v1/messages/batches"),
                front_at("/v1/models"),
                front_at("")
            ),
            (&MESSAGES, &CHAT, &CHAT)
        );
        check("GET", "/v1/models", Ok(Door::Models));
        check("HEAD", "/v1/models", Ok(Door::Models));
        check("GET", "/portcullis/key", Ok(Door::Own(Own::Key)));
        check("HEAD", "//portcullis/usage/", Ok(Door::Own(Own::Usage)));
        check("POST", "/portcullis/usage", Err(405));
        check("GET", "/portcullis", Err(404));
        check("GET", "/portcullis/usage/x", Err(404));
        check("GET", "/v1/models/org/m", Ok(Door::Model("org/m".into())));
        check("GET", "/v1/models/org%2Fm", Ok(Door::Model("org/m".into())));
        check("GET", "/v1/models/a%zz", Err(404));
        check("GET", "/v1/models/a%ff", Err(404));
        check("GET", "/v1/models/a%+f", Err(404));
        check("GET", "/v1/models/a%2", Err(404));
        check("GET", "/v1/models/", Ok(Door::Models));
        check("GET", "/v1/chat/completions", Err(405));
        check("OPTIONS", "/v1/models", Err(405));
        check("TRACE", "/v1/chat/completions", Err(405));
        check("CONNECT", "", Err(405));
        for path in [
            "/",
            "",
            "v1/models",
            "/V1/models",
            "/v1/../v1/models",
            "/v1/%6dodels",
            "/v1models",
            "/v1/modelsx",
            "/v1/chatcompletions",
            "/v1/chat/completions/x",
            "/v1/v1/models",
            "/v1/models?x",
            "/livez/x",
            "*",
        ] {
            check("GET", path, Err(404));
            check("POST", path, Err(404));
        }
    }

    #[test]
    fn a_path_may_say_which_model_and_how() {
        let found = |path, query| find("POST", path, query, false).map_err(|r| r.kind.row().status);
        let asked = |stream| PathRequest {
            model: Some("m".into()),
            stream,
        };
        assert_eq!(
            found("/v1beta/models/m:generateContent", None),
            Ok(Door::Exchange(&GEMINI, asked(false)))
        );
        let path = "/v1/models/m:streamGenerateContent";
        assert_eq!(
            found(path, Some("alt=sse")),
            Ok(Door::Exchange(&GEMINI, asked(true)))
        );
        assert_eq!(
            found(path, None),
            Ok(Door::Exchange(&GEMINI_ARRAY, asked(true)))
        );
        let counts = Door::Count(&GEMINI, asked(false));
        assert_eq!(found("/v1/models/m:countTokens", None), Ok(counts));
        for path in ["/v1beta/models/m", "/v1beta/models"] {
            assert_eq!(
                (found(path, None), front_at(path)),
                (Err(405), &GEMINI),
                "{path}"
            );
        }
        assert_eq!(find("GET", "/v1beta/models", None, false), Ok(Door::Models));
        assert_eq!(
            find("GET", "/v1beta/models/org/m", None, false),
            Ok(Door::Model("org/m".into()))
        );
        assert_eq!(
            find("GET", "/v1/models/m:8b", None, false),
            Ok(Door::Model("m:8b".into()))
        );
        assert_eq!(
            find("GET", path, None, false).map_err(|r| r.kind.row().status),
            Err(405)
        );
    }

    #[test]
    fn extra_slashes_and_missing_versions_are_no_obstacle() {
        for path in [
            "/chat/completions",
            "//chat/completions",
            "/v1/chat/completions/",
            "//v1/chat/completions",
            "/v1//chat//completions//",
        ] {
            assert_eq!(find("POST", path, None, false), Ok(plain(&CHAT)), "{path}");
        }
        for path in [
            "/models",
            "/models/",
            "//models",
            "/v1/models/",
            "//v1//models//",
        ] {
            assert_eq!(find("GET", path, None, false), Ok(Door::Models), "{path}");
        }
        for path in [
            "/models/org/m",
            "//v1//models//org/m/",
            "/v1/models/org%2Fm",
        ] {
            assert_eq!(
                find("GET", path, None, false),
                Ok(Door::Model("org/m".into())),
                "{path}"
            );
        }
        assert_eq!(
            find("GET", "/v1/models/a//b", None, false),
            Ok(Door::Model("a//b".into())),
            "an id is as it is"
        );
        assert_eq!(find("GET", "//livez/", None, false), Ok(Door::Live));
    }

    #[test]
    fn near_misses_say_what_to_use() {
        let said = |path| {
            find("POST", path, None, false)
                .unwrap_err()
                .message
                .into_owned()
        };
        assert!(said("/V1/chat/completions").ends_with("use POST /v1/chat/completions."));
        assert!(said("/v1/model/").ends_with("use GET /v1/models."));
        assert!(said("/v1/v1/models").ends_with(
            "use GET /v1/models (the path has `/v1` twice: remove it from the client's base URL)."
        ));
    }

    #[test]
    fn what_is_not_served_is_said_plainly() {
        let said = |path| {
            find("POST", path, None, false)
                .unwrap_err()
                .message
                .into_owned()
        };
        for (path, what) in [
            ("/v1/files", "files"),
            ("/v1/batches/b_1", "batches"),
            ("/v1/realtime/sessions", "realtime sessions"),
            ("/v1/vector_stores", "vector stores"),
            ("/v1/assistants", "assistants"),
        ] {
            assert!(
                said(path).ends_with(&format!("{what} are not served by this gateway.")),
                "{}",
                said(path)
            );
        }
        let beta = said("/v1/v1beta/models/m:generateContent");
        assert!(
            beta.ends_with(
                "(the path has `/v1` before `/v1beta`: remove `/v1` from the client's base URL)."
            ),
            "{beta}"
        );
        assert!(
            said("/api/chat").contains("OpenAI-compatible")
                && said("/api/chat").contains("/v1/chat/completions")
        );
    }

    #[test]
    fn options_is_a_preflight_only_with_cors() {
        assert_eq!(
            find("OPTIONS", "/v1/chat/completions", None, true),
            Ok(Door::Preflight { methods: "POST" })
        );
        assert_eq!(
            find("OPTIONS", "/v1/models", None, true),
            Ok(Door::Preflight { methods: "GET" })
        );
        assert_eq!(
            find("OPTIONS", "/nothing", None, true).unwrap_err().kind,
            FailureKind::UnknownUrl
        );
    }
}
