//! Which session is open: at the start, and from the list.

use usher_shared::client::{Input, LinkState};
use usher_shared::error::{ErrorCode, WireError};
use usher_shared::id::{SessionId, TaskId};
use usher_shared::protocol::session::{Session, SessionListParams};
use usher_shared::protocol::task::{Task, TaskCreateParams, TaskCreateReply, TaskListParams};

use super::ask::Toast;
use super::calls::Asked;
use super::queue::Step;
use super::state::{Focus, State};
use crate::start::{Files, meant_session};

/// The caller's sessions, and what is still to be done at the start.
#[derive(Debug)]
pub(crate) struct Sessions {
    start: Start,
    list_state: ListState,
    workspace_dir: Option<String>,
    files: Files,
    tasks: Option<Vec<Task>>,
    list: Vec<Session>,
    selected: Option<SessionId>,
}

/// Whether the list came from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListState {
    /// Not yet.
    Wanted,
    /// It did; later changes were applied to it.
    Known,
}

/// What happens when the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Start {
    /// Open this one.
    Open(SessionId),
    /// Open the one that is meant, or a new one if there is none.
    Meant,
    /// Make a new one; the same request id for every attempt.
    Create { request_id: String, workspace_dir: Option<String> },
    /// Nothing: one is open, or its person chooses.
    Done,
}

impl Sessions {
    pub(crate) fn new(
        session: Option<SessionId>,
        workspace_dir: Option<String>,
        files: Files,
    ) -> Self {
        Self {
            start: session.map_or(Start::Meant, Start::Open),
            list_state: ListState::Wanted,
            workspace_dir,
            files,
            tasks: None,
            list: Vec::new(),
            selected: None,
        }
    }

    /// Returns the sessions, the one that was used last first.
    pub(crate) fn list(&self) -> &[Session] {
        &self.list
    }

    pub(crate) fn selected(&self) -> Option<SessionId> {
        self.selected
    }

    /// Returns what is shown for a session: its own title or its task's.
    pub(crate) fn title_of<'a>(&'a self, session: &'a Session) -> &'a str {
        if session.title.is_empty() {
            self.task(session.task_id).map_or("", |task| &task.title)
        } else {
            &session.title
        }
    }

    /// Returns a task, if it is known.
    pub(crate) fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.iter().flatten().find(|task| task.id == id)
    }

    /// Tells whether another session has the same title.
    pub(crate) fn is_ambiguous(&self, session: &Session) -> bool {
        let title = self.title_of(session);
        self.list.iter().any(|other| other.id != session.id && self.title_of(other) == title)
    }

    /// Returns how many prompts wait in a session that is not open, as far as its task tells.
    pub(crate) fn waiting(&self, session: &Session) -> u64 {
        let is_only_one = |other: &&Session| other.task_id == session.task_id;
        match self.list.iter().filter(is_only_one).count() {
            1 => self.task(session.task_id).map_or(0, |task| task.queued_prompt_count),
            _ => 0,
        }
    }

    fn set_tasks(&mut self, tasks: Vec<Task>) {
        self.tasks = Some(tasks);
    }

    /// Takes what is known of one task now.
    pub(crate) fn task_changed(&mut self, task: Task) {
        // Before the list came it will hold this one too.
        let Some(tasks) = &mut self.tasks else { return };
        match tasks.iter_mut().find(|known| known.id == task.id) {
            Some(known) => *known = task,
            None => tasks.insert(0, task),
        }
    }

    /// Forgets a task with its sessions.
    pub(crate) fn task_deleted(&mut self, id: TaskId) {
        if let Some(tasks) = &mut self.tasks {
            tasks.retain(|task| task.id != id);
        }
        self.forget(|session| session.task_id == id);
    }

    /// Forgets the sessions that are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&Session) -> bool) {
        self.list.retain(|session| !is_gone(session));
        let selected = self.selected.filter(|id| self.index_of(*id).is_some());
        self.selected = selected.or(self.list.first().map(|session| session.id));
    }

    /// Takes what is known of one session now.
    pub(crate) fn session_changed(&mut self, session: &Session) {
        match self.list.iter_mut().find(|known| known.id == session.id) {
            Some(known) => known.clone_from(session),
            None => self.list.insert(0, session.clone()),
        }
    }

    /// Tells whether the server still has to be asked for something.
    pub(crate) fn is_wanting(&self) -> bool {
        match self.start {
            Start::Meant | Start::Create { .. } => true,
            Start::Open(_) | Start::Done => self.list_state == ListState::Wanted,
        }
    }

    fn set_list(&mut self, list: Vec<Session>) {
        self.list_state = ListState::Known;
        self.list = list;
        let selected = self.selected.filter(|id| self.index_of(*id).is_some());
        self.selected = selected.or(self.list.first().map(|session| session.id));
    }

    /// Returns what is to be opened at the start, once both lists are there. Inner None: there is
    /// none yet.
    fn meant(&self) -> Option<Option<SessionId>> {
        let (Start::Meant, ListState::Known, Some(tasks)) =
            (&self.start, self.list_state, &self.tasks)
        else {
            return None;
        };
        let directory = self.files.seen(self.workspace_dir.as_deref());
        Some(meant_session(&self.list, tasks, directory).map(|session| session.id))
    }

    fn index_of(&self, id: SessionId) -> Option<usize> {
        self.list.iter().position(|session| session.id == id)
    }
}

