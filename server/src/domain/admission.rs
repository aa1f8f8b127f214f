//! Admission: the durable acceptance of one submission, exactly once per admission ID.

use std::sync::Arc;

use usher_shared::counter::{Position, QueueRevision, TargetRevision};
use usher_shared::id::{AdmissionId, EntryId};
use usher_shared::limits::{
    ADMISSION_IDS_MAX, CLIENT_QUEUE_ID_BYTES_MAX, ENTRIES_MAX, METADATA_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
};
use usher_shared::prompt::{PromptText, cut_at_char};
use usher_shared::rules::fingerprint::Fingerprint;
use usher_shared::time::UnixMillis;
use usher_shared::vocabulary::AdmissionOutcome;

use super::attachment::{self, Offered, TakeRefusal, Upload};
use super::change::{Change, Decision};
use super::enclosed::Enclosed;
use super::entry::{Entry, Provenance, Sender};
use super::event::Event;
use super::merge::{self, Bound, Overflow};
use super::plan::{self, Comment, CommentConflict};
use super::session::{AutoRun, QueueHead, Session};

/// A submission that names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The admission ID.
    pub id: AdmissionId,
    /// Of the payload as sent.
    pub fingerprint: Fingerprint,
}

/// A submission whose shape and hard bounds are checked.
#[derive(Clone, Debug)]
pub struct Submission {
    /// None: the plain path, without receipt and without replay protection.
    pub identified: Option<Identified>,
    /// The prompt.
    pub content: PromptText,
    /// The model it asks for.
    pub model: Option<String>,
    /// Whether it runs in the agent's plan mode.
    pub plan_mode: bool,
    /// Its attachments.
    pub offered: Vec<Offered>,
    /// What else it carries beside its text.
    pub enclosed: Enclosed,
    /// Who sent it.
    pub queued_by: Sender,
}

impl Submission {
    /// Tells whether it names uploads.
    fn is_staged(&self) -> bool {
        self.offered.iter().any(|one| one.named().is_some())
    }
}

/// The stored proof of an admission: what it was, and the answer as of acceptance. Outlives the
/// entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What names it.
    pub identified: Identified,
    /// How it was accepted the first time.
    pub outcome: AdmissionOutcome,
    /// The entry as of acceptance; its content is cut so that with the admissions that it was made
    /// from it has at most [`SNAPSHOT_BYTES_MAX`].
    pub entry: Entry,
    /// Whether the content was cut.
    pub content_truncated: bool,
    /// The queue's revision as of acceptance.
    pub queue_revision: QueueRevision,
}

/// The store's handle of a receipt. Decisions only hand it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiptKey(pub i64);

/// What a decision has to know of a receipt to let the next one go on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptEnd {
    /// Which receipt.
    pub key: ReceiptKey,
    /// The entry that its admission became or joined.
    pub entry_id: EntryId,
    /// The entry's revision as of acceptance.
    pub revision: TargetRevision,
    /// The size of its snapshot's content, bytes.
    pub content_bytes: usize,
}

/// The receipt of an admission that folded into an entry nothing else happened to since the one
/// before: its snapshot begins as that of `receipt` does and has one admission more, so only the
/// rest is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// The earlier receipt.
    pub receipt: ReceiptKey,
    /// How much of its snapshot's content begins this one's, bytes.
    pub content_bytes: usize,
    /// Whether this snapshot carries more beside the text.
    pub enclosed: Carries,
}

/// What a fold adds to what an entry carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Nothing.
    Same,
    /// Something.
    More,
}

/// The last stored entry of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The entry.
    pub entry: Entry,
    /// The receipt of the newest admission that it was made from.
    pub newest: Option<ReceiptEnd>,
}

impl Tail {
    /// Returns what the receipt of a fold into this entry goes on from. Every other change of what an
    /// entry says raises its revision, and another life of the session has receipts of its own.
    fn followed_by(&self, snapshot: &Entry) -> Option<Follows> {
        self.newest
            .filter(|end| (end.entry_id, end.revision) == (self.entry.id, self.entry.revision))
            .map(|end| Follows {
                receipt: end.key,
                content_bytes: end.content_bytes.min(snapshot.content.len()),
                enclosed: match self.entry.enclosed == snapshot.enclosed {
                    true => Carries::Same,
                    false => Carries::More,
                },
            })
    }
}

/// The answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The entry as of acceptance.
    pub entry: Entry,
    /// Whether its content was cut for the answer.
    pub content_truncated: bool,
    /// How it was accepted.
    pub outcome: AdmissionOutcome,
    /// The queue's revision as of acceptance.
    pub queue_revision: QueueRevision,
    /// Whether sending it again is answered from a receipt.
    pub replay_safe: bool,
}

