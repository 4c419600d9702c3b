//! Writes a form with files.

use uuid::Uuid;

/// One part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// A file when it has a name for it.
    pub(crate) filename: Option<String>,
    pub(crate) content: Vec<u8>,
}

/// A form as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// Writes the parts in order, under a boundary that nobody can guess and that no part holds.
pub(crate) fn write(parts: &[Part]) -> Form {
    let boundary = loop {
        let candidate = format!("everdict-{}", Uuid::new_v4().simple());
        if is_free(&candidate, parts) {
            break candidate;
        }
    };
    write_with(&boundary, parts)
}

fn is_free(boundary: &str, parts: &[Part]) -> bool {
    let boundary = boundary.as_bytes();
    !parts.iter().any(|part| {
        part.content
            .windows(boundary.len())
            .any(|window| window == boundary)
    })
}

fn write_with(boundary: &str, parts: &[Part]) -> Form {
    let mut body = Vec::new();
    for part in parts {
        let mut head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{}\"",
            escaped(&part.name)
        );
        if let Some(filename) = &part.filename {
            head.push_str(&format!(
                "; filename=\"{}\"\r\ncontent-type: application/octet-stream",
                escaped(filename)
            ));
        }
        head.push_str("\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&part.content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Form {
        content_type: format!("multipart/form-data; boundary={boundary}"),
        body,
    }
}

/// As browsers write names: https://html.spec.whatwg.org/#multipart-form-data
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' => out.push_str("%22"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, filename: Option<&str>, content: &str) -> Part {
        Part {
            name: name.to_owned(),
            filename: filename.map(str::to_owned),
            content: content.into(),
        }
    }

    #[test]
    fn texts_and_files_stand_in_order() {
        let form = write_with(
            "B",
            &[part("task", None, "hi"), part("f", Some("a.txt"), "x\r\ny")],
        );
        assert_eq!(
            String::from_utf8(form.body).unwrap(),
            "--B\r\ncontent-disposition: form-data; name=\"task\"\r\n\r\nhi\r\n\
             --B\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\
             content-type: application/octet-stream\r\n\r\nx\r\ny\r\n--B--\r\n"
        );
        assert_eq!(form.content_type, "multipart/form-data; boundary=B");
    }

    /// A name could end the header, or start a part of its own.
    #[test]
    fn a_name_can_not_break_out() {
        let form = write_with("B", &[part("a\"; x=\"1\r\n\r\n--B--", Some("b\n.txt"), "")]);
        let text = String::from_utf8(form.body).unwrap();
        assert!(text.contains("name=\"a%22; x=%221%0D%0A%0D%0A--B--\""), "{text}");
        assert!(text.contains("filename=\"b%0A.txt\""), "{text}");
    }

    #[test]
    fn no_two_forms_share_a_boundary_and_no_part_holds_it() {
        let parts = [part("f", Some("f"), "xx--everdict-1--yy")];
        assert!(!is_free("everdict-1", &parts));
        assert!(is_free("everdict-2", &parts));
        assert_ne!(write(&parts).content_type, write(&parts).content_type);
    }
}
