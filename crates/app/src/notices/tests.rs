use proptest::prelude::*;

use super::*;
use crate::control::{AskView, ConsentKind, JobView, RunnerView, UpdateView};

const HUB: &str = "https://team.example";

fn at(seconds: u64) -> Moment {
    Moment {
        seconds,
        minute_of_day: 12 * 60,
    }
}

fn snapshot(state: AppState) -> AppSnapshot {
    AppSnapshot {
        state,
        cause: (state == AppState::Offline).then(|| "dns".to_owned()),
        runners: vec![RunnerView {
            id: "r-1".into(),
            label: "bench".into(),
            hub: HUB.into(),
            target: String::new(),
            state,
            state_text: String::new(),
            cause: None,
            last_answer_at: None,
            active: 0,
            slots: 1,
            embedded: false,
        }],
        ..AppSnapshot::blank()
    }
}

fn busy() -> AppSnapshot {
    AppSnapshot {
        active: vec![JobView {
            id: "j".into(),
            case_id: "c".into(),
            harness: "h@1".into(),
            workspace: "acme".into(),
            started_at: String::new(),
            ended_at: None,
            outcome: None,
            runner: "bench".into(),
            tokens: None,
            cost_usd: None,
        }],
        ..snapshot(AppState::Running)
    }
}

/// Shows the machine a state each second, from the first on, and returns what was told when.
fn play(folding: &mut Folding, states: impl IntoIterator<Item = AppState>) -> Vec<(u64, Notice)> {
    let mut told = Vec::new();
    for (second, state) in states.into_iter().enumerate() {
        let now = at(second as u64);
        folding.see(&snapshot(state), now);
        told.extend(folding.due(now).into_iter().map(|notice| (now.seconds, notice)));
    }
    told
}

fn seconds(count: usize, state: AppState) -> impl Iterator<Item = AppState> {
    std::iter::repeat_n(state, count)
}

#[test]
fn a_hub_that_flaps_sixty_times_in_ten_minutes_is_told_once_at_most() {
    let flap = (0..60).flat_map(|_| seconds(5, AppState::Offline).chain(seconds(5, AppState::Idle)));
    let told = play(&mut Folding::new(QuietHours::default()), flap);
    assert_eq!(told, []);

    // With one outage in the middle that is long enough to be one.
    let half =
        |count| (0..count).flat_map(|_| seconds(4, AppState::Offline).chain(seconds(5, AppState::Idle)));
    let flap = half(30)
        .chain(seconds(61, AppState::Offline))
        .chain(half(29))
        .chain(seconds(20, AppState::Idle));
    let told = play(&mut Folding::new(QuietHours::default()), flap);
    let [
        (offline, Notice::Offline { hub, cause }),
        (_, Notice::Back { .. }),
    ] = told.as_slice()
    else {
        panic!("{told:?}");
    };
    assert_eq!((hub.as_str(), cause.as_deref()), (HUB, Some("dns")));
    assert_eq!(*offline, 30 * 9 + 60, "only after a minute");
}

#[test]
fn a_drain_is_one_notice_however_many_jobs_it_had() {
    let mut folding = Folding::new(QuietHours::default());
    for second in 0..30 {
        folding.see(&busy(), at(second));
        // One job after the other, with a moment between them.
        if second % 10 == 9 {
            folding.see(&snapshot(AppState::Idle), at(second));
        }
        assert_eq!(folding.due(at(second)), []);
    }
    for outcome in [
        JobOutcome::Passed,
        JobOutcome::Passed,
        JobOutcome::TimedOut,
        JobOutcome::Infra,
        JobOutcome::Cancelled,
    ] {
        folding.ended(outcome);
    }
    folding.see(&snapshot(AppState::Idle), at(30));
    assert_eq!(folding.due(at(30)), []);
    let tally = Tally {
        passed: 2,
        failed: 1,
        uncounted: 1,
    };
    assert_eq!(folding.due(at(36)), [Notice::Drained(tally)]);
    assert_eq!(folding.due(at(100)), []);
}

#[test]
fn revoked_access_and_a_consent_are_told_at_once_and_once() {
    let mut folding = Folding::new(QuietHours::default());
    let mut seen = snapshot(AppState::Attention);
    seen.cause = Some("revoked".into());
    seen.runners[0].cause = Some("revoked".into());
    seen.asks = ["a", "b"]
        .map(|id| AskView {
            id: id.into(),
            hub: HUB.into(),
            workspace: "acme".into(),
            harness: "h@1".into(),
            kind: ConsentKind::Command,
            case_id: "c".into(),
            expires_at: String::new(),
        })
        .into();
    folding.see(&seen, at(1));
    let revoked = Notice::Revoked {
        runner: "bench".into(),
    };
    let asked = Notice::Asked {
        workspace: "acme".into(),
        count: 2,
    };
    assert_eq!(folding.due(at(1)), [revoked.clone(), asked]);
    for second in 2..500 {
        folding.see(&seen, at(second));
        assert_eq!(folding.due(at(second)), []);
    }
    folding.see(&snapshot(AppState::Idle), at(500));
    folding.see(&seen, at(501));
    assert!(folding.due(at(501)).contains(&revoked), "revoked anew");
}