impl State {
    /// The program starts: a session that was named is asked for at once.
    pub(crate) fn start_sessions(&mut self) {
        if let Start::Open(id) = self.sessions.start {
            self.open_session(id);
        }
    }

    /// The link changed: asks for what the start still needs.
    pub(crate) fn ask_for_sessions(&mut self) {
        if !matches!(self.engine.link(), LinkState::Online { .. }) {
            return;
        }
        if !self.is_asked(Asked::Tasks) {
            self.call(Asked::Tasks, &TaskListParams::default());
        }
        if !self.is_asked(Asked::Sessions) {
            self.call(Asked::Sessions, &SessionListParams::default());
        }
        self.create_if_wanted();
    }

    /// The list of sessions came.
    pub(crate) fn listed(&mut self, sessions: Vec<Session>) {
        self.sessions.set_list(sessions);
        self.open_meant();
    }

    /// The list of tasks came.
    pub(crate) fn tasks_listed(&mut self, tasks: Vec<Task>) {
        self.sessions.set_tasks(tasks);
        self.open_meant();
    }

    fn open_meant(&mut self) {
        match self.sessions.meant() {
            Some(Some(id)) => self.open_session(id),
            Some(None) => self.new_session(),
            None => {}
        }
    }

    /// Makes a task in the directory where this program was started, and its first session.
    pub(crate) fn new_session(&mut self) {
        self.sessions.start = Start::Create {
            request_id: self.mint(),
            workspace_dir: self.sessions.workspace_dir.clone(),
        };
        self.create_if_wanted();
    }

    fn create_if_wanted(&mut self) {
        let Start::Create { request_id, workspace_dir } = self.sessions.start.clone() else {
            return;
        };
        if !self.is_asked(Asked::NewTask) {
            let request = TaskCreateParams {
                title: self.title_for(self.sessions.workspace_dir.as_deref()),
                workspace_dir,
                client_request_id: Some(request_id),
                ..TaskCreateParams::default()
            };
            self.call(Asked::NewTask, &request);
        }
    }

    fn title_for(&self, directory: Option<&str>) -> String {
        let name = directory.and_then(|path| path.rsplit('/').find(|part| !part.is_empty()));
        name.map_or_else(|| self.localizer.text("tui-untitled"), str::to_owned)
    }

    /// A server elsewhere does not have our directory: the task goes without one.
    pub(crate) fn retry_without_directory(&mut self, error: &WireError) -> bool {
        let about_directory = error.code == ErrorCode::Validation
            && error.details.get("field").and_then(|field| field.as_str()) == Some("workspace_dir");
        let request_id = self.mint();
        match &mut self.sessions.start {
            Start::Create { workspace_dir: directory @ Some(_), request_id: id }
                if about_directory =>
            {
                *directory = None;
                *id = request_id;
                self.create_if_wanted();
                true
            }
            Start::Create { .. } | Start::Open(_) | Start::Meant | Start::Done => false,
        }
    }

    /// A task and its first session were made.
    pub(crate) fn created(&mut self, created: TaskCreateReply) {
        self.sessions.task_changed(created.task);
        self.sessions.session_changed(&created.session);
        self.open_session(created.session.id);
    }

    /// Opens a session instead of the one that is open.
    pub(crate) fn open_session(&mut self, id: SessionId) {
        self.sessions.start = Start::Done;
        self.sessions.selected = Some(id);
        self.engine.handle(Input::Open(id), self.now);
    }

    /// The session cannot be shown: its person chooses another one.
    pub(crate) fn session_refused(&mut self, error: &WireError) {
        self.toast = Some(Toast::lasting(self.localizer.error(error)));
        self.open_list();
    }

    /// Opens the list of sessions, and asks for a new one.
    pub(crate) fn open_list(&mut self) {
        self.focus = Focus::Sessions;
        let open = self.mirror().map(|mirror| mirror.session().id);
        self.sessions.selected = open.or(self.sessions.selected);
        self.ask_for_sessions();
    }

    pub(crate) fn step_in_list(&mut self, step: Step) {
        let sessions = &mut self.sessions;
        let at = sessions.selected.and_then(|id| sessions.index_of(id));
        let to = at.map_or(0, |at| step.of(at, sessions.list.len()));
        sessions.selected = sessions.list.get(to).map(|session| session.id);
    }

    pub(crate) fn choose_session(&mut self) {
        self.focus = Focus::Chat;
        let open = self.mirror().map(|mirror| mirror.session().id);
        let Some(id) = self.sessions.selected.filter(|id| Some(*id) != open) else {
            return;
        };
        if open.is_some() && !matches!(self.engine.link(), LinkState::Online { .. }) {
            // What is on the screen is all there is to see until then.
            return self.say("tui-other-session-offline");
        }
        self.open_session(id);
    }
}
