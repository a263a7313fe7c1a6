//! A route is what the admin listener does for a path.

use crate::operator::live::LivePart;
use crate::operator::page;

/// The action for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'p> {
    /// `GET /status`
    Status,
    /// `GET /usage`
    Usage,
    /// `GET /limits`
    Limits,
    /// `GET /metrics`
    Metrics,
    /// `GET /catalog`
    Catalog,
    /// `GET /` and `GET /page/NAME`: a part of the page, by its type and its text.
    Asset(&'static str, &'static str),
    /// `GET /live`, or more of a part of it
    Live(LivePart),
    /// `POST /accounts/NAME/reset`
    Reset(&'p str),
    /// `POST /explain`
    Explain,
    /// `POST /try`
    Try,
}

impl<'p> Route<'p> {
    /// Finds the route of a path. `page` says whether there is a page for browsers.
    pub(super) fn find(path: &'p str, page: bool) -> Option<Route<'p>> {
        let known = match path {
            "/status" => Some(Route::Status),
            "/usage" => Some(Route::Usage),
            "/limits" => Some(Route::Limits),
            "/metrics" => Some(Route::Metrics),
            "/catalog" => Some(Route::Catalog),
            "/explain" => Some(Route::Explain).filter(|_| page),
            "/try" => Some(Route::Try).filter(|_| page),
            "/live" | "/live/caller" | "/live/request" if !page => None,
            "/live" => Some(Route::Live(LivePart::All)),
            "/live/caller" => Some(Route::Live(LivePart::Caller)),
            "/live/request" => Some(Route::Live(LivePart::Request)),
            _ => path
                .strip_prefix("/accounts/")
                .and_then(|path| path.strip_suffix("/reset"))
                .map(Route::Reset),
        };
        known.or_else(|| {
            let (kind, text) = page::page_file(path).filter(|_| page)?;
            Some(Route::Asset(kind, text))
        })
    }

    /// Returns whether the route does more than to show something, so that it needs a POST.
    pub(super) fn changes_state(&self) -> bool {
        match self {
            Route::Reset(_) | Route::Explain | Route::Try => true,
            Route::Status | Route::Usage | Route::Limits | Route::Metrics | Route::Catalog => false,
            Route::Live(_) | Route::Asset(..) => false,
        }
    }

    /// Returns the methods of the route.
    pub(super) fn allow(&self) -> &'static str {
        if self.changes_state() {
            "POST"
        } else {
            "GET, HEAD"
        }
    }
}

/// Returns the answer to a path that does not exist.
pub(super) fn unknown_page(page: bool) -> String {
    let (first, posts) = if page {
        ("/, /live, ", "/explain, /try or ")
    } else {
        ("", "")
    };
    format!(
        "no such page. Use {first}/status, /limits, /usage, /catalog, /metrics, /livez, /readyz, or POST {posts}/accounts/NAME/reset\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_methods() {
        for (path, allow) in [
            ("/", "GET, HEAD"),
            ("/status", "GET, HEAD"),
            ("/accounts/a/reset", "POST"),
            ("/accounts//reset", "POST"),
        ] {
            assert_eq!(
                Route::find(path, true).map(|route| route.allow()),
                Some(allow),
                "{path}"
            );
        }
        for path in [
            "",
            "*",
            "//",
            "/status/",
            "/Status",
            "/page",
            "/page/",
            "/page/../status",
            "/accounts/a",
        ] {
            assert_eq!(Route::find(path, true), None, "{path}");
        }
        for path in ["/", "/explain", "/try"] {
            assert_eq!(Route::find(path, false), None, "{path}");
        }
        assert!(Route::find("/status", false).is_some());
    }
}
