//! The runners of a hub: who they are, what they said about themselves, whether they are online.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use everdict_contracts::{
    Capability, LeaseArgs, PROTOCOL_VERSION, RunnerId, RunnerMeta, RunnerStatus, StatusLevel, WorkspaceId,
    clip_status,
};
use everdict_store::{Millis, RunnerRow, RunnerTouch};

use crate::clock;
use crate::peers::Presence;
use crate::queue::{CapSet, Member, Owner};

/// A runner that has not called for this long counts as offline: three idle polls of 25 s, with slack.
const ONLINE_MS: Millis = 90_000;

/// A status is about now; two minutes without a word make it history.
const STATUS_MS: Millis = 120_000;

/// How often "last seen" is written down. Presence is answered from memory; the stored value only has to
/// be right to within the online window after a restart.
const SEEN_INTERVAL_MS: Millis = 10_000;

/// Longest stored operating system name and version; what is longer is cut, not refused, because a
/// refused lease call leaves a runner without work.
const OS_CHARS: usize = 40;
const VERSION_CHARS: usize = 80;

#[derive(Debug, Clone)]
struct Entry {
    row: RunnerRow,
    seen_written: Millis,
    status: Option<(String, StatusLevel, Millis)>,
    /// The status that other hubs know.
    status_told: Option<String>,
}

/// What a dispatcher needs to know of a runner.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) id: RunnerId,
    pub(crate) label: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) online: bool,
}

impl Candidate {
    pub(crate) fn caps(&self) -> CapSet {
        CapSet::from_names(&self.capabilities)
    }
}

#[derive(Debug, Default)]
struct Book {
    by_id: HashMap<RunnerId, Entry>,
    by_token: HashMap<String, RunnerId>,
    by_owner: HashMap<Owner, Vec<RunnerId>>,
    /// Token hashes of the runners that were removed.
    removed: HashSet<String>,
}

/// Every runner, in memory; changes come back as writes for the caller to store.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    book: Mutex<Book>,
    /// Whether other hubs are told what runners say.
    shared: bool,
}

impl Roster {
    pub(crate) fn new(shared: bool) -> Self {
        Self {
            book: Mutex::default(),
            shared,
        }
    }

    pub(crate) fn insert(&self, row: RunnerRow) {
        let mut book = self.book();
        let id = RunnerId::from(row.id.as_str());
        book.by_token.insert(row.token_hash.clone(), id.clone());
        book.by_owner
            .entry(Owner::parse(&row.owner))
            .or_default()
            .push(id.clone());
        let entry = Entry {
            seen_written: row.last_seen_at.unwrap_or_default(),
            row,
            status: None,
            status_told: None,
        };
        book.by_id.insert(id, entry);
    }

    /// Takes in a runner as the store has it: a new one, or one whose presence another hub has written down.
    pub(crate) fn refresh(&self, row: RunnerRow) {
        let id = RunnerId::from(row.id.as_str());
        {
            let mut book = self.book();
            if let Some(entry) = book.by_id.get_mut(&id) {
                if entry.row.last_seen_at < row.last_seen_at {
                    entry.row = row;
                } else {
                    entry.row.paused = row.paused;
                }
                return;
            }
        }
        self.insert(row);
    }

    /// Forgets the runners that are not among these.
    pub(crate) fn keep_only(&self, rows: &[RunnerRow]) {
        let gone: Vec<_> = {
            let book = self.book();
            let entries = book.by_id.iter();
            entries
                .filter(|(id, _)| !rows.iter().any(|row| row.id == id.as_str()))
                .map(|(id, entry)| (Owner::parse(&entry.row.owner), id.clone()))
                .collect()
        };
        for (owner, id) in gone {
            self.remove(&owner, &id);
        }
    }

    /// Takes in what a runner said at another hub.
    pub(crate) fn seen_elsewhere(&self, presence: Presence) {
        let mut book = self.book();
        let Some(entry) = book.by_id.get_mut(&presence.id) else {
            return;
        };
        if entry.row.last_seen_at.is_some_and(|seen| seen > presence.seen) {
            return;
        }
        entry.row.last_seen_at = Some(presence.seen);
        entry.row.os = presence.os;
        entry.row.capabilities = presence.caps;
        entry.row.version = presence.version;
        entry.row.protocol = presence.protocol;
        entry.status = presence.status;
    }

