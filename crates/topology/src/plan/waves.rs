//! The order in which services start: everything that a service needs comes in an earlier wave.

use everdict_contracts::{Fault, TopologyService};

/// Resolves `needs` to places in the list. Names have been checked.
pub(super) fn needs(services: &[TopologyService]) -> Vec<Vec<usize>> {
    services
        .iter()
        .map(|service| {
            let mut places: Vec<usize> = service
                .needs
                .iter()
                .filter_map(|name| services.iter().position(|peer| peer.name == *name))
                .collect();
            places.sort_unstable();
            places.dedup();
            places
        })
        .collect()
}

/// Sorts places into waves, each as early as it can be.
///
/// # Errors
/// `BAD_REQUEST` that names a cycle.
pub(super) fn waves(services: &[TopologyService], needs: &[Vec<usize>]) -> Result<Vec<Vec<usize>>, Fault> {
    let mut wave_of: Vec<Option<usize>> = vec![None; services.len()];
    let mut waves = Vec::new();
    loop {
        let next: Vec<usize> = (0..services.len())
            .filter(|&place| {
                wave_of[place].is_none() && needs[place].iter().all(|&peer| wave_of[peer].is_some())
            })
            .collect();
        if next.is_empty() {
            break;
        }
        for &place in &next {
            wave_of[place] = Some(waves.len());
        }
        waves.push(next);
    }
    match wave_of.iter().position(Option::is_none) {
        None => Ok(waves),
        Some(stuck) => Err(cycle(services, needs, &wave_of, stuck)),
    }
}

/// Walks along needs that never start until a place comes up again: that is a cycle.
fn cycle(
    services: &[TopologyService],
    needs: &[Vec<usize>],
    wave_of: &[Option<usize>],
    stuck: usize,
) -> Fault {
    let mut walk = vec![stuck];
    loop {
        let last = walk[walk.len() - 1];
        let next = needs[last]
            .iter()
            .copied()
            .find(|&peer| wave_of[peer].is_none())
            .expect("BUG: a service that never starts needs one that never starts");
        if let Some(start) = walk.iter().position(|&place| place == next) {
            let ring: Vec<&str> = walk[start..]
                .iter()
                .chain([&next])
                .map(|&place| services[place].name.as_str())
                .collect();
            return Fault::bad_request(format!(
                "harnessSpec.services[{next}].needs: the services wait for each other: {}; take one of these needs out",
                ring.join(" → ")
            ));
        }
        walk.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_contracts::decode;
    use proptest::prelude::*;
    use serde_json::json;

    fn services(list: &[(&str, &[&str])]) -> Vec<TopologyService> {
        list.iter()
            .map(|(name, needs)| decode(json!({"name": name, "image": "i", "needs": needs})).unwrap())
            .collect()
    }

    fn sorted(list: &[(&str, &[&str])]) -> Result<Vec<Vec<usize>>, String> {
        let services = services(list);
        waves(&services, &needs(&services)).map_err(|fault| fault.message)
    }

    #[test]
    fn what_is_needed_starts_first_and_the_rest_at_once() {
        let order = sorted(&[
            ("web", &["api", "mcp"]),
            ("api", &["migrate"]),
            ("migrate", &[]),
            ("mcp", &[]),
        ]);
        assert_eq!(order.unwrap(), [vec![2, 3], vec![1], vec![0]]);
    }

    #[test]
    fn a_need_named_twice_is_one() {
        assert_eq!(
            sorted(&[("a", &["b", "b"]), ("b", &[])]).unwrap(),
            [vec![1], vec![0]]
        );
    }

    #[test]
    fn a_cycle_is_named_without_those_that_only_wait_for_it() {
        let error = sorted(&[
            ("x", &["a"]),
            ("a", &["b"]),
            ("b", &["c"]),
            ("c", &["a"]),
            ("ok", &[]),
        ])
        .unwrap_err();
        assert!(error.starts_with("harnessSpec.services[1].needs: "), "{error}");
        assert!(error.contains("a → b → c → a"), "{error}");
        assert!(!error.contains("x →"), "{error}");
    }

    #[test]
    fn a_service_can_not_need_itself() {
        assert!(sorted(&[("a", &["a"])]).unwrap_err().contains("a → a"));
    }

    proptest! {
        /// Needs that only point backwards have no cycle, and every wave comes after those it needs.
        #[test]
        fn every_need_is_in_an_earlier_wave(edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 8), 8)) {
            let names: Vec<String> = (0..8).map(|i| format!("s{i}")).collect();
            let list: Vec<TopologyService> = (0..8)
                .map(|i| {
                    let needs: Vec<&str> = (0..i).filter(|&j| edges[i][j]).map(|j| names[j].as_str()).collect();
                    decode(json!({"name": names[i], "image": "i", "needs": needs})).unwrap()
                })
                .collect();
            let needs = needs(&list);
            let waves = waves(&list, &needs).unwrap();
            let wave_of = |place| waves.iter().position(|wave| wave.contains(&place)).unwrap();
            prop_assert_eq!(waves.iter().map(Vec::len).sum::<usize>(), 8);
            for (place, peers) in needs.iter().enumerate() {
                prop_assert!(peers.iter().all(|&peer| wave_of(peer) < wave_of(place)));
            }
        }
    }
}