#[test]
fn a_bad_update_and_a_locked_keyring_are_one_notice_each() {
    let mut folding = Folding::new(QuietHours::default());
    let mut seen = snapshot(AppState::Attention);
    (seen.cause, seen.state_text) = (Some("keyring_locked".into()), "the keyring is locked".into());
    let update = |state| UpdateView {
        state,
        version: "2.0.0".into(),
        text: String::new(),
    };
    seen.update = Some(update(UpdateState::Failed));
    let mut told = Vec::new();
    for second in 0..300 {
        folding.see(&seen, at(second));
        told.extend(folding.due(at(second)));
    }
    assert_eq!(
        told,
        [
            Notice::Update {
                state: UpdateState::Failed,
                version: "2.0.0".into()
            },
            Notice::Trouble {
                cause: "keyring_locked".into(),
                text: "the keyring is locked".into()
            },
        ]
    );
    let waiting = AppSnapshot {
        update: Some(update(UpdateState::Waiting)),
        ..snapshot(AppState::Idle)
    };
    folding.see(&waiting, at(400));
    assert_eq!(folding.due(at(400)), [], "what takes over by itself is no news");
}

#[test]
fn quiet_hours_tell_nothing_and_afterwards_what_still_holds() {
    let night = QuietHours {
        from: 22 * 60,
        to: 7 * 60,
    };
    let moment = |seconds, hour: u16| Moment {
        seconds,
        minute_of_day: hour * 60,
    };
    let mut folding = Folding::new(night);
    folding.see(&busy(), moment(0, 23));
    folding.ended(JobOutcome::Passed);
    folding.see(&snapshot(AppState::Offline), moment(10, 23));
    for hour in [23, 0, 6] {
        assert_eq!(folding.due(moment(4000, hour)), []);
    }
    let morning = folding.due(moment(9000, 7));
    assert!(
        matches!(morning[..], [Notice::Offline { .. }, Notice::Drained(_)]),
        "{morning:?}"
    );
    assert!(!QuietHours::default().holds(0));
}

fn any_states() -> impl Strategy<Value = Vec<AppState>> {
    let state = prop_oneof![
        Just(AppState::Idle),
        Just(AppState::Running),
        Just(AppState::Offline),
        Just(AppState::Paused),
        Just(AppState::Starting),
    ];
    prop::collection::vec((state, 1_usize..130), 1..40).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(state, count)| seconds(count, state))
            .collect()
    })
}

proptest! {
    #[test]
    fn whatever_a_hub_does_each_word_comes_at_most_once_in_ten_minutes_and_in_turn(states in any_states()) {
        let told = play(&mut Folding::new(QuietHours::default()), states.iter().copied());
        let is_offline = |notice: &Notice| matches!(notice, Notice::Offline { .. });
        for (index, (_, notice)) in told.iter().enumerate() {
            prop_assert_eq!(is_offline(notice), index % 2 == 0, "they take turns");
        }
        for word in [true, false] {
            let times: Vec<u64> = told
                .iter()
                .filter(|(_, notice)| is_offline(notice) == word)
                .map(|(at, _)| *at)
                .collect();
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= LINK_PAUSE));
        }
        for (at, notice) in &told {
            let at = usize::try_from(*at).unwrap();
            let hold = usize::try_from(if is_offline(notice) { OFFLINE_HOLD } else { BACK_HOLD }).unwrap();
            let before = &states[at - hold..=at];
            prop_assert!(before.iter().all(|state| (*state == AppState::Offline) == is_offline(notice)));
        }
    }

    #[test]
    fn what_does_not_wait_has_nothing_to_tell_however_long_it_takes(states in any_states()) {
        let mut folding = Folding::new(QuietHours::default());
        for (second, state) in states.into_iter().enumerate() {
            let now = at(second as u64);
            let shown = if state == AppState::Running { busy() } else { snapshot(state) };
            folding.see(&shown, now);
            if state == AppState::Running && second % 7 == 0 {
                folding.ended(JobOutcome::Passed);
            }
            if !folding.waits() {
                prop_assert_eq!(folding.due(at(second as u64 + 100_000)), []);
                continue;
            }
            folding.due(now);
        }
    }

    #[test]
    fn an_outage_that_lasts_is_always_told(states in any_states()) {
        let outage = states.into_iter().chain(seconds(700, AppState::Offline));
        let told = play(&mut Folding::new(QuietHours::default()), outage);
        prop_assert!(matches!(told.last(), Some((_, Notice::Offline { .. }))), "{:?}", told);
    }
}