    /// What other hubs should know of a runner that called here.
    pub(crate) fn presence(&self, id: &RunnerId) -> Option<Presence> {
        let mut book = self.book();
        let entry = book.by_id.get_mut(id)?;
        entry.status_told = entry.status.as_ref().map(|(text, _, _)| text.clone());
        Some(Presence {
            id: id.clone(),
            seen: entry.row.last_seen_at?,
            os: entry.row.os.clone(),
            caps: entry.row.capabilities.clone(),
            version: entry.row.version.clone(),
            protocol: entry.row.protocol,
            status: entry.status.clone(),
        })
    }

    /// Counts the runners, and those heard of lately.
    pub(crate) fn count(&self) -> (usize, usize) {
        let book = self.book();
        let now = clock::now();
        let online = |entry: &&Entry| entry.row.last_seen_at.is_some_and(|seen| now - seen < ONLINE_MS);
        (book.by_id.len(), book.by_id.values().filter(online).count())
    }

    /// Pauses a runner, whoever owns it, or ends that; says whose it is.
    pub(crate) fn pause_any(&self, id: &RunnerId, reason: Option<String>) -> Option<Member> {
        let mut book = self.book();
        let entry = book.by_id.get_mut(id)?;
        entry.row.paused = reason;
        Some(Member {
            owner: Owner::parse(&entry.row.owner),
            runner: id.clone(),
        })
    }

    /// Removes a runner of this owner. Returns false when the owner has no such runner.
    pub(crate) fn remove(&self, owner: &Owner, id: &RunnerId) -> bool {
        let mut book = self.book();
        if !book.by_owner.get(owner).is_some_and(|ids| ids.contains(id)) {
            return false;
        }
        if let Some(ids) = book.by_owner.get_mut(owner) {
            ids.retain(|other| other != id);
        }
        if let Some(entry) = book.by_id.remove(id) {
            book.by_token.remove(&entry.row.token_hash);
            book.removed.insert(entry.row.token_hash);
        }
        true
    }

    /// Remembers the tokens of runners that were removed.
    pub(crate) fn remember_removed(&self, hashes: Vec<String>) {
        self.book().removed.extend(hashes);
    }

    /// Whether a token was that of a runner that was removed.
    pub(crate) fn was_removed(&self, hash: &str) -> bool {
        self.book().removed.contains(hash)
    }

    /// Finds the runner of a token and the workspace it was paired in.
    pub(crate) fn by_token(&self, hash: &str) -> Option<(Member, WorkspaceId)> {
        let book = self.book();
        let entry = book.by_id.get(book.by_token.get(hash)?)?;
        let member = Member {
            owner: Owner::parse(&entry.row.owner),
            runner: RunnerId::from(entry.row.id.as_str()),
        };
        Some((member, WorkspaceId::from(entry.row.workspace.as_str())))
    }

    /// Says whether a runner is this owner's.
    pub(crate) fn holds(&self, owner: &Owner, id: &RunnerId) -> bool {
        let book = self.book();
        book.by_owner.get(owner).is_some_and(|ids| ids.contains(id))
    }

    /// Pauses a runner of this owner for a reason, or ends that. Returns false when the owner has no such runner.
    pub(crate) fn pause(&self, owner: &Owner, id: &RunnerId, reason: Option<String>) -> bool {
        let mut book = self.book();
        if !book.by_owner.get(owner).is_some_and(|ids| ids.contains(id)) {
            return false;
        }
        book.by_id
            .get_mut(id)
            .map(|entry| entry.row.paused = reason)
            .is_some()
    }

    /// Why a runner gets no jobs now.
    pub(crate) fn paused(&self, id: &RunnerId) -> Option<String> {
        self.book().by_id.get(id)?.row.paused.clone()
    }

