use proptest::prelude::*;

use super::{Action, Attempt, Event, Form, Outcome, StopReason};

const LOST: Event = Event::HeartbeatReply {
    extended: false,
    cancelled: false,
};
const CANCELLED: Event = Event::HeartbeatReply {
    extended: false,
    cancelled: true,
};

const SUPERSEDED: Event = Event::Superseded { repeated: false };

fn run(events: &[Event]) -> Vec<Action> {
    let (mut attempt, first) = Attempt::leased();
    let mut actions = vec![first];
    actions.extend(events.iter().filter_map(|event| attempt.handle(*event)));
    actions
}

fn submit(form: Form, tries: u32) -> Action {
    Action::Submit { form, tries }
}

#[test]
fn a_result_is_submitted_and_settles_when_accepted() {
    assert_eq!(
        run(&[Event::Finished, Event::Accepted]),
        [
            Action::StartExecution,
            submit(Form::Result, 0),
            Action::Settle(Outcome::Accepted(Form::Result)),
        ]
    );
}

#[test]
fn an_unanswered_submit_is_sent_again_and_a_refused_second_is_told_apart() {
    assert_eq!(
        run(&[Event::Finished, Event::Unanswered, SUPERSEDED])[1..],
        [
            submit(Form::Result, 0),
            submit(Form::Result, 1),
            Action::Settle(Outcome::Superseded {
                after_lost_reply: true
            }),
        ]
    );
}

#[test]
fn a_heartbeat_that_overtakes_the_submit_reply_does_not_lose_the_result() {
    assert_eq!(
        run(&[Event::Finished, LOST, Event::Accepted]).last(),
        Some(&Action::Settle(Outcome::Accepted(Form::Result)))
    );
}

#[test]
fn a_refused_result_shrinks_before_the_job_is_failed() {
    assert_eq!(
        run(&[Event::Finished, Event::Refused, Event::Refused, Event::Accepted])[1..],
        [
            submit(Form::Result, 0),
            submit(Form::Trimmed, 0),
            Action::FailJob { tries: 0 },
            Action::Settle(Outcome::FailedJob),
        ]
    );
}

#[test]
fn a_lost_lease_overrides_a_members_stop_and_sends_nothing() {
    assert_eq!(
        run(&[
            Event::StopRequested(StopReason::Member),
            LOST,
            Event::StopRequested(StopReason::Member),
            Event::Finished,
        ])[1..],
        [
            Action::StopExecution(StopReason::Member),
            Action::StopExecution(StopReason::LeaseLost),
            Action::Settle(Outcome::LeaseLost),
        ]
    );
}

#[test]
fn a_hub_cancel_is_acknowledged_once_whatever_the_answer() {
    assert_eq!(
        run(&[CANCELLED, CANCELLED, Event::Failed, SUPERSEDED])[1..],
        [
            Action::StopExecution(StopReason::Hub),
            Action::Acknowledge,
            Action::Settle(Outcome::Cancelled),
        ]
    );
}

#[test]
fn a_member_stop_that_came_too_late_still_reports_the_result() {
    assert_eq!(
        run(&[Event::StopRequested(StopReason::Member), Event::Finished]).last(),
        Some(&submit(Form::Result, 0))
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Finished),
        Just(Event::Failed),
        (any::<bool>(), any::<bool>())
            .prop_map(|(extended, cancelled)| Event::HeartbeatReply { extended, cancelled }),
        Just(Event::RenewalsMissed),
        Just(Event::StopRequested(StopReason::Member)),
        Just(Event::StopRequested(StopReason::Hub)),
        Just(Event::StopRequested(StopReason::LeaseLost)),
        Just(Event::Accepted),
        Just(SUPERSEDED),
        Just(Event::Refused),
        Just(Event::Unanswered),
        Just(Event::GiveUp),
    ]
}

