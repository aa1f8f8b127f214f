//! What people submitted, what left, and what their clients said became of it.

use std::collections::BTreeMap;

use serde_json::Value;
use usher_shared::client::{Delivery, DeliveryState, Engine, IdOrigin, Submission};
use usher_shared::error::ErrorCode;
use usher_shared::id::{AdmissionId, IncarnationId, SessionId};

use crate::store::{Row, Store};

/// What a client last said of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Open,
    Accepted,
    Rejected,
    Uncertain,
}

struct Sent {
    client: usize,
    session: SessionId,
    life: Option<IncarnationId>,
    id: AdmissionId,
    origin: IdOrigin,
    text: String,
    /// The bytes that left first.
    payload: Option<String>,
    said: Said,
    /// The life of the client that said so; 0: none.
    told_by: u64,
    given_up: bool,
    /// A later prompt of the same client and session left while nothing was known of this one, so
    /// that it may be stored out of turn.
    was_uncertain: bool,
    /// The life of the client in which it left last.
    left_in: u64,
    /// A client that died had sent it, and nothing that can be relied on says so: its heir takes it for
    /// one that never left.
    left_unknown: bool,
    /// Somebody asked for it to be sent again.
    is_checked: bool,
    /// What its row said is not to be relied on: it could not be written, or the disk is lost.
    unprotected: bool,
    /// A later prompt was stored before it, which it was to come before.
    overtaken_by: Option<AdmissionId>,
    stored: bool,
}

/// See the module.
pub(crate) struct Sends {
    all: Vec<Sent>,
    /// The prompt that is open, by client and session.
    open: BTreeMap<(usize, SessionId), AdmissionId>,
    /// Whether the server says that it answers replays from receipts.
    has_receipts: bool,
    /// What left in the step that is under way.
    just_left: Vec<(usize, SessionId, AdmissionId)>,
    /// Receipts that were seen, by session.
    receipts: BTreeMap<SessionId, usize>,
}

type Checked = Result<(), String>;

fn must(holds: bool, or: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(or()) }
}

impl Sends {
    pub(super) fn new(has_receipts: bool) -> Self {
        Self {
            all: Vec::new(),
            open: BTreeMap::new(),
            has_receipts,
            just_left: Vec::new(),
            receipts: BTreeMap::new(),
        }
    }

    pub(crate) fn submitted(&mut self, client: usize, submission: &Submission) {
        self.all.push(Sent {
            client,
            session: submission.params.session_id,
            life: submission.params.session_incarnation_id,
            id: submission.admission_id.clone(),
            origin: submission.id_origin,
            text: submission.params.content.clone(),
            payload: None,
            said: Said::Open,
            told_by: 0,
            given_up: false,
            was_uncertain: false,
            left_in: 0,
            left_unknown: false,
            is_checked: false,
            unprotected: false,
            overtaken_by: None,
            stored: false,
        });
    }

    /// Tells whether a prompt is for the life that its session is in.
    pub(crate) fn is_of_now(&self, client: usize, id: &AdmissionId, store: &Store) -> bool {
        let mut sent = self.all.iter().rev();
        let sent = sent.find(|sent| sent.client == client && sent.id == *id);
        sent.is_some_and(|sent| {
            let row = store.row(sent.session);
            row.is_some_and(|row| sent.life == Some(row.session.incarnation_id))
        })
    }

    fn newest(&mut self, client: usize, id: &AdmissionId) -> Option<&mut Sent> {
        self.all.iter_mut().rev().find(|sent| sent.client == client && sent.id == *id)
    }

    /// The submission of this text: an ID that somebody gave may have been used for another, too.
    fn of_text(&mut self, client: usize, id: &AdmissionId, text: &str) -> Option<&mut Sent> {
        let mut sent = self.all.iter_mut().rev();
        sent.find(|sent| sent.client == client && sent.id == *id && sent.text == text)
    }

    /// A client died: what it had under way is nobody's until somebody adopts it.
    pub(crate) fn died(&mut self, client: usize) {
        self.open.retain(|(of, _), _| *of != client);
        self.just_left.clear();
        // What is still under way may arrive whenever it likes.
        let left = self.all.iter_mut().filter(|sent| sent.client == client);
        left.filter(|sent| sent.payload.is_some()).for_each(|sent| sent.was_uncertain = true);
    }

