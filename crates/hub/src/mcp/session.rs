//! MCP sessions. An id proves itself: it carries the principal it was made for and a signature, so the
//! hub keeps nothing per session, and a restarted or second hub with the same database knows it too.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::auth::{Principal, random_bytes};

/// Bytes of each part of an id: 128 bits for the nonce, the principal's digest and the signature.
const PART: usize = 16;

/// Ended sessions remembered. Using an ended one is a client's mistake, not an attack (the credential is
/// checked on each request), so the oldest may be forgotten.
const ENDED: usize = 10_000;

/// Name under which a session's notification stream is kept among its calls; no JSON-RPC id reads so.
const STREAM: &str = "stream";

/// Block size of SHA-256, for the keyed hash.
const BLOCK: usize = 64;

#[derive(Debug, Default)]
struct Book {
    /// What is going on in a session: waiting calls by request id, and the stream.
    open: HashMap<String, HashMap<String, CancellationToken>>,
    ended: HashSet<String>,
    ended_in_order: VecDeque<String>,
}

/// Makes and checks session ids, and knows what is open in each session.
#[derive(Debug)]
pub(crate) struct Sessions {
    key: [u8; 32],
    book: Arc<Mutex<Book>>,
}

impl Sessions {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            key,
            book: Arc::default(),
        }
    }

    /// Starts a session for a principal.
    pub(crate) fn start(&self, principal: &Principal) -> String {
        let mut id = [0; 3 * PART];
        id[..PART].copy_from_slice(&random_bytes()[..PART]);
        id[PART..2 * PART].copy_from_slice(&digest(principal));
        let signature = self.sign(&id[..2 * PART]);
        id[2 * PART..].copy_from_slice(&signature);
        URL_SAFE_NO_PAD.encode(id)
    }

    /// Says whether an id was made for this principal and has not been ended.
    pub(crate) fn knows(&self, id: &str, principal: &Principal) -> bool {
        let mut bytes = [0; 3 * PART];
        if URL_SAFE_NO_PAD.decode_slice(id, &mut bytes) != Ok(3 * PART) {
            return false;
        }
        self.sign(&bytes[..2 * PART]) == bytes[2 * PART..]
            && digest(principal) == bytes[PART..2 * PART]
            && !self.book().ended.contains(id)
    }

    /// Ends a session with everything that is open in it.
    pub(crate) fn end(&self, id: &str) {
        let mut book = self.book();
        for stop in book.open.remove(id).unwrap_or_default().into_values() {
            stop.cancel();
        }
        if book.ended.insert(id.to_owned()) {
            book.ended_in_order.push_back(id.to_owned());
            if book.ended_in_order.len() > ENDED
                && let Some(oldest) = book.ended_in_order.pop_front()
            {
                book.ended.remove(&oldest);
            }
        }
    }

    /// Registers a waiting call under its request id.
    pub(crate) fn call(&self, session: &str, request: &str) -> Open {
        self.register(session, request)
    }

    /// Registers the notification stream; `None` when the session has one.
    pub(crate) fn stream(&self, session: &str) -> Option<Open> {
        let taken = self
            .book()
            .open
            .get(session)
            .is_some_and(|open| open.contains_key(STREAM));
        (!taken).then(|| self.register(session, STREAM))
    }

    /// Stops a waiting call. Returns whether it waits here.
    pub(crate) fn cancel(&self, session: &str, request: &str) -> bool {
        let book = self.book();
        match book.open.get(session).and_then(|open| open.get(request)) {
            Some(stop) => {
                stop.cancel();
                true
            }
            None => false,
        }
    }

    fn register(&self, session: &str, name: &str) -> Open {
        let stop = CancellationToken::new();
        let mut book = self.book();
        book.open
            .entry(session.to_owned())
            .or_default()
            .insert(name.to_owned(), stop.clone());
        drop(book);
        Open {
            book: self.book.clone(),
            session: session.to_owned(),
            name: name.to_owned(),
            stop,
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// HMAC-SHA-256, shortened.
    fn sign(&self, message: &[u8]) -> [u8; PART] {
        let pad = |byte: u8| {
            let mut block = [byte; BLOCK];
            block
                .iter_mut()
                .zip(self.key)
                .for_each(|(slot, key)| *slot ^= key);
            block
        };
        let inner = Sha256::new()
            .chain_update(pad(0x36))
            .chain_update(message)
            .finalize();
        let outer = Sha256::new()
            .chain_update(pad(0x5c))
            .chain_update(inner)
            .finalize();
        shortened(&outer)
    }
}

/// Something open in a session; it is off the books when this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    book: Arc<Mutex<Book>>,
    session: String,
    name: String,
    /// Cancelled when the client calls it off or ends the session.
    pub(crate) stop: CancellationToken,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = book.open.get_mut(&self.session) {
            open.remove(&self.name);
            if open.is_empty() {
                book.open.remove(&self.session);
            }
        }
    }
}

fn digest(principal: &Principal) -> [u8; PART] {
    shortened(&Sha256::digest(principal.fingerprint().as_bytes()))
}

fn shortened(digest: &[u8]) -> [u8; PART] {
    let mut part = [0; PART];
    part.copy_from_slice(&digest[..PART]);
    part
}

#[cfg(test)]
mod tests {
    use everdict_contracts::{Subject, WorkspaceId};

    use super::*;
    use crate::auth::Role;

    fn principal(subject: &str) -> Principal {
        Principal::Key {
            subject: Subject::from(subject),
            workspace: WorkspaceId::from("acme"),
            role: Role::Admin,
        }
    }

    #[test]
    fn a_session_belongs_to_its_principal_until_it_ends() {
        let sessions = Sessions::new([7; 32]);
        let id = sessions.start(&principal("ann"));
        assert!(sessions.knows(&id, &principal("ann")));
        assert!(!sessions.knows(&id, &principal("bob")));
        sessions.end(&id);
        assert!(!sessions.knows(&id, &principal("ann")));
    }

    #[test]
    fn a_restarted_hub_knows_its_sessions_and_no_others() {
        let id = Sessions::new([7; 32]).start(&principal("ann"));
        assert!(Sessions::new([7; 32]).knows(&id, &principal("ann")));
        assert!(!Sessions::new([8; 32]).knows(&id, &principal("ann")));
        let mut forged = id.clone().into_bytes();
        forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert!(!Sessions::new([7; 32]).knows(&forged, &principal("ann")));
        for nonsense in ["", "x", "11111111-2222-3333-4444-555555555555"] {
            assert!(!Sessions::new([7; 32]).knows(nonsense, &principal("ann")));
        }
    }

    #[test]
    fn the_keyed_hash_is_hmac() {
        // RFC 4231, test case 1, with the key padded to the 32 bytes that the hub's keys have.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let signature = Sessions::new(key).sign(b"Hi There");
        assert_eq!(signature[..4], [0xb0, 0x34, 0x4c, 0x61]);
    }

    #[test]
    fn ending_a_session_stops_what_is_open_in_it() {
        let sessions = Sessions::new([7; 32]);
        let call = sessions.call("s", "1");
        let stream = sessions.stream("s").unwrap();
        assert!(sessions.stream("s").is_none());
        sessions.cancel("s", "1");
        assert!(call.stop.is_cancelled() && !stream.stop.is_cancelled());
        sessions.end("s");
        assert!(stream.stop.is_cancelled());
        drop((call, stream));
        assert!(sessions.book().open.is_empty());
    }
}
