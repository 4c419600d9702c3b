//! Text rules shared by the graders.

use everdict_contracts::{Message, Role, TraceEvent, TraceEventKind};

/// How much command output a score's `detail` carries: a page of a test report's end, where the verdict is.
pub(crate) const DETAIL_CHARS: usize = 2_000;

/// The last `limit` characters, never splitting one.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    match text.char_indices().rev().nth(limit.saturating_sub(1)) {
        Some((at, _)) if limit > 0 => &text[at..],
        _ if limit == 0 => "",
        _ => text,
    }
}

/// Lower case with every run of white space as one space, none at the ends.
pub(crate) fn normalized(text: &str) -> String {
    text.split_whitespace()
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What the agent said last; empty when it said nothing.
pub(crate) fn final_answer(trace: &[TraceEvent]) -> &str {
    trace
        .iter()
        .rev()
        .find_map(|event| match &event.kind {
            TraceEventKind::Message(Message {
                role: Role::Assistant,
                text,
            }) => Some(text.as_str()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Standard output, then standard error on its own line.
pub(crate) fn combined(stdout: &str, stderr: &str) -> String {
    match (stdout.is_empty(), stderr.is_empty()) {
        (_, true) => stdout.to_owned(),
        (true, false) => stderr.to_owned(),
        (false, false) if stdout.ends_with('\n') => format!("{stdout}{stderr}"),
        (false, false) => format!("{stdout}\n{stderr}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_counts_characters_and_never_splits_one() {
        assert_eq!(tail("añb日", 2), "b日");
        assert_eq!(tail("ab", 5), "ab");
        assert_eq!(tail("ab", 2), "ab");
        assert_eq!(tail("ab", 0), "");
        assert_eq!(tail("", 3), "");
    }

    #[test]
    fn normalized_ignores_case_and_layout() {
        assert_eq!(normalized("  The\n ANSWER\tis  42 "), "the answer is 42");
    }
}
