//! A client: the real engine, its journal, and a person who types, reads and gives up.

use std::collections::{BTreeMap, VecDeque};

use usher_shared::client::{
    Call, CallId, CallOutcome, EditSave, EditState, EditTarget, Engine, EngineConfig, Input,
    Journaling, Submission, reply,
};
use usher_shared::counter::QueueRevision;
use usher_shared::id::{
    AdmissionId, ClientInstance, EntryId, IncarnationId, OperationId, SessionId, UndoId,
};
use usher_shared::protocol::Request;
use usher_shared::protocol::hello::ClientInfo;
use usher_shared::protocol::queue::{
    AutoRunSetParams, QueueAddParams, QueueClearParams, QueueDrainParams, QueueMergeParams,
    QueueRemoveParams, QueueReorderParams, QueueRestoreParams,
};
use usher_shared::protocol::session::{Identity, SessionResetParams};
use usher_shared::protocol::turn::TurnCancelParams;

use crate::broken::Broken;
use crate::journal::JournalFile;
use crate::network::LinkNo;
use crate::schedule::{Ask, Trap};
use crate::server::sessions;
use crate::tamper::Tamper;

/// See the module.
pub(crate) struct Client {
    pub(crate) number: usize,
    /// None: it is dead.
    pub(crate) engine: Option<Engine>,
    /// Counts the starts.
    pub(crate) life: u64,
    pub(crate) journal: JournalFile,
    /// When the journal has done everything that it was told to.
    pub(crate) journal_free_at: u64,
    /// Whether it asked for what dead clients left.
    pub(crate) has_adopted: bool,
    pub(crate) tamper: Tamper,
    broken: Option<Broken>,
    /// The connection that the engine asked for last, until it is reported closed.
    pub(crate) link: Option<LinkNo>,
    /// Its machine sleeps until then.
    pub(crate) asleep_until: u64,
    /// What came meanwhile.
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) traps: Vec<Trap>,
    /// When its engine is to be called next.
    pub(crate) due_at: Option<u64>,
    /// The session that the person looks at.
    pub(crate) looks_at: Option<SessionId>,
    lives: BTreeMap<SessionId, IncarnationId>,
    typed: u64,
    calls: u64,
    saves: u64,
    last_save: Option<OperationId>,
    /// The newest revision on the screen, of the session that it shows.
    shown: Option<(SessionId, QueueRevision)>,
    undos: BTreeMap<u64, Undo>,
    last_undo: Option<(SessionId, UndoId)>,
}

/// A call whose answer can be undone.
#[derive(Clone, Copy)]
enum Undo {
    Remove(SessionId),
    Clear(SessionId),
}

impl Client {
    pub(crate) fn new(number: usize, broken: Option<Broken>) -> Self {
        let lives = sessions().into_iter().map(|(_, session, life)| (session, life)).collect();
        Self {
            number,
            engine: None,
            life: 0,
            journal: JournalFile::new(broken),
            journal_free_at: 0,
            has_adopted: false,
            tamper: Tamper::new(broken),
            broken,
            link: None,
            asleep_until: 0,
            inbox: VecDeque::new(),
            traps: Vec::new(),
            due_at: None,
            looks_at: None,
            lives,
            typed: 0,
            calls: 0,
            saves: 0,
            last_save: None,
            shown: None,
            undos: BTreeMap::new(),
            last_undo: None,
        }
    }

    /// The program starts anew: another instance, another engine, the same journal.
    pub(crate) fn start(&mut self) {
        self.life += 1;
        let instance = uuid::Uuid::from_u128(
            (7 << 96) | ((self.number as u128 + 1) << 64) | u128::from(self.life),
        );
        self.engine = Some(Engine::new(EngineConfig {
            client: ClientInfo { name: "simulation".to_owned(), version: "1".to_owned() },
            client_instance: ClientInstance::from_uuid(instance),
            token: None,
            spread_seed: self.number as u64 * 1_000 + self.life,
            journaling: Journaling::Adopting,
        }));
        self.tamper = Tamper::new(self.broken);
        (self.journal_free_at, self.has_adopted) = (0, false);
        self.shown = None;
        self.last_save = None;
        self.undos.clear();
    }

    /// The program dies; what its journal holds stays.
    pub(crate) fn die(&mut self) {
        self.engine = None;
        self.inbox.clear();
        self.asleep_until = 0;
        self.due_at = None;
    }

    /// Learns from the screen which life a session is in.
    pub(crate) fn look(&mut self) {
        if let Some(mirror) = self.engine.as_ref().and_then(Engine::mirror) {
            let session = mirror.session();
            self.lives.insert(session.id, session.incarnation_id);
        }
    }

    fn identity(&self, place: usize) -> Identity {
        let (task_id, session_id, _) = sessions()[place];
        let session_incarnation_id = self.lives[&session_id];
        Identity { task_id, session_id, session_incarnation_id }
    }

    /// Types a prompt that nobody typed before.
    pub(crate) fn types(&mut self, place: usize) -> Submission {
        self.typed += 1;
        let name = format!("c{}-{}", self.number, self.typed);
        let id = AdmissionId::parse(&name).expect("it is short and plain");
        Submission::minted(id, self.prompt(place, &format!("<{name}>")))
    }