    /// Says whether a runner has not been revoked.
    pub(crate) fn knows(&self, id: &RunnerId) -> bool {
        self.book().by_id.contains_key(id)
    }

    /// Lists an owner's runners as the wire shows them, the newest first.
    pub(crate) fn list(&self, owner: &Owner) -> Vec<RunnerMeta> {
        let book = self.book();
        let now = clock::now();
        let ids = book.by_owner.get(owner).map(Vec::as_slice).unwrap_or_default();
        let mut entries: Vec<_> = ids.iter().filter_map(|id| book.by_id.get(id)).collect();
        entries.sort_by(|a, b| (b.row.paired_at, &b.row.id).cmp(&(a.row.paired_at, &a.row.id)));
        entries.into_iter().map(|entry| meta(entry, now)).collect()
    }

    /// Lists an owner's runners as a dispatcher sees them.
    pub(crate) fn candidates(&self, owner: &Owner) -> Vec<Candidate> {
        let book = self.book();
        let now = clock::now();
        let ids = book.by_owner.get(owner).map(Vec::as_slice).unwrap_or_default();
        ids.iter()
            .filter_map(|id| Some((id, book.by_id.get(id)?)))
            .map(|(id, entry)| Candidate {
                id: id.clone(),
                label: entry.row.label.clone(),
                capabilities: entry.row.capabilities.clone(),
                online: entry.row.last_seen_at.is_some_and(|seen| now - seen < ONLINE_MS),
            })
            .collect()
    }

    /// Takes in what a lease call says. Returns the write that is due, if one is.
    pub(crate) fn on_lease(&self, id: &RunnerId, args: &LeaseArgs) -> Option<RunnerTouch> {
        let now = clock::now();
        let mut book = self.book();
        let entry = book.by_id.get_mut(id)?;
        entry.row.last_seen_at = Some(now);
        set_status(entry, args.status.as_deref(), args.status_level, now);
        let mut touch = RunnerTouch {
            id: id.to_string(),
            last_seen_at: now,
            ..RunnerTouch::default()
        };
        if let Some(names) = &args.capabilities {
            let known = Capability::known(names.iter().map(String::as_str));
            let known: Vec<_> = known
                .into_iter()
                .map(|capability| capability.to_string())
                .collect();
            if entry.row.capabilities != known {
                entry.row.capabilities.clone_from(&known);
                touch.capabilities = Some(known);
            }
        }
        let os = clip(args.os.as_deref(), OS_CHARS);
        if os.is_some() && os != entry.row.os {
            entry.row.os.clone_from(&os);
            touch.os = os;
        }
        if let (Some(version), Some(protocol)) = (clip(args.version.as_deref(), VERSION_CHARS), args.protocol)
            && (entry.row.version.as_ref() != Some(&version) || entry.row.protocol != Some(protocol))
        {
            entry.row.version = Some(version.clone());
            entry.row.protocol = Some(protocol);
            touch.version = Some((version, protocol));
        }
        due(entry, touch, self.shared)
    }

