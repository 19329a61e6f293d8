//! The files of the web console, embedded by the build script if `make console` has built them.
#![forbid(unsafe_code)]

/// Placeholder in the page for the nonce of an answer.
pub const NONCE_MARK: &str = "%NONCE%";

/// Files by path: each file, and its compressed forms with `.br` or `.gz` appended.
type Files = &'static [(&'static str, &'static [u8])];

/// In the order of the paths.
const FILES: Files = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The page of a build without the console.
const ABSENT: &str = include_str!("absent.html");

/// Content codings that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Brotli.
    pub br: bool,
    /// Gzip.
    pub gzip: bool,
}

/// A file in the form that suits the client best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Media type.
    pub media_type: &'static str,
    /// `content-encoding`; `None` for the plain file.
    pub coding: Option<&'static str>,
    /// Content.
    pub bytes: &'static [u8],
}

/// Returns whether this build contains the console.
pub fn is_present() -> bool {
    find(FILES, "index.html").is_some()
}

/// Returns the page, which contains [`NONCE_MARK`].
pub fn page() -> &'static str {
    find(FILES, "index.html").and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or(ABSENT)
}

/// Returns a file of the console other than the page. Names of files contain a hash of their
/// content, so a client may keep them.
pub fn asset(path: &str, accepted: Accepted) -> Option<Asset> {
    asset_of(FILES, path, accepted)
}

fn asset_of(files: Files, path: &str, accepted: Accepted) -> Option<Asset> {
    let media_type = media_type(path)?;
    let plain = find(files, path)?;
    let compressed = |ending: &str, is_accepted: bool| {
        let name = format!("{path}.{ending}");
        is_accepted.then(|| find(files, &name)).flatten()
    };
    let (coding, bytes) = match (compressed("br", accepted.br), compressed("gz", accepted.gzip)) {
        (Some(bytes), _) => (Some("br"), bytes),
        (None, Some(bytes)) => (Some("gzip"), bytes),
        (None, None) => (None, plain),
    };
    Some(Asset { media_type, coding, bytes })
}

fn find(files: Files, path: &str) -> Option<&'static [u8]> {
    let at = files.binary_search_by_key(&path, |(name, _)| name).ok()?;
    files.get(at).map(|(_, bytes)| *bytes)
}

/// Returns the media type by the ending of the path; `None` for files that are not served.
fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Files =
        &[("assets/a.js", b"plain"), ("assets/a.js.br", b"b"), ("assets/a.js.gz", b"g"), ("index.html", b"page")];

    fn coding(br: bool, gzip: bool) -> Option<&'static str> {
        asset_of(SAMPLE, "assets/a.js", Accepted { br, gzip }).unwrap().coding
    }

    #[test]
    fn best_accepted_coding_is_chosen() {
        assert_eq!(coding(true, true), Some("br"));
        assert_eq!(coding(false, true), Some("gzip"));
        assert_eq!(coding(false, false), None);
        let plain = asset_of(SAMPLE, "assets/a.js", Accepted::default()).unwrap();
        assert_eq!((plain.bytes, plain.media_type), (&b"plain"[..], "text/javascript; charset=utf-8"));
    }

    #[test]
    fn page_and_unknown_files_are_no_assets() {
        for path in ["index.html", "assets/a.js.br", "assets/b.js", "", "../Cargo.toml", "assets"] {
            assert_eq!(asset_of(SAMPLE, path, Accepted { br: true, gzip: true }), None, "{path}");
        }
    }

    #[test]
    fn page_has_one_nonce_and_no_inline_code() {
        assert_eq!(page().matches(NONCE_MARK).count(), 1);
        for page in [page(), ABSENT] {
            assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains("onload="));
        }
    }

    #[test]
    fn absent_page_names_the_command_to_build_it() {
        assert!(ABSENT.contains("make build") && ABSENT.contains(NONCE_MARK));
    }
}