/// Why a submission was not accepted. Nothing was stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmitRefusal {
    /// The admission ID was used with another payload.
    #[error("admission id was used with another payload")]
    Conflict,
    /// The queue is full.
    #[error("queue holds {queue_size} of {max} entries")]
    QueueFull {
        /// Stored entries.
        queue_size: u64,
        /// The cap in force.
        max: u64,
    },
    /// Nothing a reader could see, and nothing beside it.
    #[error("content is blank")]
    Blank,
    /// See [`CommentConflict`].
    #[error(transparent)]
    Comment(#[from] CommentConflict),
    /// It does not get its attachments.
    #[error(transparent)]
    NotTaken(#[from] TakeRefusal),
    /// More beside the text than an entry may have.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

/// Fresh values for one decision.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// The name of the new entry.
    pub entry_id: EntryId,
    /// The time.
    pub now: UnixMillis,
}

/// Returns the cap in force for a setting; 0 leaves the hard bound alone.
pub fn cap_in_force(max_per_session: u32) -> u64 {
    match max_per_session {
        0 => ENTRIES_MAX as u64,
        cap => u64::from(cap).min(ENTRIES_MAX as u64),
    }
}

/// Answers a submission whose admission ID was accepted before, and changes nothing.
pub fn replay(receipt: Receipt, sent: &Identified) -> Result<Admitted, AdmitRefusal> {
    if receipt.identified.fingerprint != sent.fingerprint {
        return Err(AdmitRefusal::Conflict);
    }
    Ok(Admitted {
        entry: receipt.entry,
        content_truncated: receipt.content_truncated,
        outcome: AdmissionOutcome::Replayed,
        queue_revision: receipt.queue_revision,
        replay_safe: true,
    })
}

/// Decides a first admission to an authorized session. `tail` is the last stored entry if new ones
/// may fold into it: a fold adds no entry, so a full queue takes it, too, unless it names uploads.
/// `uploads` are those that it names, `comments` those that it refers to, in its order.
pub fn admit(
    session: &Session,
    submission: Submission,
    uploads: &[Upload],
    comments: Vec<Option<Comment>>,
    tail: Option<&Tail>,
    max_per_session: u32,
    fresh: Fresh,
) -> Result<Decision<Admitted>, AdmitRefusal> {
    let speaks = !submission.offered.is_empty() || submission.enclosed.speaks();
    if submission.content.is_blank() && !speaks {
        return Err(AdmitRefusal::Blank);
    }
    let consumed = plan::consume(comments, &submission.enclosed.comments, fresh.entry_id)?;
    let max = cap_in_force(max_per_session);
    let full = AdmitRefusal::QueueFull { queue_size: session.queue.stored, max };
    let is_full = session.queue.stored >= max;
    if is_full && (tail.is_none() || submission.is_staged()) {
        return Err(full);
    }
    let taken = attachment::take(session, &submission.offered, uploads, &[], fresh.now)?;
    let new = Entry {
        id: fresh.entry_id,
        position: session.queue.next_position.max(Position::new(1)),
        content: Arc::from(submission.content.as_str()),
        enclosed: Enclosed { attachments: taken.attachments.clone(), ..submission.enclosed },
        model: submission.model,
        plan_mode: submission.plan_mode,
        provenance: Provenance {
            admission_ids: submission.identified.iter().map(|sent| sent.id.clone()).collect(),
            past: Vec::new(),
        },
        queued_at: fresh.now,
        queued_by: submission.queued_by,
        revision: TargetRevision::new(1),
        reserved_for: None,
    };
    if new.metadata_bytes() > METADATA_BYTES_MAX {
        return Err(Overflow(Bound::Metadata).into());
    }
    // What would break a bound stays an entry of its own.
    let folded = tail
        .filter(|tail| merge::may_fold(&tail.entry, &new))
        .and_then(|tail| Some((tail, merge::join(&tail.entry, &new).ok()?)));
    let (folded_into, outcome, entry, queue) = match folded {
        Some((tail, folded)) => {
            (Some(tail), AdmissionOutcome::Folded, folded, session.queue.changed())
        }
        None if is_full => return Err(full),
        None => {
            let queue = QueueHead {
                stored: session.queue.stored + 1,
                next_position: new.position.next(),
                ..session.queue.changed()
            };
            (None, AdmissionOutcome::Admitted, new, queue)
        }
    };
    let (snapshot, content_truncated) = snapshot(&entry);
    let claims = taken.by(session.key, entry.id);
    let entry = Box::new(entry);
    let mut changes = vec![
        match outcome {
            AdmissionOutcome::Folded => Change::RewriteEntry(entry),
            AdmissionOutcome::Admitted | AdmissionOutcome::Replayed => {
                Change::InsertEntry(session.key, entry)
            }
        },
        Change::SetQueue(session.key, queue),
    ];
    changes.extend(claims);
    let replay_safe = submission.identified.is_some();
    if let Some(identified) = submission.identified {
        let receipt = Receipt {
            identified,
            outcome,
            entry: snapshot.clone(),
            content_truncated,
            queue_revision: queue.revision,
        };
        let follows = folded_into.and_then(|tail| tail.followed_by(&snapshot));
        changes.push(Change::InsertReceipt(session.incarnation_key, Box::new(receipt), follows));
    }
    let mut events = session.queue_resized().to_vec();
    if !consumed.is_empty() {
        changes.extend(consumed);
        events.push((session.id, Event::PlanChanged));
    }
    if session.is_promptable() && queue.auto_run == AutoRun::On {
        events.push((session.id, Event::MayStart));
    }
    Ok(Decision {
        changes,
        events,
        reply: Admitted {
            entry: snapshot,
            content_truncated,
            outcome,
            queue_revision: queue.revision,
            replay_safe,
        },
    })
}

// What an entry has beside its text never fills more than a snapshot.
const _: () = assert!(METADATA_BYTES_MAX <= SNAPSHOT_BYTES_MAX);
const _: () = assert!(2 * ADMISSION_IDS_MAX * CLIENT_QUEUE_ID_BYTES_MAX <= METADATA_BYTES_MAX);

/// Cuts an entry for a receipt, so that the first answer and every replay are the same.
fn snapshot(entry: &Entry) -> (Entry, bool) {
    let room = SNAPSHOT_BYTES_MAX.saturating_sub(entry.metadata_bytes());
    let cut = cut_at_char(&entry.content, room);
    if cut.len() == entry.content.len() {
        return (entry.clone(), false);
    }
    (Entry { content: Arc::from(cut), ..entry.clone() }, true)
}
