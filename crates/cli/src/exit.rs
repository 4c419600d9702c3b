//! The one table of exit codes.

use everdict_app::ProblemClass;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    Failure,
    Usage,
    NotPaired,
    HubUnreachable,
    Refused,
    Machine,
    Interrupted,
}

/// Every exit with its meaning, in order of the code.
pub(crate) const TABLE: [(Exit, &str); 8] = [
    (Exit::Ok, "done; with --wait: every case passed"),
    (
        Exit::Failure,
        "general failure; with --wait or demo: a verdict is not as wanted; foreground form: no usable token",
    ),
    (
        Exit::Usage,
        "bad usage or bad input (flag, file, URL, settings key); the message names the place",
    ),
    (Exit::NotPaired, "not paired, or no credential for the hub"),
    (
        Exit::HubUnreachable,
        "the hub can't be reached or gives no usable answer",
    ),
    (Exit::Refused, "the hub refuses the credential or the action"),
    (
        Exit::Machine,
        "a problem on this machine: port in use, folder that can't be written, keyring",
    ),
    (
        Exit::Interrupted,
        "interrupted by SIGINT or SIGTERM before the work was done",
    ),
];

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotPaired => 3,
            Self::HubUnreachable => 4,
            Self::Refused => 5,
            Self::Machine => 6,
            // 128 + SIGINT, as shells do.
            Self::Interrupted => 130,
        }
    }
}

impl From<ProblemClass> for Exit {
    fn from(class: ProblemClass) -> Self {
        match class {
            ProblemClass::General => Self::Failure,
            ProblemClass::Input => Self::Usage,
            ProblemClass::NotPaired => Self::NotPaired,
            ProblemClass::HubUnreachable => Self::HubUnreachable,
            ProblemClass::Refused => Self::Refused,
            ProblemClass::Machine => Self::Machine,
            ProblemClass::Interrupted => Self::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_code_once_in_order() {
        let codes: Vec<u8> = TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 130]);
    }
}
