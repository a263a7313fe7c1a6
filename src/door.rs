//! Method and path → [`Door`]. Looks at no header and no key: an unknown path is a 404 whoever asks.

use crate::error::{Refusal, What};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model(String),
    /// `POST /v1/chat/completions`
    Chat,
    /// `GET /livez`
    Live,
    /// `GET /readyz`
    Ready,
    /// `OPTIONS` on one of the above while CORS is on.
    Preflight,
}

impl Door {
    /// The word in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Door::Models => "models",
            Door::Model(_) => "model",
            Door::Chat => "chat",
            Door::Live => "livez",
            Door::Ready => "readyz",
            Door::Preflight => "preflight",
        }
    }
}

/// Finds the door. `path` is the request's path as it was sent, without the query.
pub fn find(method: &str, path: &str, cors: bool) -> Result<Door, Refusal> {
    if method == "CONNECT" {
        // Its target is no path: there is no tunnel here, wherever to.
        return Err(Refusal::new(
            What::MethodNotSupported { allow: "GET, HEAD, POST" },
            "CONNECT is not supported here; this is no forward proxy.",
        ));
    }
    let Some(door) = by_path(path) else {
        return Err(Refusal::new(What::UnknownUrl, unknown(path)));
    };
    let allow = match (&door, cors) {
        (Door::Chat, false) => "POST",
        (Door::Chat, true) => "POST, OPTIONS",
        (_, false) => "GET, HEAD",
        (_, true) => "GET, HEAD, OPTIONS",
    };
    let allowed = match door {
        Door::Chat => method == "POST",
        Door::Models | Door::Model(_) | Door::Live | Door::Ready | Door::Preflight => method == "GET" || method == "HEAD",
    };
    if allowed {
        Ok(door)
    } else if cors && method == "OPTIONS" {
        Ok(Door::Preflight)
    } else {
        let shown: String = method.chars().take(16).collect();
        Err(Refusal::new(What::MethodNotSupported { allow }, format!("{shown} is not supported here; use {allow}.")))
    }
}

fn by_path(path: &str) -> Option<Door> {
    match path {
        "/v1/chat/completions" => Some(Door::Chat),
        "/v1/models" => Some(Door::Models),
        "/livez" => Some(Door::Live),
        "/readyz" => Some(Door::Ready),
        _ => {
            let id = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty())?;
            decode(id).map(Door::Model)
        }
    }
}

/// `%2F` and its kin; ids are UTF-8. Anything else that a `%` begins is no id.
fn decode(id: &str) -> Option<String> {
    if !id.contains('%') {
        return Some(id.to_owned());
    }
    let mut out = Vec::with_capacity(id.len());
    let mut bytes = id.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

/// Near misses say what to use.
fn unknown(path: &str) -> String {
    let bare = path.trim_end_matches('/').to_ascii_lowercase();
    let hint = match bare.trim_start_matches('/') {
        "chat/completions" | "v1/chat/completions" | "v1/v1/chat/completions" | "v1/chat/completion" | "v1/chat" => {
            "POST /v1/chat/completions"
        }
        "models" | "v1/models" | "v1/v1/models" | "v1/model" => "GET /v1/models",
        "livez" | "healthz" | "health" => "GET /livez",
        "readyz" | "ready" => "GET /readyz",
        _ => "POST /v1/chat/completions or GET /v1/models",
    };
    let shown: String = path.chars().take(80).collect();
    format!("There is nothing at {shown}; use {hint}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors() {
        let check = |method: &str, path: &str, expected: Result<Door, u16>| {
            assert_eq!(find(method, path, false).map_err(|r| r.what.row().status), expected, "{method} {path}");
        };
        check("POST", "/v1/chat/completions", Ok(Door::Chat));
        check("GET", "/v1/models", Ok(Door::Models));
        check("HEAD", "/v1/models", Ok(Door::Models));
        check("GET", "/v1/models/org/m", Ok(Door::Model("org/m".into())));
        check("GET", "/v1/models/org%2Fm", Ok(Door::Model("org/m".into())));
        check("GET", "/v1/models/a%zz", Err(404));
        check("GET", "/v1/models/a%ff", Err(404));
        check("GET", "/v1/models/", Err(404));
        check("GET", "/v1/chat/completions", Err(405));
        check("OPTIONS", "/v1/models", Err(405));
        check("TRACE", "/v1/chat/completions", Err(405));
        check("CONNECT", "", Err(405));
        for path in ["/", "", "/V1/models", "//v1/models", "/v1/../v1/models", "/v1/%6dodels", "/v1/chat/completions/", "/v1/models?x", "*"]
        {
            check("GET", path, Err(404));
            check("POST", path, Err(404));
        }
    }

    #[test]
    fn near_misses_say_what_to_use() {
        let said = |path| find("POST", path, false).unwrap_err().message.into_owned();
        assert!(said("/chat/completions").ends_with("use POST /v1/chat/completions."));
        assert!(said("/v1/models/").ends_with("use GET /v1/models."));
    }

    #[test]
    fn options_is_a_preflight_only_with_cors() {
        assert_eq!(find("OPTIONS", "/v1/chat/completions", true), Ok(Door::Preflight));
        assert_eq!(find("OPTIONS", "/nothing", true).unwrap_err().what, What::UnknownUrl);
    }
}
