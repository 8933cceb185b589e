//! The files of the page, which are parts of the program.

use aws_lc_rs::digest;
use howdah_text::hex;

/// A file of the page, as browsers get it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asset {
    /// Its path in URLs.
    pub(crate) path: &'static str,
    /// Its media type.
    pub(crate) kind: &'static str,
    /// Its content.
    pub(crate) content: &'static [u8],
}

/// Defines the files by their names in `assets`.
macro_rules! assets {
    ($($path:literal $name:literal $kind:ident;)*) => {
        &[$(Asset {
            path: $path,
            kind: $kind,
            content: include_bytes!(concat!("../assets/", $name)),
        }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All files.
const ASSETS: &[Asset] = assets! {
    "/" "index.html" HTML;
    "/style.css" "style.css" CSS;
    "/icon.svg" "icon.svg" SVG;
    "/app.js" "app.js" SCRIPT;
    "/dom.js" "dom.js" SCRIPT;
    "/format.js" "format.js" SCRIPT;
    "/server.js" "server.js" SCRIPT;
    "/store.js" "store.js" SCRIPT;
    "/chart.js" "chart.js" SCRIPT;
    "/sites.js" "sites.js" SCRIPT;
    "/site.js" "site.js" SCRIPT;
    "/requests.js" "requests.js" SCRIPT;
    "/parts.js" "parts.js" SCRIPT;
};

/// Returns the file at a path.
pub(crate) fn at(path: &[u8]) -> Option<Asset> {
    ASSETS.iter().find(|asset| asset.path.as_bytes() == path).copied()
}

impl Asset {
    /// Returns the entity tag.
    pub(crate) fn etag(&self) -> String {
        let digest = digest::digest(&digest::SHA256, self.content);
        format!("\"{}\"", hex::lower(digest.as_ref().get(..8).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of the page forbids all of it.
    #[test]
    fn no_file_has_inline_code_or_names_another_host() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.content).unwrap();
            assert!(text.len() < 64 << 10, "{}", asset.path);
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "style=",
                "onclick=",
            ] {
                assert!(!text.contains(forbidden), "{}: {forbidden}", asset.path);
            }
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for scheme in ["http://", "https://", "url(//", "src=\"//"] {
                assert!(!text.contains(scheme), "{}: {scheme}", asset.path);
            }
        }
    }
}
