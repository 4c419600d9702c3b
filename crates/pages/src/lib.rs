//! The window's built pages (`ui/dist`), embedded at build time.
//!
//! Where they were not built yet the list is empty, so that the headless parts build without Node. It holds files and
//! nothing else: who serves them, and to whom, is decided elsewhere.

/// A file of the pages.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Its path, beginning with a slash.
    pub path: &'static str,
    /// Its media type.
    pub mime: &'static str,
    /// What it holds.
    pub body: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_pages_have_their_start_and_no_path_of_this_machine() {
        for page in PAGES {
            assert!(
                page.path.starts_with('/') && !page.path.contains(".."),
                "{}",
                page.path
            );
            assert!(!page.mime.is_empty() && !page.body.is_empty(), "{}", page.path);
        }
        let has_start = PAGES.iter().any(|page| page.path == "/index.html");
        assert_eq!(has_start, !PAGES.is_empty());
    }
}
