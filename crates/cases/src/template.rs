//! Renders a harness command: one pass over the author's text, values never parsed by the shell.
//!
//! A token such as `{{task}}` becomes a *parameter expansion* of a variable that holds the value; the value itself
//! is handed to the shell through the environment. The shell doesn't parse what an expansion yields, so no value can
//! end a quote, start a command or be expanded again, wherever the author put the token.
//!
//! The rule for the place of a token, in the author's shell text:
//!
//! | place | what the command gets |
//! |---|---|
//! | outside quotes | the value as one word: `"${V}"` |
//! | inside double quotes | the value, inside that word: `${V}` |
//! | inside single quotes | the value, inside that word: the quote is closed, `"${V}"`, and opened again |
//! | here-document | the value; a quoted delimiter expands nothing, so a token there is refused |
//! | comment | left as it is |
//!
//! A single-quoted string that is itself a program (`sh -c '… {{task}} …'`) gets the value as program text, as the
//! author's quotes say. Pass the value as an argument there: `sh -c '… "$1" …' sh {{task}}`.
//!
//! Tokens are `{{name}}` without inner spaces. `task`, `model` and `run_id` come first, then the harness's `params`.
//! Anything else in double braces is left as it is.

mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everdict_contracts::Fault;

use self::scan::{Place, Scan};

/// Linux gives one environment string or argument 32 pages; a longer value can't reach any process.
const MAX_VALUE_BYTES: usize = 128 * 1024 - 64;

/// Names a template may use, with their values.
#[derive(Debug, Default)]
pub(crate) struct Values<'a> {
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Values<'a> {
    /// `params` can't take the name of a built-in value.
    pub(crate) fn new(
        task: &'a str,
        model: &'a str,
        run_id: &'a str,
        params: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Self {
        let mut named: BTreeMap<_, _> = params
            .into_iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        named.extend([("task", task), ("model", model), ("run_id", run_id)]);
        Self { named }
    }
}

/// A command ready for `/bin/sh -c`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// The shell text, with expansions in place of the tokens.
    pub(crate) command: String,
    /// The variables those expansions read.
    pub(crate) env: Vec<(String, String)>,
    /// The text with the quoted values in place, for people to read.
    pub(crate) shown: String,
}

/// Renders `template`.
///
/// # Errors
/// `BAD_REQUEST` when a token stands where the shell expands nothing, or a value can't be handed to a process.
pub(crate) fn render(template: &str, values: &Values<'_>) -> Result<Rendered, Fault> {
    if template.contains('\0') {
        return Err(Fault::bad_request(
            "harnessSpec.command: must not contain a NUL character",
        ));
    }
    let mut renderer = Renderer {
        values,
        scan: Scan::default(),
        slots: BTreeMap::new(),
        out: Rendered::empty(),
    };
    let mut rest = template;
    while let Some(next) = rest.chars().next() {
        match token_at(rest, values) {
            Some((name, length)) => {
                renderer.token(name)?;
                rest = &rest[length..];
            }
            None => {
                renderer.out.push(next);
                renderer.scan.step(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    Ok(renderer.out)
}

/// The known token at the start of `text` and its length.
fn token_at<'a>(text: &str, values: &Values<'a>) -> Option<(&'a str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let end = inner.find("}}")?;
    let (name, _) = values.named.get_key_value(&inner[..end])?;
    Some((name, end + 4))
}

impl Rendered {
    fn empty() -> Self {
        Self {
            command: String::new(),
            env: Vec::new(),
            shown: String::new(),
        }
    }

    fn push(&mut self, c: char) {
        self.command.push(c);
        self.shown.push(c);
    }
}

struct Renderer<'v, 'a> {
    values: &'v Values<'a>,
    scan: Scan,
    slots: BTreeMap<&'a str, usize>,
    out: Rendered,
}

impl<'a> Renderer<'_, 'a> {
    fn token(&mut self, name: &'a str) -> Result<(), Fault> {
        let place = self.scan.place();
        if place == Place::Comment {
            let _infallible = write!(self.out.command, "{{{{{name}}}}}");
            let _infallible = write!(self.out.shown, "{{{{{name}}}}}");
            return Ok(());
        }
        let value = self.values.named[name];
        let slot = self.slot(name, value)?;
        let _infallible = match place {
            Place::Plain => write!(self.out.command, "\"${{{slot}}}\""),
            Place::Double | Place::Arithmetic | Place::HereDocument => {
                write!(self.out.command, "${{{slot}}}")
            }
            Place::Single => write!(self.out.command, "'\"${{{slot}}}\"'"),
            Place::QuotedHereDocument | Place::Comment => {
                return Err(Fault::bad_request(format!(
                    "harnessSpec.command: {{{{{name}}}}} stands in a here-document with a quoted delimiter, where the \
                     shell expands nothing; drop the quotes around the delimiter"
                )));
            }
        };
        match place {
            Place::Plain => self.out.shown.push_str(&quote(value)),
            _ => self.out.shown.push_str(value),
        }
        self.scan.word_goes_on();
        Ok(())
    }

    /// The variable that carries the value of `name`.
    fn slot(&mut self, name: &'a str, value: &str) -> Result<String, Fault> {
        if value.contains('\0') {
            return Err(Fault::bad_request(format!(
                "the value of {{{{{name}}}}} contains a NUL character, which no process can take"
            )));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(Fault::bad_request(format!(
                "the value of {{{{{name}}}}} is {} bytes long; a process takes at most {MAX_VALUE_BYTES} in one string",
                value.len()
            )));
        }
        let next = self.slots.len();
        let number = *self.slots.entry(name).or_insert(next);
        let variable = format!("EVERDICT_VALUE_{number}");
        if number == next {
            self.out.env.push((variable.clone(), value.to_owned()));
        }
        Ok(variable)
    }
}

/// A value as one single-quoted shell word.
pub(crate) fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}