    /// Types a prompt under an ID that anybody may use.
    pub(crate) fn types_given(&self, place: usize, name: u64, text: u64) -> Submission {
        let id = AdmissionId::parse(&format!("given-{name}")).expect("it is short and plain");
        let params = self.prompt(place, &format!("<given-{name}-{text}>"));
        Submission {
            id_origin: usher_shared::client::IdOrigin::Given,
            ..Submission::minted(id, params)
        }
    }

    fn prompt(&self, place: usize, text: &str) -> QueueAddParams {
        let Identity { task_id, session_id, session_incarnation_id } = self.identity(place);
        QueueAddParams {
            task_id,
            session_id,
            session_incarnation_id: Some(session_incarnation_id),
            content: text.to_owned(),
            ..QueueAddParams::default()
        }
    }

    fn call<R: Request>(&mut self, request: &R) -> Input {
        self.calls += 1;
        Input::Call(Call::new(CallId::new(self.calls), request))
    }

    /// Makes an input of what the person wants to do with what the screen shows; None: nothing there
    /// to do it with.
    pub(crate) fn asks(&mut self, ask: Ask) -> Option<Input> {
        let mirror = self.engine.as_ref()?.mirror()?;
        let identity = mirror.session().identity();
        let entries: Vec<EntryId> = mirror.queue().entries.iter().map(|entry| entry.id()).collect();
        let pick = |number: u64| {
            let count = entries.len() as u64;
            (count > 0).then(|| entries[usize::try_from(number % count).unwrap_or(0)])
        };
        Some(match ask {
            Ask::Remove(number) => {
                let entry_id = pick(number)?;
                self.undos.insert(self.calls + 1, Undo::Remove(identity.session_id));
                self.call(&QueueRemoveParams { identity, entry_id })
            }
            Ask::Clear => {
                self.undos.insert(self.calls + 1, Undo::Clear(identity.session_id));
                self.call(&QueueClearParams { identity, expected_queue_revision: None })
            }
            Ask::Restore => {
                let (session, undo_id) = self.last_undo.take()?;
                if session != identity.session_id {
                    return None;
                }
                self.call(&QueueRestoreParams { identity, undo_id })
            }
            Ask::Merge(number) => {
                let entry_id = pick(number)?;
                self.call(&QueueMergeParams { identity, entry_id })
            }
            Ask::Reorder(number) => {
                let mut ordered_ids = entries;
                let by = usize::try_from(number).unwrap_or(0) % ordered_ids.len().max(1);
                ordered_ids.rotate_left(by);
                let expected_queue_revision = None;
                self.call(&QueueReorderParams { identity, ordered_ids, expected_queue_revision })
            }
            Ask::AutoRun(enabled) => self.call(&AutoRunSetParams { identity, enabled }),
            Ask::Drain => self.call(&QueueDrainParams { identity }),
            Ask::StopTurn => self.call(&TurnCancelParams { identity, expected_turn_id: None }),
            Ask::Reset { keep_queue } => {
                self.call(&SessionResetParams { identity, keep_queue: Some(keep_queue) })
            }
            Ask::Edit(number) => {
                let entry_id = pick(number)?;
                Input::BeginEdit(EditTarget { identity, entry_id })
            }
            Ask::Save => {
                self.saves += 1;
                let name = format!("c{}-{}-save-{}", self.number, self.life, self.saves);
                let operation_id = OperationId::parse(&name).expect("it is short and plain");
                if self.engine.as_ref()?.edit()?.state != EditState::Editing {
                    return None;
                }
                self.last_save = Some(operation_id.clone());
                Input::SaveEdit(EditSave {
                    operation_id,
                    content: format!("[{name}]"),
                    attachments: None,
                    entity_references: None,
                })
            }
            Ask::LeaveEdit => Input::LeaveEdit,
        })
    }

    /// Returns the newest save.
    pub(crate) fn last_save(&self) -> Option<&OperationId> {
        self.last_save.as_ref()
    }

    /// The screen shows this revision. Tells whether it showed a newer one of the same session before.
    pub(crate) fn shows(&mut self, session: SessionId, revision: QueueRevision) -> bool {
        let before = self.shown.replace((session, revision));
        before.is_some_and(|(of, newer)| of == session && newer > revision)
    }

    /// Remembers what a call's answer lets the person undo.
    pub(crate) fn called(&mut self, id: CallId, outcome: &CallOutcome) {
        let known = self.undos.iter().find(|(call, _)| CallId::new(**call) == id);
        let Some((call, undo)) = known.map(|(call, undo)| (*call, *undo)) else { return };
        self.undos.remove(&call);
        let CallOutcome::Reply(payload) = outcome else { return };
        let undone = match undo {
            Undo::Remove(session) => {
                reply::<QueueRemoveParams>(payload).map(|reply| (session, reply.undo_id))
            }
            Undo::Clear(session) => {
                reply::<QueueClearParams>(payload).map(|reply| (session, reply.undo_id))
            }
        };
        self.last_undo = Some(undone.expect("the server writes replies that can be read"));
    }

    /// Takes the trap that a request of this action springs, if there is one.
    pub(crate) fn springs(&mut self, action: &str) -> Option<Trap> {
        let index = self.traps.iter().position(|trap| trap.kind.is(action))?;
        if self.traps[index].skip > 0 {
            self.traps[index].skip -= 1;
            return None;
        }
        Some(self.traps.remove(index))
    }
}