    /// Takes in a heartbeat. Returns the write that is due, if one is.
    pub(crate) fn on_heartbeat(
        &self,
        id: &RunnerId,
        status: Option<&str>,
        level: Option<StatusLevel>,
    ) -> Option<RunnerTouch> {
        let now = clock::now();
        let mut book = self.book();
        let entry = book.by_id.get_mut(id)?;
        entry.row.last_seen_at = Some(now);
        set_status(entry, status, level, now);
        let touch = RunnerTouch {
            id: id.to_string(),
            last_seen_at: now,
            ..RunnerTouch::default()
        };
        due(entry, touch, self.shared)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The write that is due, if one is. Where other hubs are told, a new status is news too.
fn due(entry: &mut Entry, touch: RunnerTouch, shared: bool) -> Option<RunnerTouch> {
    let status = entry.status.as_ref().map(|(text, _, _)| text);
    let news = touch.os.is_some()
        || touch.capabilities.is_some()
        || touch.version.is_some()
        || (shared && status != entry.status_told.as_ref());
    if !news && touch.last_seen_at - entry.seen_written < SEEN_INTERVAL_MS {
        return None;
    }
    entry.seen_written = touch.last_seen_at;
    Some(touch)
}

fn set_status(entry: &mut Entry, text: Option<&str>, level: Option<StatusLevel>, now: Millis) {
    let text = clip_status(text.unwrap_or_default());
    if !text.is_empty() {
        entry.status = Some((text, level.unwrap_or_default(), now));
    }
}

fn clip(text: Option<&str>, chars: usize) -> Option<String> {
    let text: String = text?.trim().chars().take(chars).collect();
    (!text.is_empty()).then_some(text)
}

fn meta(entry: &Entry, now: Millis) -> RunnerMeta {
    let row = &entry.row;
    let status = entry
        .status
        .as_ref()
        .filter(|(_, _, at)| now - at < STATUS_MS)
        .map(|(text, level, at)| RunnerStatus {
            text: text.clone(),
            level: *level,
            at: clock::iso(*at),
        });
    RunnerMeta {
        id: RunnerId::from(row.id.as_str()),
        label: row.label.clone(),
        os: row.os.clone(),
        capabilities: row.capabilities.clone(),
        paired_at: clock::iso(row.paired_at),
        last_seen_at: row.last_seen_at.map(clock::iso),
        version: row.version.clone(),
        protocol: row.protocol,
        update_required: (row.protocol.unwrap_or_default() < PROTOCOL_VERSION).then_some(true),
        status,
        paused: row.paused.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> (Roster, RunnerId) {
        let roster = Roster::default();
        roster.insert(RunnerRow {
            owner: "ann".into(),
            id: "r-1".into(),
            workspace: "acme".into(),
            label: "lab".into(),
            os: None,
            capabilities: vec![],
            token_hash: "hash".into(),
            paired_at: 1,
            last_seen_at: None,
            version: None,
            protocol: None,
            paused: None,
        });
        (roster, RunnerId::from("r-1"))
    }

    #[test]
    fn over_long_reports_are_cut_and_the_unknown_left_out() {
        let (roster, id) = roster();
        let args = LeaseArgs {
            capabilities: Some(vec!["git".into(), "warp-drive".into(), "git".into()]),
            os: Some("x".repeat(100)),
            version: Some("1".repeat(200)),
            protocol: Some(2),
            status: Some("s".repeat(500)),
            ..LeaseArgs::default()
        };
        roster.on_lease(&id, &args).unwrap();
        let meta = &roster.list(&Owner::parse("ann"))[0];
        assert_eq!(meta.capabilities, ["git"]);
        assert_eq!(meta.os.as_ref().map(String::len), Some(40));
        assert_eq!(meta.version.as_ref().map(String::len), Some(80));
        assert_eq!(meta.status.as_ref().map(|status| status.text.len()), Some(200));
        assert_eq!(meta.update_required, None);
    }

    #[test]
    fn a_chatty_runner_is_not_written_down_on_each_call() {
        let (roster, id) = roster();
        assert!(roster.on_heartbeat(&id, None, None).is_some());
        assert_eq!(roster.on_heartbeat(&id, None, None), None);
        assert!(roster.candidates(&Owner::parse("ann"))[0].online);
    }

    #[test]
    fn a_runner_that_never_said_its_protocol_needs_an_update() {
        let (roster, id) = roster();
        let version_only = LeaseArgs {
            version: Some("1".into()),
            ..LeaseArgs::default()
        };
        roster.on_lease(&id, &version_only);
        let meta = &roster.list(&Owner::parse("ann"))[0];
        assert_eq!((meta.update_required, &meta.version), (Some(true), &None));
    }

    #[test]
    fn only_the_owner_can_remove_a_runner() {
        let (roster, id) = roster();
        assert!(!roster.remove(&Owner::parse("bob"), &id));
        assert!(roster.by_token("hash").is_some());
        assert!(roster.remove(&Owner::parse("ann"), &id));
        assert!(roster.by_token("hash").is_none());
        assert!(roster.was_removed("hash") && !roster.was_removed("other"));
    }
}
