//! The end of the console, kept for the snapshot.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines kept: enough to see what a page complains about; a page that logs in a loop makes millions.
const MAX_LINES: usize = 1000;

#[derive(Default)]
pub(super) struct ConsoleTail {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    left_out: usize,
}

impl ConsoleTail {
    pub(super) fn push(&self, line: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.lines.len() == MAX_LINES {
            kept.lines.pop_front();
            kept.left_out += 1;
        }
        kept.lines.push_back(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let note = (kept.left_out > 0).then(|| format!("({} earlier lines left out)", kept.left_out));
        note.into_iter().chain(kept.lines.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_the_cut_shows() {
        let tail = ConsoleTail::default();
        for number in 0..MAX_LINES + 2 {
            tail.push(number.to_string());
        }
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "(2 earlier lines left out)");
        assert_eq!(lines[1], "2");
    }
}
