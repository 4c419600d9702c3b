//! What the gate's program prints, and what it means.

use std::io;

use super::super::netlink::{Batch, answers};
use super::super::{Failure, refused};

/// The letter and the length before each record.
const HEAD: usize = 5;

/// Tells from what was printed whether the kernel has taken all batches.
pub(super) fn judge(printed: &[u8], batches: &[Batch]) -> Result<(), Failure> {
    let mut rest = printed;
    for batch in batches {
        let (kind, body) = record(&mut rest).ok_or_else(|| strange(printed))?;
        match kind {
            b'a' => {
                let (well, wrong) = answers(body);
                match wrong {
                    Some(code) => return Err(refused(io::Error::from_raw_os_error(code))),
                    None if well == batch.count() => {}
                    None => {
                        return Err(refused(io::Error::other(format!(
                            "{well} of {} answers",
                            batch.count()
                        ))));
                    }
                }
            }
            // There is no IPv6 to be held back from.
            b's' if batch.is_of_ipv6() => {}
            b'e' => {
                let code = <[u8; 4]>::try_from(body).map_err(|_| strange(printed))?;
                return Err(refused(io::Error::from_raw_os_error(i32::from_ne_bytes(code))));
            }
            _ => return Err(strange(printed)),
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(strange(printed))
    }
}

fn record<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let kind = *rest.first()?;
    let length = u32::from_ne_bytes(rest.get(1..HEAD)?.try_into().ok()?);
    let end = HEAD.checked_add(usize::try_from(length).ok()?)?;
    let body = rest.get(HEAD..end)?;
    *rest = &rest[end..];
    Some((kind, body))
}

/// What the engine says through the same pipe when it can't run the program is text.
fn strange(printed: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(printed);
    let text: String = text
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    Failure::NoWay(match text.as_str() {
        "" => "the helper container ended without an answer".to_owned(),
        text => format!("the helper container answered `{text}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::netlink::{Attrs, Batch};
    use super::*;

    fn batch(family: u8) -> Batch {
        let mut batch = Batch::new(family);
        batch.add(0, 0, &Attrs::new());
        batch
    }

    fn answer(code: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(36_u32.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.resize(16, 0);
        bytes.extend(code.to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    }

    fn printed(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_ne_bytes();
        [&[kind], &length[..], body].concat()
    }

    #[test]
    fn only_an_answer_to_every_batch_counts() {
        let batches = [batch(2), batch(10)];
        let well = printed(b'a', &answer(0));
        let both = [well.clone(), well.clone()].concat();
        assert_eq!(judge(&both, &batches), Ok(()));
        // A kernel without IPv6 has nothing to hold back there, but always IPv4.
        let skipped = printed(b's', &[]);
        assert_eq!(judge(&[well.clone(), skipped.clone()].concat(), &batches), Ok(()));
        for wrong in [
            Vec::new(),
            well.clone(),
            [skipped, well.clone()].concat(),
            [well.clone(), printed(b'a', &[])].concat(),
            [both, well.clone()].concat(),
            [&well[..], &well[..20]].concat(),
        ] {
            assert!(judge(&wrong, &batches).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn refusals_are_told_in_the_kernels_or_the_engines_words() {
        let text = |printed: &[u8]| match judge(printed, &[batch(2)]) {
            Err(Failure::NoWay(why) | Failure::Refused(why)) => why,
            Ok(()) => panic!("it was no refusal"),
        };
        assert!(text(&printed(b'a', &answer(-1))).contains("not permitted"));
        assert!(text(&printed(b'e', &93_i32.to_ne_bytes())).contains("rotocol not supported"));
        assert!(text(b"exec /gate: exec format error\n").contains("`exec /gate: exec format error`"));
        assert!(text(b"").contains("without an answer"));
    }
}
