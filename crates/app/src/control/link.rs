//! A pairing link that was opened from outside: it fills in a form, and nothing happens until the person confirms it.
//!
//! The token of the link stays here; a window gets the hub, a name to start from, and a sentence.

use std::sync::Arc;

use super::desk::OpenedLink;
use super::invitation::{self, Invitation};
use super::pair::TokenPlace;
use super::room::Room;
use super::view::{Failure, InvitationView};
use crate::hub_url;
use crate::pairing::{check_label, host_name};
use crate::problem::{Problem, Result};

/// What a link asks for, as far as it can be used.
pub(super) fn read(text: &str) -> OpenedLink {
    match usable(text) {
        Ok((invitation, view)) => OpenedLink {
            view,
            invitation: Some(invitation),
        },
        Err(problem) => OpenedLink {
            view: InvitationView {
                hub: String::new(),
                label: String::new(),
                text: "a link was opened that can't be used".to_owned(),
                problem: Some(Failure::from(problem)),
            },
            invitation: None,
        },
    }
}

fn usable(text: &str) -> Result<(Invitation, InvitationView)> {
    // From outside only a link counts: a bare token on a command line would be in every list of processes.
    let invitation = invitation::parse_link(text)?;
    let named = invitation.hub.as_deref().ok_or_else(|| {
        Problem::input("the link doesn't say which hub it is for")
            .fix("open the link from the hub's Runners page again, or paste the token together with the hub's address")
            .coded("no_hub")
    })?;
    let hub = hub_url::parse(named)?;
    let warning = if hub_url::is_cleartext(&hub) {
        "; the token would cross the network unencrypted"
    } else {
        ""
    };
    let view = InvitationView {
        hub: hub_url::text(&hub),
        label: invitation.label.clone().unwrap_or_else(host_name),
        text: format!(
            "a link wants to pair this machine with {}{warning}",
            hub_url::host(&hub)
        ),
        problem: None,
    };
    Ok((invitation, view))
}

impl Room {
    pub(super) async fn accept_link(self: &Arc<Self>, label: &str, place: TokenPlace) -> Result<()> {
        check_label(label)?;
        let opened = {
            let desk = self.desk();
            let link = desk.shell.link.as_ref();
            link.and_then(|link| Some((link.invitation.clone()?, link.view.clone())))
        };
        let Some((invitation, view)) = opened else {
            return Err(Problem::input("no pairing link waits here (any more)")
                .fix("open the link from the hub's Runners page again")
                .coded("no_link"));
        };
        self.pair_invited(hub_url::parse(&view.hub)?, invitation.token, label, place)
            .await?;
        // Another link may have been opened meanwhile; that one still waits.
        self.change(|desk| {
            if desk.shell.link.as_ref().is_some_and(|link| link.view == view) {
                desk.shell.link = None;
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_link_fills_in_the_form_and_shows_no_token() {
        let link = read(
            "everdict://pair?hub=https%3A%2F%2Fteam.example&token=rnr_secret-thing&label=Ada%27s%20desk",
        );
        assert_eq!(link.view.hub, "https://team.example");
        assert_eq!(link.view.label, "Ada's desk");
        assert_eq!(
            link.view.text,
            "a link wants to pair this machine with team.example"
        );
        assert!(link.view.problem.is_none() && link.invitation.is_some());
        assert!(
            !serde_json::to_string(&link.view)
                .unwrap()
                .contains("secret-thing")
        );
        assert!(!format!("{link:?}").contains("secret-thing"));
    }

    #[test]
    fn a_link_to_an_unencrypted_hub_says_so() {
        let link = read("everdict://pair?hub=http://team.example&token=rnr_a");
        assert!(link.view.text.ends_with("unencrypted"), "{}", link.view.text);
    }

    #[test]
    fn a_hostile_link_is_a_sentence_with_a_next_step_and_gives_nothing_to_accept() {
        let huge = "x".repeat(600);
        for text in [
            "everdict://pair?hub=https://h.example&token=bad-secret-thing",
            "https://h.example/pair?token=rnr_secret-thing&hub=https://h.example",
            "everdict://open?hub=https://h.example&token=rnr_secret-thing",
            "everdict://pair?token=rnr_secret-thing",
            "rnr_secret-thing",
            "everdict runner --pair rnr_secret-thing --api-url https://h.example",
            "everdict://pair?hub=javascript:alert(1)&token=rnr_secret-thing",
            "everdict://pair?hub=file:///etc/passwd&token=rnr_secret-thing",
            "everdict://pair?hub=https://user:pass@h.example&token=rnr_secret-thing",
            "everdict://pair?hub=https://h.example&token=rnr_secret-thing&label=<script>alert(1)</script>",
            "everdict://pair?hub=https://h.example&token=rnr_secret-thing&label=a%0Ab",
            "everdict://pair?hub=https://h.example&token=rnr_secret-thing&label=%E2%80%AEevil",
            "everdict://pair?hub=https://h.example&token=rnr_secret-thing&label=a%E2%80%8Bb",
            &format!("everdict://pair?hub=https://h.example&token=rnr_secret-thing&label={huge}"),
            &format!("everdict://pair?hub=https://{huge}&token=rnr_secret-thing"),
            &format!("everdict://pair?hub=https://h.example&token=rnr_secret-thing{huge}"),
            &format!(
                "everdict://pair?hub=https://h.example&token=rnr_a{}",
                "&x=secret-thing".repeat(5000)
            ),
        ] {
            let link = read(text);
            let shown = serde_json::to_string(&link.view).unwrap();
            let problem = link.view.problem.unwrap_or_else(|| panic!("{text}"));
            assert!(link.invitation.is_none(), "{text}");
            assert!(problem.fix.is_some_and(|fix| !fix.is_empty()), "{text}");
            assert!(
                !problem.message.is_empty() && shown.len() < 1000,
                "{text}: {shown}"
            );
            assert!(
                !shown.contains("secret-thing") && !shown.contains("<script"),
                "{text}: {shown}"
            );
        }
    }
}
