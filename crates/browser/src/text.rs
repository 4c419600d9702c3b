//! Cutting text.

/// Shortens a text to at most `max` characters, the last of which then says that it was cut.
pub(crate) fn clip(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn a_cut_text_keeps_the_limit_and_shows_the_cut() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("äöüß", 3), "äö…");
        assert_eq!(clip("", 3), "");
    }
}
