//! Capabilities as a set that is cheap to compare.

use everdict_contracts::Capability;

/// A set of the capabilities that gate a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct CapSet(u32);

impl CapSet {
    /// What of `self` is not in `advertised`.
    pub(crate) fn missing_from(self, advertised: Self) -> Self {
        Self(self.0 & !advertised.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, in the order of the vocabulary.
    pub(crate) fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL
            .into_iter()
            .filter(move |capability| self.0 & bit(*capability) != 0)
    }

    /// Parses stored or reported names; names outside the vocabulary are left out.
    pub(crate) fn from_names<T: AsRef<str>>(names: &[T]) -> Self {
        names
            .iter()
            .filter_map(|name| name.as_ref().parse::<Capability>().ok())
            .collect()
    }
}

impl FromIterator<Capability> for CapSet {
    fn from_iter<T: IntoIterator<Item = Capability>>(capabilities: T) -> Self {
        capabilities
            .into_iter()
            .filter(|capability| capability.is_functional())
            .fold(Self::default(), |set, capability| Self(set.0 | bit(capability)))
    }
}

fn bit(capability: Capability) -> u32 {
    1 << (capability as u32)
}
