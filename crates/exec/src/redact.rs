//! Keeps known secrets out of everything that is shown, kept or sent.
//!
//! One matcher for all ways out: the live view, what is kept of a process' output, what is uploaded, and the result. A
//! secret is found as it is and in the forms in which programs print it (`encodings`), however a stream is sliced.

mod encodings;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// What stands for a secret.
const MASK: &str = "***";

/// A shorter text would be found in the middle of ordinary words, and its masking would give it away.
const MIN_SECRET: usize = 6;

/// A longer one is a file, and would cost the matcher more than it can hide.
const MAX_SECRET: usize = 64 << 10;

/// A stream that ends within a secret shows no more of it than this.
const MAX_STUB: usize = 7;

/// What a line break inside base64 may hide at most: fewer characters at the end of a line are no reason to hold the
/// line back until the next one comes.
const WRAP_SLACK: usize = 3;

/// A case with secrets of its own has a matcher of its own. The library's own choice for so few texts searches a little
/// faster, and takes six times as long to build: half a millisecond for one secret, as much as a short case.
const MATCHER: Option<AhoCorasickKind> = Some(AhoCorasickKind::ContiguousNFA);

/// The secrets of one case in every form that is looked for.
pub struct Redactor {
    secrets: Vec<String>,
    plain: Needles,
    /// The base64 forms without their first characters, looked for in the text without its line breaks: `base64`
    /// breaks its output every 76 characters.
    wrapped: Needles,
}

/// Forms to look for.
struct Needles {
    /// In order, so that what begins with a given text stands together.
    sorted: Vec<String>,
    longest: usize,
    matcher: Option<AhoCorasick>,
}

impl Needles {
    fn new(mut sorted: Vec<String>) -> Self {
        sorted.sort_unstable();
        sorted.dedup();
        let longest = sorted.iter().map(String::len).max().unwrap_or_default();
        let matcher = (!sorted.is_empty())
            .then(|| AhoCorasick::builder().kind(MATCHER).build(&sorted).ok())
            .flatten();
        Self {
            sorted,
            longest,
            matcher,
        }
    }

    fn find(&self, bytes: &[u8], found: &mut Vec<Range<usize>>) {
        if let Some(matcher) = &self.matcher {
            found.extend(matcher.find_overlapping_iter(bytes).map(|hit| hit.range()));
        }
    }

    /// Where the longest end of `bytes` starts that may yet become a needle; the length of `bytes` if none may.
    fn may_begin_at(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        (first..bytes.len())
            .find(|at| self.is_beginning(&bytes[*at..]))
            .unwrap_or(bytes.len())
    }

    fn is_beginning(&self, text: &[u8]) -> bool {
        let at = self.sorted.partition_point(|needle| needle.as_bytes() < text);
        self.sorted
            .get(at)
            .is_some_and(|needle| needle.len() > text.len() && needle.as_bytes().starts_with(text))
    }
}

impl Redactor {
    /// A redactor of these secrets. Those that are too short to be told from ordinary text are left out.
    pub fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut kept: Vec<String> = secrets.into_iter().filter_map(worth_hiding).collect();
        kept.sort_unstable();
        kept.dedup();
        let (mut plain, mut wrapped) = (Vec::new(), Vec::new());
        for secret in &kept {
            plain.extend(encodings::texts(secret));
            for form in encodings::base64(secret) {
                // The second is found when the first characters of the first have gone out at the end of a line. What is
                // left must still be long enough to be nothing else.
                for from in [WRAP_SLACK, 2 * WRAP_SLACK] {
                    if form.len() >= from + 3 * WRAP_SLACK {
                        wrapped.push(form[from..].to_owned());
                    }
                }
                plain.push(form);
            }
        }
        plain.retain(|needle| needle.len() >= MIN_SECRET);
        Self {
            secrets: kept,
            plain: Needles::new(plain),
            wrapped: Needles::new(wrapped),
        }
    }

    /// A redactor that knows no secret.
    #[must_use]
    pub fn none() -> Self {
        Self::new(std::iter::empty::<String>())
    }

    /// This one's secrets and `more`; itself where it knows them all.
    #[must_use]
    pub fn with<S: Into<String>>(self: &Arc<Self>, more: impl IntoIterator<Item = S>) -> Arc<Self> {
        let unknown: Vec<String> = more
            .into_iter()
            .filter_map(worth_hiding)
            .filter(|secret| self.secrets.binary_search(secret).is_err())
            .collect();
        if unknown.is_empty() {
            return Arc::clone(self);
        }
        Arc::new(Self::new(self.secrets.iter().cloned().chain(unknown)))
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The text with every secret masked.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let hits = self.hits(text.as_bytes());
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = Vec::with_capacity(text.len());
        replace(text.as_bytes(), &hits, &mut masked);
        // Needles are text, so what is between them is too.
        Cow::Owned(String::from_utf8_lossy(&masked).into_owned())
    }

    /// A masked view of a stream that comes in pieces.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> RedactedStream {
        RedactedStream {
            redactor: Arc::clone(self),
            held: Vec::new(),
        }
    }

    /// What is to be masked: in order, apart from each other.
    fn hits(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.plain.find(bytes, &mut found);
        if self.wrapped.matcher.is_some() && has_break(bytes) {
            let unwrapped = Unwrapped::new(bytes);
            let mut inner = Vec::new();
            self.wrapped.find(&unwrapped.bytes, &mut inner);
            found.extend(inner.into_iter().map(|hit| unwrapped.original(&hit)));
        }
        found.sort_unstable_by_key(|hit| hit.start);
        let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for hit in found {
            match apart.last_mut() {
                Some(last) if hit.start < last.end => last.end = last.end.max(hit.end),
                _ => apart.push(hit),
            }
        }
        apart
    }

    /// Up to where `bytes` can't become part of a secret by what follows.
    fn settled(&self, bytes: &[u8]) -> usize {
        let plain = self.plain.may_begin_at(bytes);
        if self.wrapped.matcher.is_none() || !has_break(bytes) {
            return plain;
        }
        let unwrapped = Unwrapped::new(bytes);
        let at = self.wrapped.may_begin_at(&unwrapped.bytes);
        if unwrapped.bytes.len() - at > WRAP_SLACK {
            plain.min(unwrapped.places[at])
        } else {
            plain
        }
    }
}

