//! Lengths as the control plane counts them: UTF-16 code units.

/// The longest prefix of at most `limit` UTF-16 units.
pub(crate) fn take(text: &str, limit: usize) -> &str {
    let mut units = 0;
    for (index, c) in text.char_indices() {
        units += c.len_utf16();
        if units > limit {
            return &text[..index];
        }
    }
    text
}

/// The length in UTF-16 units.
pub(crate) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_taken_prefix_fits_and_the_next_character_would_not(text in ".{0,300}", limit in 1_usize..250) {
            let taken = take(&text, limit);
            prop_assert!(text.starts_with(taken));
            prop_assert!(units(taken) <= limit);
            if let Some(next) = text[taken.len()..].chars().next() {
                prop_assert!(units(taken) + next.len_utf16() > limit);
            }
        }
    }

    #[test]
    fn a_pair_of_surrogates_is_not_split() {
        assert_eq!(take("a😀b", 2), "a");
        assert_eq!(take("a😀b", 3), "a😀");
    }
}
