//! The console at `/`: static files, embedded in the binary, so that only the binary has to be installed.
//!
//! The files are written by hand and served unchanged. Their policy (CSP) allows them to load from and connect to this server
//! only, and forbids markup made from strings: text from a log can be shown, and cannot run. Files that only the checks of
//! the console need (types, settings) are in the same folder and are not served.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the console.
#[derive(Debug, Clone, Copy)]
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($content_type:ident { $($path:literal)* })*) => {
        &[$($(Asset {
            path: concat!("/console/", $path),
            content_type: $content_type,
            bytes: include_bytes!(concat!("../console/", $path)),
        },)*)*]
    };
}

const INDEX: Asset = Asset { path: "/", content_type: HTML, bytes: include_bytes!("../console/index.html") };

const ASSETS: &[Asset] = assets! {
    CSS {
        "style/base.css" "style/layout.css" "style/parts.css" "style/forms.css" "style/overview.css" "style/pages.css"
        "style/workflows.css"
    }
    SVG { "icon.svg" }
    JAVASCRIPT {
        "theme.js" "main.js" "router.js" "shortcuts.js" "dom.js" "format.js" "api.js" "token.js" "live.js" "metrics.js"
        "chart.js" "parts.js" "table.js" "json.js" "follow.js" "event_log.js" "timeline.js" "audit.js" "template.js"
        "pages/overview.js" "pages/applications.js" "pages/application.js" "pages/partition.js" "pages/workspace.js"
        "pages/records.js" "pages/sequences.js" "pages/command.js" "pages/series.js" "pages/series_one.js"
        "pages/series_tools.js" "pages/blocks.js" "pages/workflows.js" "pages/workflow.js" "pages/workflow_tools.js"
    }
};

/// The routes of the console. They need no token: the files are the same for every caller, and contain no data.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new().route("/console", get(|| async { Redirect::permanent("/") }));
    for asset in ASSETS.iter().chain([&INDEX]) {
        let tag = asset.tag();
        router = router
            .route(asset.path, get(move |headers: HeaderMap| async move { asset.answer(&tag, &headers) }));
    }
    router
}

impl Asset {
    /// The entity tag: it changes when the file changes.
    fn tag(&self) -> HeaderValue {
        let mut hasher = DefaultHasher::new();
        self.bytes.hash(&mut hasher);
        let tag = HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish()));
        tag.unwrap_or(HeaderValue::from_static("\"\""))
    }

    /// The file, or status 304 if the client already has it.
    fn answer(&self, tag: &HeaderValue, headers: &HeaderMap) -> Response {
        let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag);
        let mut response = if known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, self.content_type)], self.bytes).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, tag.clone());
        for (name, value) in [
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
