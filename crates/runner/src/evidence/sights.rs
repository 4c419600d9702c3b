//! What a case's browser does, in lines for whoever looks at the log here.

use everdict_contracts::TrackEntry;

/// Past this no address and no console line is read.
const MAX_CHARS: usize = 2_000;

/// `None` for what is no line: pictures, changes of the page, measurements.
pub(super) fn line(entry: &TrackEntry) -> Option<String> {
    let text = match entry {
        TrackEntry::Nav(nav) => format!("→ {}", nav.url),
        TrackEntry::Console(line) => format!("console {}: {}", line.level, line.text),
        TrackEntry::Network(request) => {
            let mut text = format!("{} {}", request.method, request.url);
            if let Some(status) = request.status {
                text.push_str(&format!(" {status}"));
            }
            if let Some(ms) = request.ms {
                text.push_str(&format!(" {ms:.0} ms"));
            }
            text
        }
        TrackEntry::Frames(_)
        | TrackEntry::DomEvents(_)
        | TrackEntry::StateDeltas(_)
        | TrackEntry::Logs(_)
        | TrackEntry::Runtime(_)
        | TrackEntry::Custom(_) => return None,
    };
    let line = text.chars().take(MAX_CHARS);
    Some(line.map(|c| if c.is_control() { ' ' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_contracts::{ConsoleEntry, FrameEntry, NavEntry, NetworkEntry};

    #[test]
    fn what_people_read_becomes_one_line_each() {
        let nav = TrackEntry::Nav(NavEntry {
            t: 0.0,
            url: "http://shop/".to_owned(),
        });
        assert_eq!(line(&nav).as_deref(), Some("→ http://shop/"));
        let console = TrackEntry::Console(ConsoleEntry {
            t: 0.0,
            level: "error".to_owned(),
            text: "two\nlines".to_owned(),
        });
        assert_eq!(line(&console).as_deref(), Some("console error: two lines"));
        let request = TrackEntry::Network(NetworkEntry {
            t: 0.0,
            method: "GET".to_owned(),
            url: format!("data:{}", "x".repeat(5_000)),
            status: Some(200.0),
            ms: Some(12.4),
            body_ref: None,
        });
        assert_eq!(line(&request).map(|line| line.chars().count()), Some(MAX_CHARS));
        let frame = TrackEntry::Frames(FrameEntry {
            t: 0.0,
            r#ref: "x".to_owned(),
            hash: None,
        });
        assert_eq!(line(&frame), None);
    }
}
