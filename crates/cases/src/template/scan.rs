//! Knows where in shell text a place stands.

/// Where in shell text a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Plain,
    Double,
    Single,
    Arithmetic,
    Comment,
    HereDocument,
    QuotedHereDocument,
}

/// Follows the quoting of shell text, one character at a time.
///
/// It knows quotes, backslashes, comments, substitutions and here-documents. Where the shell's grammar is richer than
/// that (a `case` label inside `$(…)`), a wrong guess costs a word split, never a command: the value stays in its
/// variable.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// What encloses the current place, innermost last.
    frames: Vec<Frame>,
    escaped: bool,
    /// The current word has begun, so `#` is no comment.
    in_word: bool,
    dollar: bool,
    /// The character before this one ended a `$(`.
    substitution: bool,
    here: Here,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Single,
    Double,
    Comment,
    /// `(` or `$(`: plain text again, until the matching `)`.
    Paren,
    /// One of the two parentheses of `$((`.
    Arithmetic,
    Backtick,
}

#[derive(Debug, Default)]
struct Here {
    /// Less-than signs just seen.
    arrows: usize,
    /// A delimiter being read.
    reading: Option<Delimiter>,
    /// Documents whose bodies start at the next line.
    pending: Vec<Delimiter>,
    /// The body we are in, and its current line.
    line: String,
}

#[derive(Debug, Default)]
struct Delimiter {
    word: String,
    quoted: bool,
    strip_tabs: bool,
    started: bool,
    in_body: bool,
}

impl Scan {
    pub(super) fn place(&self) -> Place {
        if let Some(document) = self.here.pending.first().filter(|document| document.in_body) {
            return if document.quoted {
                Place::QuotedHereDocument
            } else {
                Place::HereDocument
            };
        }
        match self.frames.last() {
            Some(Frame::Single) => Place::Single,
            Some(Frame::Double) => Place::Double,
            Some(Frame::Comment) => Place::Comment,
            Some(Frame::Arithmetic) => Place::Arithmetic,
            Some(Frame::Paren | Frame::Backtick) | None => Place::Plain,
        }
    }

    pub(super) fn word_goes_on(&mut self) {
        self.in_word = true;
        self.escaped = false;
        self.dollar = false;
        self.here.arrows = 0;
        self.here.finish_delimiter();
        // A line with a value in it is never the delimiter.
        self.here.line.push_str("{{}}");
    }

    pub(super) fn step(&mut self, c: char) {
        if self.here.in_body() {
            self.here.body(c);
            return;
        }
        if self.here.reading.is_some() && self.here.delimiter(c) {
            return;
        }
        if std::mem::take(&mut self.escaped) {
            self.in_word |= c != '\n';
            return;
        }
        let dollar = std::mem::replace(&mut self.dollar, c == '$');
        match self.frames.last() {
            Some(Frame::Single) => self.close_on(c, '\''),
            Some(Frame::Comment) => {
                if c == '\n' {
                    self.frames.pop();
                    self.plain(c, false);
                }
            }
            Some(Frame::Double) => self.double(c, dollar),
            _ => self.plain(c, dollar),
        }
    }

    fn close_on(&mut self, c: char, end: char) {
        if c == end {
            self.frames.pop();
        }
    }

    fn double(&mut self, c: char, dollar: bool) {
        match c {
            '\\' => self.escaped = true,
            '(' if dollar => {
                self.open(Frame::Paren);
                self.substitution = true;
            }
            '`' => self.backtick(),
            _ => self.close_on(c, '"'),
        }
    }

    fn plain(&mut self, c: char, dollar: bool) {
        let arrows = std::mem::take(&mut self.here.arrows);
        match c {
            '\\' => self.escaped = true,
            '\'' => self.open_in_word(Frame::Single),
            '"' => self.open_in_word(Frame::Double),
            '`' => self.backtick(),
            '#' if !self.in_word => self.frames.push(Frame::Comment),
            '(' if self.substitution => {
                self.frames.pop();
                self.frames.extend([Frame::Arithmetic, Frame::Arithmetic]);
            }
            '(' => self.open(Frame::Paren),
            ')' => {
                self.frames
                    .pop_if(|frame| matches!(frame, Frame::Paren | Frame::Arithmetic));
                self.in_word = true;
            }
            '<' => {
                self.in_word = false;
                self.here.arrows = arrows + 1;
            }
            '\n' => {
                self.in_word = false;
                self.here.start_body();
            }
            ' ' | '\t' | ';' | '&' | '|' | '>' => self.in_word = false,
            _ => self.in_word = true,
        }
        // Two arrows open a here-document, three a here-string, which is an ordinary word.
        self.substitution = dollar && c == '(';
        if arrows == 2 && c != '<' && self.frames.last() != Some(&Frame::Arithmetic) {
            self.here.open(c);
            self.in_word = true;
            self.retract(c);
        }
    }

    /// The character belongs to a here-document's delimiter: undo what it did as shell text.
    fn retract(&mut self, c: char) {
        match c {
            '\\' => self.escaped = false,
            '\'' | '"' => {
                self.frames.pop();
            }
            _ => {}
        }
    }

    fn open(&mut self, frame: Frame) {
        self.frames.push(frame);
        self.in_word = false;
    }

    fn open_in_word(&mut self, frame: Frame) {
        self.frames.push(frame);
        self.in_word = true;
    }

    fn backtick(&mut self) {
        match self.frames.iter().rposition(|frame| *frame == Frame::Backtick) {
            Some(at) => self.frames.truncate(at),
            None => self.open(Frame::Backtick),
        }
    }
}

impl Here {
    fn open(&mut self, c: char) {
        let mut delimiter = Delimiter {
            strip_tabs: c == '-',
            ..Delimiter::default()
        };
        if c != '-' {
            delimiter.take(c);
        }
        self.reading = Some(delimiter);
        if c == '\n' {
            self.finish_delimiter();
        }
    }

    /// Reads on in a delimiter; `false` when the character is shell text again.
    fn delimiter(&mut self, c: char) -> bool {
        let Some(delimiter) = self.reading.as_mut() else {
            return false;
        };
        let ends = matches!(c, '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
            || (matches!(c, ' ' | '\t') && delimiter.started);
        if ends {
            self.finish_delimiter();
            return false;
        }
        delimiter.take(c);
        true
    }

    fn finish_delimiter(&mut self) {
        self.pending
            .extend(self.reading.take().filter(|delimiter| delimiter.started));
    }

    fn start_body(&mut self) {
        self.finish_delimiter();
        if let Some(first) = self.pending.first_mut() {
            first.in_body = true;
        }
        self.line.clear();
    }

    fn in_body(&self) -> bool {
        self.pending.first().is_some_and(|document| document.in_body)
    }

    fn body(&mut self, c: char) {
        if c != '\n' {
            self.line.push(c);
            return;
        }
        let line = std::mem::take(&mut self.line);
        let Some(document) = self.pending.first() else {
            return;
        };
        let line = if document.strip_tabs {
            line.trim_start_matches('\t')
        } else {
            line.as_str()
        };
        if line == document.word {
            self.pending.remove(0);
            self.start_body();
        }
    }
}

impl Delimiter {
    fn take(&mut self, c: char) {
        match c {
            ' ' | '\t' | '\n' => {}
            '\'' | '"' | '\\' => {
                self.quoted = true;
                self.started = true;
            }
            _ => {
                self.word.push(c);
                self.started = true;
            }
        }
    }
}
