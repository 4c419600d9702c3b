use proptest::prelude::*;

use super::*;

const SECRET: &str = "s3cr3t/Tök+en&<\"'> 42";

fn redactor(secret: &str) -> Arc<Redactor> {
    Arc::new(Redactor::new([secret]))
}

/// What comes out of a stream that was cut at these places.
fn streamed(redactor: &Arc<Redactor>, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = redactor.stream();
    let (mut out, mut from) = (Vec::new(), 0);
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    for cut in cuts {
        out.extend_from_slice(&stream.push(&bytes[from..cut]));
        from = cut;
    }
    out.extend_from_slice(&stream.push(&bytes[from..]));
    out.extend(stream.finish());
    out
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// RFC 4648 by the book, apart from the code under test.
fn plain_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut text: String = bits
        .as_bytes()
        .chunks(6)
        .map(|chunk| {
            let bits = format!("{:0<6}", std::str::from_utf8(chunk).unwrap());
            char::from(ALPHABET[usize::from_str_radix(&bits, 2).unwrap()])
        })
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[test]
fn every_common_encoding_is_masked() {
    let redactor = redactor(SECRET);
    for form in [
        SECRET,
        "s3cr3t%2FT%C3%B6k%2Ben%26%3C%22%27%3E%2042",
        "s3cr3t%2fT%c3%b6k%2ben%26%3c%22%27%3e%2042",
        "s3cr3t%2FT%C3%B6k%2Ben%26%3C%22'%3E%2042",
        "s3cr3t%2FT%C3%B6k%2Ben%26%3C%22%27%3E+42",
        r#"s3cr3t/Tök+en&<\"'> 42"#,
        r#"s3cr3t\/Tök+en&<\"'> 42"#,
        r#"s3cr3t/T\u00f6k+en&<\"'> 42"#,
        r#"s3cr3t/T\u00F6k+en&<\"'> 42"#,
        r#"s3cr3t/Tök+en\u0026\u003c\"'\u003e 42"#,
        r#"s3cr3t/Tök+en&<\\\"'> 42"#,
        "s3cr3t/Tök+en&amp;&lt;&quot;&apos;&gt; 42",
        "s3cr3t/Tök+en&amp;&lt;&quot;&#39;&gt; 42",
        "s3cr3t/Tök+en&amp;&lt;&#34;&#39;&gt; 42",
        "s3cr3t/Tök+en&amp;&lt;\"'&gt; 42",
        r#"s3cr3t/Tök+en&<"'\''> 42"#,
    ] {
        let shown = redactor.text(&format!("a {form} b")).into_owned();
        assert_eq!(shown, "a *** b", "{form}");
    }
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(redactor.text(&hex), "***");
    assert_eq!(redactor.text("nothing of it: s3cr3t"), "nothing of it: s3cr3t");
}

#[test]
fn base64_is_masked_at_each_alignment() {
    let redactor = redactor(SECRET);
    for before in 0..3 {
        for after in 0..3 {
            let text = format!("{}{SECRET}{}", "x".repeat(before), "y".repeat(after));
            let encoded = plain_base64(text.as_bytes());
            for encoded in [
                encoded.replace('+', "-").replace('/', "_").replace('=', ""),
                encoded,
            ] {
                let shown = redactor.text(&encoded).into_owned();
                assert!(shown.contains("***"), "{encoded}");
                // At most the neighbours are left, and the characters that hold bits of them too.
                assert!(shown.len() <= "***".len() + 3 + 6, "{encoded} → {shown}");
            }
        }
    }
}

#[test]
fn base64_over_several_lines_is_masked() {
    let secret: String = (0..120u8).map(|at| char::from(b'!' + at % 90)).collect();
    let redactor = redactor(&secret);
    for width in [60, 64, 76] {
        let encoded = plain_base64(format!("user:{secret}").as_bytes());
        let wrapped: String = encoded
            .as_bytes()
            .chunks(width)
            .map(|line| format!("{}\r\n", std::str::from_utf8(line).unwrap()))
            .collect();
        let whole = redactor.text(&wrapped).into_owned();
        assert!(whole.len() < 32, "{whole}");
        for size in [1, 7, 76] {
            let cuts: Vec<_> = (0..wrapped.len()).step_by(size).collect();
            let shown = streamed(&redactor, wrapped.as_bytes(), &cuts);
            assert!(shown.len() < 32, "{}", String::from_utf8_lossy(&shown));
        }
    }
}

#[test]
fn a_key_of_several_lines_is_masked_line_by_line() {
    let redactor = redactor("-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQE\n-----END KEY-----");
    let shown = redactor
        .text("> MIIEvQIBADANBg\r\n> kqhkiG9w0BAQE\r\n")
        .into_owned();
    assert_eq!(shown, "> ***\r\n> ***\r\n");
}

#[test]
fn what_can_not_become_a_secret_shows_at_once() {
    let redactor = redactor("password-of-mine");
    let mut stream = redactor.stream();
    assert_eq!(&*stream.push(b"Continue? [y/N] "), b"Continue? [y/N] ");
    assert_eq!(&*stream.push(b"pass"), b"");
    assert_eq!(&*stream.push(b"ing tests\n"), b"passing tests\n");
    assert_eq!(&*stream.push(b"the password-of-"), b"the ");
    assert_eq!(&*stream.push(b"mine!"), b"***!");
    assert_eq!(stream.finish(), b"");
}

#[test]
fn the_beginning_of_a_secret_at_the_end_of_a_stream_is_masked() {
    let redactor = redactor("password-of-mine");
    let mut stream = redactor.stream();
    assert_eq!(&*stream.push(b"it is password-of-mi"), b"it is ");
    assert_eq!(stream.finish(), b"***");
    let mut stream = redactor.stream();
    assert_eq!(&*stream.push(b"let it pass"), b"let it ");
    assert_eq!(stream.finish(), b"pass");
}

#[test]
fn secrets_that_overlap_are_masked_as_one() {
    let redactor = Arc::new(Redactor::new(["abcdefgh", "efghijkl", "abcdefghijklmnop"]));
    assert_eq!(redactor.text("<abcdefghijkl>"), "<***>");
    let shown = streamed(&redactor, b"<abcdefghijklmnop>", &[9, 14]);
    assert_eq!(shown, b"<***>");
}

#[test]
fn short_texts_are_no_secrets_and_debug_shows_none() {
    let redactor = Redactor::new(["true", "", "long-enough"]);
    assert_eq!(redactor.text("true"), "true");
    assert_eq!(format!("{redactor:?}"), "Redactor { secrets: 1, .. }");
}

proptest! {
    // Each case builds matchers; the edges are found within a few dozen.
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_secret_split_anywhere_never_survives(
        secret in "[a-c+/&\"<é\\\\]{6,24}",
        around in prop::collection::vec("[a-c+/&\\n]{0,30}", 2..5),
        cuts in prop::collection::vec(0usize..400, 0..12),
        encode in 0usize..4,
    ) {
        let secret = secret.trim().to_owned();
        prop_assume!(secret.len() >= MIN_SECRET);
        let redactor = redactor(&secret);
        let form = match encode {
            0 => secret.clone(),
            1 => plain_base64(secret.as_bytes()).trim_end_matches('=').to_owned(),
            2 => secret.replace('\\', "\\\\").replace('"', "\\\""),
            _ => secret.bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        let text = around.join(&form);
        let shown = streamed(&redactor, text.as_bytes(), &cuts);
        // The last character of base64 may hold bits of what follows.
        let core = if encode == 1 { &form[..secret.len() * 8 / 6] } else { &form };
        prop_assert!(!holds(&shown, core), "{}", String::from_utf8_lossy(&shown));
        prop_assert!(!redactor.text(&text).contains(core));
    }

    #[test]
    fn what_is_no_secret_comes_through_as_it_was(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(0usize..300, 0..12),
    ) {
        let redactor = redactor("0123456789-abcdefghij");
        prop_assert_eq!(streamed(&redactor, &bytes, &cuts), bytes);
    }

    #[test]
    fn slicing_changes_nothing(
        parts in prop::collection::vec(prop::sample::select(vec!["abcdef", "abcdefg", "cdefgh", "ab", "\n", "x", "YWJjZGVm"]), 0..20),
        cuts in prop::collection::vec(0usize..200, 0..12),
    ) {
        let redactor = Arc::new(Redactor::new(["abcdef", "abcdefgh", "cdefghij"]));
        let text = parts.concat();
        let mut whole = redactor.stream();
        let mut once = whole.push(text.as_bytes()).into_owned();
        once.extend(whole.finish());
        prop_assert_eq!(streamed(&redactor, text.as_bytes(), &cuts), once);
    }
}

#[test]
fn a_case_without_secrets_of_its_own_shares_the_runners_matcher() {
    let base = Arc::new(Redactor::new(["hunter2-hunter2"]));
    assert!(Arc::ptr_eq(&base, &base.with(["  hunter2-hunter2\n", "short"])));
    let more = base.with(["correct-horse"]);
    assert_eq!(more.text("hunter2-hunter2 correct-horse"), "*** ***");
}