/// The secret without the blanks around it, if it can be looked for.
fn worth_hiding(secret: impl Into<String>) -> Option<String> {
    let secret = secret.into().trim().to_owned();
    (MIN_SECRET..=MAX_SECRET)
        .contains(&secret.len())
        .then_some(secret)
}

/// Shows how many there are, and no more.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("secrets", &self.secrets.len())
            .finish_non_exhaustive()
    }
}

/// A text without its line breaks.
struct Unwrapped {
    bytes: Vec<u8>,
    /// Where each byte was.
    places: Vec<usize>,
}

impl Unwrapped {
    fn new(bytes: &[u8]) -> Self {
        let kept = || {
            bytes
                .iter()
                .enumerate()
                .filter(|(_, byte)| !matches!(byte, b'\n' | b'\r'))
        };
        Self {
            bytes: kept().map(|(_, byte)| *byte).collect(),
            places: kept().map(|(at, _)| at).collect(),
        }
    }

    fn original(&self, hit: &Range<usize>) -> Range<usize> {
        self.places[hit.start]..self.places[hit.end - 1] + 1
    }
}

fn has_break(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

fn replace(bytes: &[u8], hits: &[Range<usize>], into: &mut Vec<u8>) {
    let mut from = 0;
    for hit in hits {
        into.extend_from_slice(&bytes[from..hit.start]);
        into.extend_from_slice(MASK.as_bytes());
        from = hit.end;
    }
    into.extend_from_slice(&bytes[from..]);
}

/// Masks a stream. Holds back only what may yet turn out to be a secret, so a prompt without a newline shows at once.
#[derive(Debug)]
pub struct RedactedStream {
    redactor: Arc<Redactor>,
    held: Vec<u8>,
}

impl RedactedStream {
    /// Takes the next bytes, and gives out those that are settled.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.redactor.is_empty() {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        let hits = self.redactor.hits(&self.held);
        let mut settled = self.redactor.settled(&self.held);
        // A secret that is there may be the beginning of a longer one: it waits whole.
        if let Some(across) = hits.iter().find(|hit| hit.contains(&settled)) {
            settled = across.start;
        }
        let done: Vec<_> = hits.into_iter().take_while(|hit| hit.end <= settled).collect();
        let mut out = Vec::with_capacity(settled);
        replace(&self.held[..settled], &done, &mut out);
        self.held.drain(..settled);
        Cow::Owned(out)
    }

    /// Ends the stream, and gives out the rest. The beginning of a secret that was cut off is masked as well.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let mut hits = self.redactor.hits(&self.held);
        let stub = self.redactor.settled(&self.held);
        let covered = hits.last().map_or(0, |hit| hit.end);
        if self.held.len() - stub > MAX_STUB && covered < self.held.len() {
            match hits.last_mut() {
                Some(last) if last.end > stub => last.end = self.held.len(),
                _ => hits.push(stub..self.held.len()),
            }
        }
        let mut out = Vec::new();
        replace(&self.held, &hits, &mut out);
        self.held.clear();
        out
    }
}

#[cfg(test)]
mod tests;