/// Whether the event can happen at all: an answer needs a report in flight, an end needs a running executor.
fn possible(event: Event, in_flight: bool, executing: bool) -> bool {
    match event {
        Event::Accepted | Event::Superseded { .. } | Event::Refused | Event::Unanswered => in_flight,
        Event::Finished | Event::Failed => executing,
        _ => true,
    }
}

/// What the shell would see: it lets through only possible events and tracks what is in flight.
#[derive(Default)]
struct Shell {
    actions: Vec<Action>,
    in_flight: bool,
    executing: bool,
    strongest: Option<StopReason>,
}

impl Shell {
    fn carry_out(&mut self, action: Action) {
        match action {
            Action::StartExecution => self.executing = true,
            Action::Submit { .. } | Action::FailJob { .. } | Action::Acknowledge => {
                assert!(!self.in_flight, "two reports in flight: {:?}", self.actions);
                assert!(!self.executing, "a report while the case runs");
                self.in_flight = true;
            }
            Action::StopExecution(reason) => {
                assert!(self.strongest.is_none_or(|current| reason > current));
                self.strongest = Some(reason);
            }
            Action::Settle(_) => self.in_flight = false,
        }
        self.actions.push(action);
    }

    fn feed(&mut self, attempt: &mut Attempt, event: Event) {
        if !possible(event, self.in_flight, self.executing) {
            return;
        }
        match event {
            Event::Finished | Event::Failed => self.executing = false,
            Event::Accepted | Event::Superseded { .. } | Event::Refused | Event::Unanswered => {
                self.in_flight = false;
            }
            _ => {}
        }
        if let Some(action) = attempt.handle(event) {
            self.carry_out(action);
        }
    }
}

proptest! {
    #[test]
    fn never_two_reports_and_none_after_an_answer_for_good(events in prop::collection::vec(any_event(), 0..40)) {
        let (mut attempt, first) = Attempt::leased();
        let mut shell = Shell::default();
        shell.carry_out(first);
        let mut answered = false;
        for event in events {
            let settles = shell.in_flight && matches!(event, Event::Accepted | Event::Superseded { .. });
            let before = shell.actions.len();
            shell.feed(&mut attempt, event);
            if answered {
                prop_assert_eq!(shell.actions.len(), before, "an action after the hub's last word");
            }
            answered |= settles;
        }
        let settled = shell.actions.iter().filter(|action| matches!(action, Action::Settle(_))).count();
        prop_assert!(settled <= 1);
        prop_assert_eq!(settled == 1, attempt.is_settled());
        if settled == 1 {
            prop_assert!(matches!(shell.actions.last(), Some(Action::Settle(_))));
        }
    }

    #[test]
    fn nothing_is_reported_once_the_lease_is_lost(events in prop::collection::vec(any_event(), 0..40)) {
        let (mut attempt, first) = Attempt::leased();
        let mut shell = Shell::default();
        shell.carry_out(first);
        for event in events {
            shell.feed(&mut attempt, event);
        }
        if let Some(lost) = shell
            .actions
            .iter()
            .position(|action| *action == Action::StopExecution(StopReason::LeaseLost))
        {
            prop_assert!(shell.actions[lost + 1..]
                .iter()
                .all(|action| *action == Action::Settle(Outcome::LeaseLost)));
        }
    }

    #[test]
    fn always_settled_after_a_stop(
        events in prop::collection::vec(any_event(), 0..40),
        reason in prop_oneof![Just(StopReason::Member), Just(StopReason::Hub), Just(StopReason::LeaseLost)],
        last in prop_oneof![Just(Event::Accepted), Just(SUPERSEDED), Just(Event::GiveUp)],
    ) {
        let (mut attempt, first) = Attempt::leased();
        let mut shell = Shell::default();
        shell.carry_out(first);
        for event in events {
            shell.feed(&mut attempt, event);
        }
        shell.feed(&mut attempt, Event::StopRequested(reason));
        shell.feed(&mut attempt, Event::Failed);
        shell.feed(&mut attempt, last);
        prop_assert!(attempt.is_settled(), "{:?}", shell.actions);
    }
}