    /// An admission leaves a client.
    pub(crate) fn left(
        &mut self,
        client: usize,
        life: u64,
        payload: &str,
        has_row: impl Fn(&AdmissionId) -> bool,
    ) -> Checked {
        let value: Value = serde_json::from_str(payload).map_err(|error| error.to_string())?;
        let id = AdmissionId::parse(value["client_queue_id"].as_str().unwrap_or_default());
        let id = id.map_err(|error| format!("an admission left without an ID: {error}"))?;
        let has_receipts = self.has_receipts;
        let text = value["content"].as_str().unwrap_or_default();
        let Some(sent) = self.of_text(client, &id, text) else {
            return Err(format!("{id} left as {text}, which nobody submitted"));
        };
        let session = sent.session;
        let is_again = sent.payload.is_some();
        // Of one that was not written down in time its heir cannot know that it left.
        let is_unknown = is_again && sent.unprotected && sent.left_in != life;
        sent.left_unknown |= is_unknown;
        must(has_receipts || !is_again || is_unknown, || {
            format!("{id} was sent again, which is not safe")
        })?;
        let first = sent.payload.get_or_insert_with(|| payload.to_owned());
        must(first == payload, || format!("{id} left as {first} and then as {payload}"))?;
        let is_written = sent.unprotected || has_row(&id);
        must(is_written, || format!("{id} left before it was in the journal"))?;
        let is_heirs = sent.left_in != 0 && sent.left_in != life;
        let is_heirs = is_heirs && sent.origin == IdOrigin::Minted && !is_unknown;
        must(!is_heirs || sent.is_checked, || {
            format!("{id} was sent by a client that is dead, and again by its heir")
        })?;
        sent.left_in = life;
        self.just_left.push((client, session, id));
        Ok(())
    }

    /// A client has said everything about one step: what left in it is open from here on.
    pub(crate) fn step_over(&mut self) -> Checked {
        for (client, session, id) in std::mem::take(&mut self.just_left) {
            let open = self.open.entry((client, session)).or_insert_with(|| id.clone());
            must(*open == id, || format!("{id} left while {open} was open"))?;
        }
        Ok(())
    }

    /// A client says that a prompt goes without a row.
    pub(crate) fn unprotected(&mut self, client: usize, id: &AdmissionId) {
        if let Some(sent) = self.newest(client, id) {
            sent.unprotected = true;
        }
    }

    /// The disk with a client's journal is lost.
    pub(crate) fn lost_journal(&mut self, client: usize) {
        let of_client = self.all.iter_mut().filter(|sent| sent.client == client);
        of_client.for_each(|sent| sent.unprotected = true);
    }

    /// Somebody presses "check and resend".
    pub(crate) fn checked(&mut self, client: usize, id: &AdmissionId) {
        if let Some(sent) = self.newest(client, id) {
            sent.is_checked = true;
        }
    }

    /// What ever left a client, it has, unless it called it accepted or somebody gave it up.
    pub(crate) fn keeps_all(&self, client: usize, engine: &Engine) -> Checked {
        let of_client = self.all.iter().filter(|sent| sent.client == client);
        let mut open = of_client.filter(|sent| {
            sent.payload.is_some()
                && sent.origin == IdOrigin::Minted
                && !sent.unprotected
                && !sent.given_up
                && sent.said != Said::Accepted
        });
        open.try_for_each(|sent| {
            let is_kept = engine.deliveries().any(|one| one.admission_id == sent.id);
            must(is_kept, || format!("{} left, and its client has forgotten it", sent.id))
        })
    }

    /// What a client has not called accepted, and nobody gave up, it still has.
    pub(crate) fn keeps(&self, client: usize, life: u64, engine: &Engine) -> Checked {
        let of_client =
            self.all.iter().filter(|sent| (sent.client, sent.told_by) == (client, life));
        let mut open = of_client.filter(|sent| !sent.given_up).filter(|sent| match sent.said {
            Said::Open | Said::Rejected | Said::Uncertain => true,
            Said::Accepted => false,
        });
        open.try_for_each(|sent| {
            let is_kept = engine.deliveries().any(|one| one.admission_id == sent.id);
            must(is_kept, || {
                format!("{} is {:?} and the client has it no more", sent.id, sent.said)
            })
        })
    }

