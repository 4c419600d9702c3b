//! The one error that reaches a person: what failed, why, and the next step.

use std::error::Error as StdError;
use std::fmt;

/// The class of a problem; a program decides by it (exit codes, retry), never by the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProblemClass {
    /// Anything that has no class of its own.
    General,
    /// A file, flag, URL, token or settings key that can't be used as it is.
    Input,
    /// No registration or no credential for what was asked.
    NotPaired,
    /// The hub gave no usable answer.
    HubUnreachable,
    /// The hub answered and refused the credential or the action.
    Refused,
    /// Something on this machine: a port in use, a folder that can't be written, a keyring.
    Machine,
    /// The person stopped it.
    Interrupted,
}

impl ProblemClass {
    /// Returns the stable name used in JSON output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Input => "input",
            Self::NotPaired => "not_paired",
            Self::HubUnreachable => "hub_unreachable",
            Self::Refused => "refused",
            Self::Machine => "machine",
            Self::Interrupted => "interrupted",
        }
    }
}

type Source = Box<dyn StdError + Send + Sync>;

/// A failure in a person's words, with its next step.
///
/// `Display` is the sentence without the cause; the cause is in `source()`.
#[derive(Debug)]
pub struct Problem {
    class: ProblemClass,
    code: Option<&'static str>,
    what: String,
    fix: Option<String>,
    source: Option<Source>,
}

/// The result type of this crate.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    /// Creates a problem of `class` that says `what` (lower case, no full stop).
    pub fn new(class: ProblemClass, what: impl Into<String>) -> Self {
        Self {
            class,
            code: None,
            what: what.into(),
            fix: None,
            source: None,
        }
    }

    /// Creates a problem about input.
    pub fn input(what: impl Into<String>) -> Self {
        Self::new(ProblemClass::Input, what)
    }

    /// Creates a problem about this machine.
    pub fn machine(what: impl Into<String>) -> Self {
        Self::new(ProblemClass::Machine, what)
    }

    /// Adds the next step.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the class.
    #[must_use]
    pub fn class(&self) -> ProblemClass {
        self.class
    }

    /// Tells it apart from others of its class.
    #[must_use]
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Returns the code, else the name of the class; a window decides by it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code.unwrap_or(self.class.as_str())
    }

    /// Returns the next step, when there is one.
    #[must_use]
    pub fn next_step(&self) -> Option<&str> {
        self.fix.as_deref()
    }

    /// Returns the sentence with its whole chain of causes, joined by `: `.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.what.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            let line = cause.to_string();
            // Some libraries repeat their source in Display; saying it twice helps nobody.
            if !text.contains(&line) {
                text.push_str(": ");
                text.push_str(&line);
            }
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl StdError for Problem {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_names_each_cause_once() {
        let cause = std::io::Error::other("disk on fire");
        let problem = Problem::machine("save settings.toml").because(cause);
        assert_eq!(problem.to_string(), "save settings.toml");
        assert_eq!(problem.chain(), "save settings.toml: disk on fire");
    }
}
