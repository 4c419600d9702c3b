//! The forms in which programs print a secret.

use std::fmt::Write as _;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What `encodeURIComponent` leaves as it is, beyond letters and digits.
const COMPONENT: &str = "-_.!~*'()";
/// What RFC 3986 does.
const UNRESERVED: &str = "-_.~";
/// What a form does.
const FORM: &str = "-_.*";

/// The secret itself, and escaped as URLs, JSON, XML, shells and hex dumps have it.
pub(super) fn texts(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    // A key over several lines is printed line by line, and with other line ends.
    forms.extend(secret.lines().map(|line| line.trim().to_owned()));
    for kept in [COMPONENT, UNRESERVED, FORM] {
        for upper in [true, false] {
            let escaped = percent(secret, kept, upper);
            forms.push(escaped.replace("%20", "+"));
            forms.push(escaped);
        }
    }
    for json in [
        json(secret, "", false),
        json(secret, "/", false),
        json(secret, "", true),
        // As Go does, against script injection.
        json(secret, "<>&", false),
        json(secret, "<>&", true),
    ] {
        // JSON in a string of JSON: how an agent's own stream carries what a tool printed.
        forms.push(self::json(&json, "", false));
        forms.push(upper_escapes(&json));
        forms.push(json);
    }
    for [quote, apostrophe] in [
        ["\"", "'"],
        ["&quot;", "'"],
        ["&quot;", "&apos;"],
        ["&quot;", "&#39;"],
        ["&#34;", "&#39;"],
        ["&quot;", "&#x27;"],
    ] {
        forms.push(xml(secret, quote, apostrophe));
    }
    forms.push(secret.replace('\'', r"'\''"));
    let hex = secret.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    forms.push(hex.to_uppercase());
    forms.push(hex);
    forms
}

/// What base64 makes of the secret wherever in a longer text it stands: the characters that depend on it alone, for
/// each of the three alignments.
pub(super) fn base64(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3_usize {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(secret.as_bytes());
            let whole = encode(&bytes, alphabet);
            // The first characters hold bits of what stands before, the last one may hold bits of what follows.
            let start = (before * 8).div_ceil(6);
            let end = bytes.len() * 8 / 6;
            forms.push(whole[start..end].to_owned());
        }
    }
    forms
}

fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or_default())
        });
        for shift in [18, 12, 6, 0] {
            text.push(char::from(alphabet[bits >> shift & 63]));
        }
    }
    text
}

fn percent(text: &str, kept: &str, upper: bool) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let plain = byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
        let _ = match (plain, upper) {
            (true, _) => write!(out, "{}", char::from(byte)),
            (false, true) => write!(out, "%{byte:02X}"),
            (false, false) => write!(out, "%{byte:02x}"),
        };
        out
    })
}

fn json(text: &str, also: &str, ascii: bool) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str(r"\\"),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            '\t' => out.push_str(r"\t"),
            '/' if also.contains('/') => out.push_str(r"\/"),
            letter if letter < ' ' || (ascii && !letter.is_ascii()) || also.contains(letter) => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            letter => out.push(letter),
        }
    }
    out
}

/// `\u00e9` as `\u00E9`.
fn upper_escapes(json: &str) -> String {
    let mut pieces = json.split(r"\u");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(4).unwrap_or((piece, ""));
        let _ = write!(out, r"\u{}{rest}", digits.to_ascii_uppercase());
    }
    out
}

fn xml(text: &str, quote: &str, apostrophe: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', quote)
        .replace('\'', apostrophe)
}