    /// A client says what became of a prompt.
    pub(crate) fn said(
        &mut self,
        client: usize,
        life: u64,
        delivery: &Delivery,
        store: &Store,
    ) -> Checked {
        let id = &delivery.admission_id;
        let session = delivery.params.session_id;
        let settled = match &delivery.state {
            DeliveryState::Accepted(_) => Said::Accepted,
            DeliveryState::Rejected(_) => Said::Rejected,
            DeliveryState::Uncertain { .. } => Said::Uncertain,
            DeliveryState::WaitingForLink
            | DeliveryState::Queued
            | DeliveryState::Saving
            | DeliveryState::Returned
            | DeliveryState::AwaitingReply { .. }
            | DeliveryState::Reconciling { .. } => Said::Open,
        };
        if settled != Said::Open && self.open.get(&(client, session)) == Some(id) {
            self.open.remove(&(client, session));
        }
        let was_used_before = self.all.iter().filter(|sent| sent.id == *id).count() > 1;
        let Some(sent) = self.of_text(client, id, &delivery.params.content) else {
            return Err(format!("{id} is {:?}, and nobody submitted it", delivery.state));
        };
        (sent.said, sent.told_by) = (settled, life);
        sent.was_uncertain |= settled == Said::Uncertain;
        let row = store.row(session);
        let stored = row.is_some_and(|row| sent.is_stored_in(row));
        match &delivery.state {
            DeliveryState::Accepted(_) => {
                must(stored, || format!("{id} is called accepted and is not stored"))
            }
            DeliveryState::Rejected(error) => {
                // Of an ID that was used before it says what became of this attempt alone.
                let is_theirs = sent.origin == IdOrigin::Given && was_used_before;
                let conflicts = error.code == ErrorCode::QueueIdConflict;
                let is_unknown = sent.left_unknown;
                must(!stored || is_unknown || (is_theirs && !conflicts), || {
                    format!("{id} is called rejected ({}) and is stored", error.code)
                })
            }
            _ => Ok(()),
        }
    }

    /// A person gives a prompt up.
    pub(crate) fn dropped(&mut self, client: usize, id: &AdmissionId) {
        if let Some(sent) = self.newest(client, id) {
            sent.given_up = true;
        }
    }

    /// The client does not let it go.
    pub(crate) fn not_dropped(&mut self, client: usize, id: &AdmissionId) {
        if let Some(sent) = self.newest(client, id) {
            sent.given_up = false;
        }
    }

    /// The client let it go.
    pub(crate) fn let_go(&mut self, client: usize, id: &AdmissionId) {
        let key = self.newest(client, id).map(|sent| (client, sent.session));
        if let Some(key) = key.filter(|key| self.open.get(key) == Some(id)) {
            self.open.remove(&key);
        }
    }

    /// Looks at what was committed.
    pub(super) fn check(&mut self, store: &Store) -> Checked {
        for row in store.rows() {
            let session = row.session.id;
            let seen = self.receipts.get(&session).copied().unwrap_or(0);
            for (key, receipt) in row.receipts.iter().skip(seen) {
                let life = row.life_of(*key);
                let id = &receipt.identified.id;
                let twice = row
                    .receipts
                    .iter()
                    .filter(|(other, one)| other == key && one.identified.id == *id);
                must(twice.count() == 1, || format!("{id} has two receipts"))?;
                self.stored(session, life, id, &receipt.entry.content)?;
            }
            self.receipts.insert(session, row.receipts.len());
        }
        self.all.iter().filter(|sent| sent.said == Said::Accepted).try_for_each(|sent| {
            let row = store.row(sent.session);
            let is_there = row.is_some_and(|row| sent.is_stored_in(row));
            must(is_there, || format!("{} was accepted and is gone", sent.id))
        })
    }

    /// A prompt was stored: in its turn, unless it was given up or nothing was known of it.
    fn stored(
        &mut self,
        session: SessionId,
        life: Option<IncarnationId>,
        id: &AdmissionId,
        content: &str,
    ) -> Checked {
        let is_it = |sent: &Sent| {
            sent.origin == IdOrigin::Minted
                && (sent.session, sent.life) == (session, life)
                && sent.id == *id
        };
        let Some(index) = self.all.iter().position(is_it) else {
            let known = self.all.iter().any(|sent| sent.id == *id && content.ends_with(&sent.text));
            return must(known, || format!("{id} was stored, which nobody submitted"));
        };
        let sent = &mut self.all[index];
        sent.stored = true;
        let said = sent.said;
        let client = sent.client;
        let overtaken_by = sent.overtaken_by.clone();
        must(said != Said::Rejected || sent.left_unknown, || {
            format!("{id} was called rejected and is stored now")
        })?;
        must(content.ends_with(&sent.text), || format!("{id} was stored as {content}"))?;
        must(overtaken_by.is_none(), || format!("{id} was stored behind {overtaken_by:?}"))?;
        for earlier in &mut self.all[..index] {
            let same = (earlier.client, earlier.session, earlier.life) == (client, session, life);
            let waits = earlier.said == Said::Open && !earlier.was_uncertain;
            let waits = waits && !earlier.stored && !earlier.given_up;
            if same && waits && earlier.origin == IdOrigin::Minted {
                earlier.overtaken_by.get_or_insert_with(|| id.clone());
            }
        }
        Ok(())
    }
}

impl Sent {
    /// Tells whether the server has this prompt under its ID, in its life.
    fn is_stored_in(&self, row: &Row) -> bool {
        let mut receipts = row.receipts.iter();
        receipts.any(|(key, receipt)| {
            row.life_of(*key) == self.life
                && receipt.identified.id == self.id
                && receipt.entry.content.ends_with(&self.text)
        })
    }
}
