//! What people and programs read: one JSON document or aligned words, never both.

use std::io::{self, IsTerminal as _, Write as _};

use everdict_app::Problem;
use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;

/// A hue that repeats what a word already says; plain text without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hue {
    Plain,
    Good,
    Bad,
    Warn,
    Odd,
    Faint,
}

impl Hue {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warn => "\x1b[33m",
            Self::Odd => "\x1b[35m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// Where output goes, and in which form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
}

impl Output {
    /// `no_colour` is true when NO_COLOR is set.
    pub(crate) fn new(json: bool, no_colour: bool) -> Self {
        let colour = !json && !no_colour && io::stdout().is_terminal();
        Self { json, colour }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints the one JSON document of a command, in the JSON form only.
    pub(crate) fn document(self, value: &impl Serialize) {
        if self.json {
            print_json(value, true);
        }
    }

    /// Prints one line of NDJSON, in the JSON form only: for commands that go on.
    pub(crate) fn event(self, value: &impl Serialize) {
        if self.json {
            print_json(value, false);
        }
    }

    /// Prints a line for people.
    pub(crate) fn say(self, line: impl AsRef<str>) {
        if !self.json {
            print_line(line.as_ref());
        }
    }

    /// Prints a table for people: a header and rows, columns aligned.
    pub(crate) fn table(self, header: &[&str], rows: &[Vec<Cell>]) {
        if self.json {
            return;
        }
        let mut widths: Vec<usize> = header.iter().map(|cell| width(cell)).collect();
        for row in rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(width(&cell.text));
            }
        }
        let head: Vec<Cell> = header.iter().map(|text| Cell::new(*text, Hue::Faint)).collect();
        self.row(&head, &widths);
        for row in rows {
            self.row(row, &widths);
        }
    }

    fn row(self, cells: &[Cell], widths: &[usize]) {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let last = column + 1 == cells.len();
            let pad = if last {
                0
            } else {
                widths[column] - width(&cell.text)
            };
            line.push_str(&self.paint(&cell.text, cell.hue));
            line.extend(std::iter::repeat_n(' ', pad));
            if !last {
                line.push_str("  ");
            }
        }
        print_line(line.trim_end());
    }

    pub(crate) fn paint(self, text: &str, hue: Hue) -> String {
        if self.colour && hue != Hue::Plain {
            format!("{}{text}\x1b[0m", hue.code())
        } else {
            text.to_owned()
        }
    }

    /// Prints what a person should know though the command goes on; to stderr in both forms.
    pub(crate) fn warn(self, line: impl AsRef<str>) {
        let _ = writeln!(io::stderr(), "warning: {}", line.as_ref());
    }

    /// Prints a problem: words on stderr, and in the JSON form the document on stdout too.
    pub(crate) fn problem(self, problem: &Problem) -> Exit {
        let exit = Exit::from(problem.class());
        if self.json {
            self.document(&json!({
                "error": {
                    "class": problem.class().as_str(),
                    "message": problem.chain(),
                    "fix": problem.next_step(),
                    "exitCode": exit.code(),
                }
            }));
        }
        let mut text = format!("error: {}\n", problem.chain());
        if let Some(fix) = problem.next_step() {
            text.push_str(&format!("  next: {fix}\n"));
        }
        let _ = io::stderr().write_all(text.as_bytes());
        exit
    }
}

/// One cell of a table.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    hue: Hue,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, hue: Hue) -> Self {
        Self {
            text: text.into(),
            hue,
        }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Hue::Plain)
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A closed pipe (`| head`) is the reader's choice, not an error of ours.
fn print_line(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

fn print_json(value: &impl Serialize, pretty: bool) {
    let text = if pretty {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    print_line(&text.expect("BUG: our own documents have string keys and finite numbers"));
}

/// Shows a duration in one format everywhere: `840 ms`, `12.3 s`, `2 m 10 s`, `1 h 05 m`.
pub(crate) fn duration(span: std::time::Duration) -> String {
    let ms = span.as_millis();
    let seconds = span.as_secs();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", span.as_secs_f64()),
        60_000..3_600_000 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Shows how long ago an RFC 3339 time was: `4 s ago`; a time that can't be read is shown as it is.
pub(crate) fn age(then: &str) -> String {
    let Ok(then_at) = then.parse::<jiff::Timestamp>() else {
        return then.to_owned();
    };
    let seconds = jiff::Timestamp::now().duration_since(then_at).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} m ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn durations_have_one_format() {
        for (ms, text) in [
            (840, "840 ms"),
            (12_340, "12.3 s"),
            (130_000, "2 m 10 s"),
            (3_900_000, "1 h 05 m"),
        ] {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn colour_is_never_needed() {
        let plain = Output {
            json: false,
            colour: false,
        };
        assert_eq!(plain.paint("pass", Hue::Good), "pass");
    }
}
