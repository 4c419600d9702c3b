//! The little of netlink that a set of packet rules needs.

use std::net::IpAddr;

/// Starts and ends a batch, which the kernel takes as a whole or not at all.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// The subsystem of packet rules.
const NFTABLES: u16 = 10;

const REQUEST: u16 = 0x1;
/// Asks for an answer to each message.
const REQUEST_AND_ACK: u16 = REQUEST | 0x4;
/// Make it unless it is there.
pub(super) const CREATE: u16 = 0x400;
/// Put it behind the others.
pub(super) const APPEND: u16 = 0x800;

const ERROR_MESSAGE: u16 = 2;
/// The family of IPv6, as Linux numbers them.
pub(super) const IPV6: u8 = 10;

const HEADER: usize = 16;
const NESTED: u16 = 0x8000;

/// Attributes one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attrs(Vec<u8>);

impl Attrs {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).expect("BUG: an attribute fits into 64 KB");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, &[value.as_bytes(), b"\0"].concat())
    }

    /// In the order of the network, as packet rules have their numbers.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(super) fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }
}

/// A batch of messages about one address family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    family: u8,
    count: u32,
    bytes: Vec<u8>,
}

impl Batch {
    pub(super) fn new(family: u8) -> Self {
        let mut batch = Self {
            family,
            count: 0,
            bytes: Vec::new(),
        };
        batch.frame(BATCH_BEGIN);
        batch
    }

    /// Adds a message of the subsystem.
    pub(super) fn add(&mut self, message: u16, flags: u16, attrs: &Attrs) {
        let about = [self.family, 0, 0, 0];
        self.push(NFTABLES << 8 | message, REQUEST_AND_ACK | flags, about, attrs);
        self.count += 1;
    }

    /// Begins or ends the batch, which is for the subsystem and no family.
    fn frame(&mut self, kind: u16) {
        let [high, low] = NFTABLES.to_be_bytes();
        self.push(kind, REQUEST, [0, 0, high, low], &Attrs::new());
    }

    fn push(&mut self, kind: u16, flags: u16, about: [u8; 4], attrs: &Attrs) {
        let length = u32::try_from(HEADER + 4 + attrs.0.len()).expect("BUG: a message fits into 4 GB");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        // Numbers the messages, so that an answer says which one it is about.
        self.bytes.extend(self.count.to_ne_bytes());
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(about);
        self.bytes.extend(&attrs.0);
    }

    /// How many answers there will be when all is well.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn is_of_ipv6(&self) -> bool {
        self.family == IPV6
    }

    /// The bytes for the kernel, and how many answers there will be when all is well.
    pub(super) fn finish(mut self) -> (Vec<u8>, u32) {
        self.frame(BATCH_END);
        (self.bytes, self.count)
    }
}

/// Reads answers: how many say that all is well, and the first error number of one that doesn't.
pub(super) fn answers(mut bytes: &[u8]) -> (u32, Option<i32>) {
    let (mut well, mut wrong) = (0, None);
    let word =
        |bytes: &[u8], at: usize| Some(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).expect("BUG: four bytes"));
    while let (Some(length), Some(kind)) = (word(bytes, 0), bytes.get(4..6)) {
        let length = usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX);
        if kind == ERROR_MESSAGE.to_ne_bytes()
            && let Some(code) = word(bytes, HEADER)
        {
            match i32::from_ne_bytes(code) {
                0 => well += 1,
                code => wrong = wrong.or(Some(code.saturating_neg())),
            }
        }
        match bytes.get(length.next_multiple_of(4)..) {
            Some(rest) if length >= HEADER => bytes = rest,
            _ => break,
        }
    }
    (well, wrong)
}

/// The bytes of an address, as they are in a packet.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Attrs, Batch, answers};

    #[test]
    fn attributes_are_padded_and_their_length_is_not() {
        let attrs = Attrs::new().text(1, "ab").number(2, 1);
        let mut expected = Vec::new();
        expected.extend(7_u16.to_ne_bytes());
        expected.extend(1_u16.to_ne_bytes());
        expected.extend(b"ab\0\0");
        expected.extend(8_u16.to_ne_bytes());
        expected.extend(2_u16.to_ne_bytes());
        expected.extend([0, 0, 0, 1]);
        assert_eq!(attrs.0, expected);
    }

    #[test]
    fn a_batch_is_framed_and_counts_what_it_asks() {
        let mut batch = Batch::new(2);
        batch.add(0, 0, &Attrs::new());
        let (bytes, count) = batch.finish();
        assert_eq!((bytes.len(), count), (60, 1));
        assert_eq!(bytes[4..6], 0x10_u16.to_ne_bytes());
        assert_eq!(bytes[44..46], 0x11_u16.to_ne_bytes());
    }

    #[test]
    fn the_first_error_among_answers_is_told() {
        let answer = |code: i32| {
            let mut bytes = Vec::new();
            bytes.extend(36_u32.to_ne_bytes());
            bytes.extend(2_u16.to_ne_bytes());
            bytes.resize(16, 0);
            bytes.extend(code.to_ne_bytes());
            bytes.resize(36, 0);
            bytes
        };
        let all = [answer(0), answer(-95), answer(0), answer(-1)].concat();
        assert_eq!(answers(&all), (2, Some(95)));
        assert_eq!(answers(&[]), (0, None));
        assert_eq!(answers(&[9; 10]), (0, None));
    }
}
