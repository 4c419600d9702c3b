//! Which of our images go when they take more room than the member gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::Entries;

/// An image that was just asked for has no container yet: it is left alone for as long as a deploy may take.
const JUST_USED: Duration = Duration::from_secs(15 * 60);

/// An image that is on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Present {
    pub size: u64,
    /// Every name that it goes by.
    pub tags: Vec<String>,
}

/// What to do about our images.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Image ids to remove, the least recently used first.
    pub evict: Vec<String>,
    /// Ids that aren't there any more, or that the member gave a name of their own: they are ours no longer.
    pub forget: Vec<String>,
}

/// Chooses among the images of the ledger alone; whatever isn't in it belongs to the member.
pub(super) fn choose(
    entries: &Entries,
    present: &BTreeMap<String, Present>,
    in_use: &BTreeSet<String>,
    budget: u64,
    now: u64,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut ours = Vec::new();
    for (id, entry) in entries {
        match present.get(id) {
            Some(image) if image.tags.iter().all(|tag| same_name(tag, &entry.reference)) => {
                ours.push((entry.used_at, id, image.size));
            }
            _ => verdict.forget.push(id.clone()),
        }
    }
    let mut total: u64 = ours.iter().map(|(_, _, size)| size).sum();
    ours.sort_unstable();
    for (used_at, id, size) in ours {
        if total <= budget {
            break;
        }
        if in_use.contains(id) || now.saturating_sub(used_at) < JUST_USED.as_secs() {
            continue;
        }
        total -= size;
        verdict.evict.push(id.clone());
    }
    verdict
}

/// The daemon writes Docker Hub's names short; references may have them long.
fn same_name(tag: &str, reference: &str) -> bool {
    let short = |text: &str| {
        let text = text.strip_prefix("docker.io/").unwrap_or(text);
        let text = text.strip_prefix("library/").unwrap_or(text);
        let text = text.split_once('@').map_or(text, |(name, _)| name).to_owned();
        let tagged = text.rsplit('/').next().is_some_and(|last| last.contains(':'));
        if tagged { text } else { format!("{text}:latest") }
    };
    short(tag) == short(reference)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Entry;
    use super::*;

    const DAY: u64 = 86_400;
    const GB: u64 = 1_000_000_000;

    fn ledger(images: &[(&str, u64)]) -> Entries {
        images
            .iter()
            .map(|(id, used_at)| {
                let reference = format!("r.io/{id}:1");
                (
                    (*id).to_owned(),
                    Entry {
                        reference,
                        size: 5 * GB,
                        pulled_at: 0,
                        used_at: *used_at,
                        checked_at: 0,
                    },
                )
            })
            .collect()
    }

    fn present(ids: &[&str]) -> BTreeMap<String, Present> {
        ids.iter()
            .map(|id| {
                (
                    (*id).to_owned(),
                    Present {
                        size: 5 * GB,
                        tags: vec![format!("r.io/{id}:1")],
                    },
                )
            })
            .collect()
    }

    fn in_use(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    /// 25 GB of ours on a budget of 20, and 40 GB of the member's.
    #[test]
    fn only_our_least_recently_used_images_go() {
        let ours = ledger(&[("a", 5), ("b", 3), ("c", 4), ("d", 2), ("e", 1)]);
        let all = present(&[
            "a", "b", "c", "d", "e", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8",
        ]);
        let verdict = choose(&ours, &all, &in_use(&[]), 20 * GB, DAY);
        assert_eq!(
            verdict,
            Verdict {
                evict: vec!["e".to_owned()],
                forget: vec![]
            }
        );
    }

    #[test]
    fn an_image_in_use_stays_even_over_budget() {
        let ours = ledger(&[("a", 1), ("b", 2), ("c", 3)]);
        let verdict = choose(&ours, &present(&["a", "b", "c"]), &in_use(&["a", "c"]), 0, DAY);
        assert_eq!(verdict.evict, ["b"]);
    }

    #[test]
    fn an_image_that_is_about_to_be_used_stays() {
        let ours = ledger(&[("a", DAY - 10), ("b", DAY - 1000)]);
        assert_eq!(
            choose(&ours, &present(&["a", "b"]), &in_use(&[]), 0, DAY).evict,
            ["b"]
        );
    }

    #[test]
    fn within_the_budget_everything_stays() {
        let ours = ledger(&[("a", 1), ("b", 2)]);
        assert_eq!(
            choose(&ours, &present(&["a", "b"]), &in_use(&[]), 10 * GB, DAY),
            Verdict::default()
        );
    }

    #[test]
    fn what_the_member_tagged_or_removed_is_ours_no_longer() {
        let ours = ledger(&[("a", 1), ("b", 2)]);
        let mut all = present(&["a"]);
        all.get_mut("a").unwrap().tags.push("mine:keep".to_owned());
        let verdict = choose(&ours, &all, &in_use(&[]), 0, DAY);
        assert_eq!(
            verdict,
            Verdict {
                evict: vec![],
                forget: vec!["a".to_owned(), "b".to_owned()]
            }
        );
    }

    #[test]
    fn names_are_the_same_however_long_they_are_written() {
        for (tag, reference) in [
            ("redis:7", "docker.io/library/redis:7"),
            ("redis:latest", "redis"),
            ("r.io:5000/a:1", "r.io:5000/a:1"),
            ("r.io:5000/a:latest", "r.io:5000/a@sha256:00"),
        ] {
            assert!(same_name(tag, reference), "{tag} {reference}");
        }
        assert!(!same_name("redis:7", "redis:8"));
    }
}
