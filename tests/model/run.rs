//! One sequence on a real server: every step is sent, and what the server answers and shows has
//! to be what the reference allows.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use usher_tests::client::{Answer, Client, Closed, Refusal, merge};
use usher_tests::server::Server;
use uuid::Uuid;

use crate::files::{self, Kept};
use crate::mirror::Mirror;
use crate::names::Names;
use crate::operation::{Link, Operation, SESSIONS, Step};
use crate::reference::{Ask, Call, Look, Model, Session, Settings, Standing};

/// Which task each session is in.
const TASKS_OF_SESSIONS: [usize; SESSIONS] = [0, 0, 1];
/// How long a sequence may wait for what may never come: less than an idle link may be silent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The same while a failed sequence is made smaller.
pub(crate) const PATIENCE_OF_SHRINKING: Duration = Duration::from_secs(3);

/// Three links to one server.
pub(crate) struct Links<'s> {
    server: &'s Server,
    /// The names of the clients of the first two, which they keep when they connect anew.
    instances: [String; 2],
    first: Client,
    second: Client,
    watch: Client,
    /// What `watch` was told, by session.
    mirrors: HashMap<String, Mirror>,
    user: Value,
    settings: Settings,
    patience: Duration,
}

/// What the reference says may be true after a step, and what things are called then.
type World = (Model, Names);

impl<'s> Links<'s> {
    /// Connects.
    pub(crate) async fn connect(
        server: &'s Server,
        settings: Settings,
        patience: Duration,
    ) -> Self {
        let instances = [(); 2].map(|()| Uuid::new_v4().to_string());
        let mut first = Client::dial(server).await.expect("the server accepts a link");
        let mut second = Client::dial(server).await.expect("the server accepts a link");
        for (client, instance) in [&mut first, &mut second].into_iter().zip(&instances) {
            let hello = client.hello(json!({"client_instance": instance})).await;
            hello.expect("hello is answered");
        }
        let mut watch = Client::dial(server).await.expect("the server accepts a link");
        let user = watch.hello(json!({})).await.expect("hello is answered")["user"].take();
        let mirrors = HashMap::new();
        Self { server, instances, first, second, watch, mirrors, user, settings, patience }
    }

    /// Runs a sequence in fresh sessions; returns what has to be true of its attachments for ever.
    ///
    /// # Errors
    /// The first step that the reference does not allow, and why not.
    pub(crate) async fn run(&mut self, steps: &[Step]) -> Result<Vec<Kept>, String> {
        let mut world = self.fresh().await?;
        for (number, step) in steps.iter().enumerate() {
            let calls = calls(number as u32 * 2 + 1, step, &world.0);
            let context = |error: String| {
                let asks: Vec<_> = calls.iter().map(|(_, call)| &call.ask).collect();
                format!("step {number}: {step:?}\n  that is {asks:?}\n  {error}")
            };
            let before = world.0.attachments();
            world = self.step(&calls, world).await.map_err(context)?;
            if world.0.attachments() != before || calls.iter().any(|(_, call)| call.attaches()) {
                let files = files::compare(&mut self.watch, &world.0, &world.1).await;
                files.map_err(context)?;
            }
        }
        self.leave(&world).await
    }

    async fn fresh(&mut self) -> Result<World, String> {
        let model = Model::new(&TASKS_OF_SESSIONS, self.settings);
        let mut names = Names::default();
        names.bind("$user", self.user["id"].as_str().unwrap_or_default())?;
        names.bind("$user-name", self.user["name"].as_str().unwrap_or_default())?;
        for session in &model.sessions {
            let known = names.fill(&json!(session.task_name()));
            let made = match names.is_bound(&session.task_name()) {
                true => self.first.request("session.create", json!({"task_id": known})).await,
                false => self.first.request("task.create", json!({"title": "a task"})).await,
            };
            let made = made.map_err(|refusal| format!("no session: {refusal:?}"))?;
            let made = &made["session"];
            for (name, field) in [
                (session.task_name(), "task_id"),
                (session.session_name(), "id"),
                (session.life_name(0), "incarnation_id"),
            ] {
                names.bind(&name, made[field].as_str().unwrap_or_default())?;
            }
            let watched = json!({"session_id": made["id"]});
            let watched = self.watch.request("session.subscribe", watched).await;
            let snapshot = watched.map_err(|refusal| format!("not watched: {refusal:?}"))?;
            let id = made["id"].as_str().unwrap_or_default().to_owned();
            self.mirrors.insert(id, Mirror::new(snapshot));
        }
        Ok((model, names))
    }

    async fn leave(&mut self, (model, names): &World) -> Result<Vec<Kept>, String> {
        let kept = files::leave(&mut self.watch, model, names).await?;
        for session in &model.sessions {
            if session.is_kept_waiting() {
                // The regular pass would look at it for as long as the server runs.
                let off = names.fill(&session.identity());
                let off = merged(off, json!({"enabled": false}));
                let answer = self.first.request("message.queue.auto_run.set", off).await;
                answer.map_err(|refusal| format!("not switched off: {refusal:?}"))?;
            }
            let left = names.fill(&json!({"session_id": session.session_name()}));
            match self.watch.request("session.unsubscribe", left).await {
                Ok(_) => {}
                // It went by itself.
                Err(refusal)
                    if session.standing == Standing::Gone && refusal.code == "not_found" => {}
                Err(refusal) => return Err(format!("still watched: {refusal:?}")),
            }
        }
        self.watch.forget_notifications();
        self.mirrors.clear();
        Ok(kept)
    }

    /// Sends what a step asks for and waits until all is at rest.
    async fn step(&mut self, calls: &[(Link, Call)], world: World) -> Result<World, String> {
        // What was told late of the step before.
        self.listen()?;
        let answers = self.send(calls, &world.1).await.map_err(lost)?;
        let flows: Vec<Vec<(&Call, &Answer)>> = [Link::First, Link::Second]
            .map(|link| {
                let of_link = calls.iter().zip(&answers).filter(|((on, _), _)| *on == link);
                of_link.map(|((_, call), answer)| (call, answer)).collect()
            })
            .into();
        let mut explained = Explained::default();
        explained.search(world, &flows);
        if explained.worlds.is_empty() {
            return Err(format!(
                "no order explains the answers {answers:?}\n  {}",
                explained.nearest
            ));
        }
        self.compare(explained.worlds).await
    }

    async fn send(&mut self, calls: &[(Link, Call)], names: &Names) -> Result<Vec<Answer>, Closed> {
        if let [(link, Call { ask: Ask::Disconnect, .. })] = calls {
            self.connect_anew(*link).await?;
            return Ok(vec![Ok(Value::Null)]);
        }
        if let [(link, call)] = calls
            && let Ask::Upload { file } = call.ask
        {
            let (action, payload) = call.request();
            let begin = (action, names.fill(&payload));
            return Ok(vec![files::upload(self.link(*link), begin, file).await?]);
        }
        let mut sent = Vec::new();
        for (link, call) in calls {
            let (action, payload) = call.request();
            sent.push(self.link(*link).send(action, names.fill(&payload)).await?);
        }
        let mut answers = Vec::new();
        for ((link, _), id) in calls.iter().zip(sent) {
            answers.push(self.link(*link).answer(&id).await?);
        }
        Ok(answers)
    }

    /// Cuts a link. Its client says hello again: that is answered when the old one is done with.
    async fn connect_anew(&mut self, link: Link) -> Result<(), Closed> {
        let hello = json!({"client_instance": self.instances[link as usize]});
        let new = Client::dial(self.server).await.map_err(|_| Closed { code: None })?;
        std::mem::replace(self.link(link), new).cut();
        let answer = self.link(link).hello(hello).await;
        answer.map(drop).map_err(|_| Closed { code: None })
    }

    fn link(&mut self, link: Link) -> &mut Client {
        match link {
            Link::First => &mut self.first,
            Link::Second => &mut self.second,
        }
    }

    /// Looks until the server shows what one of these worlds is.
    async fn compare(&mut self, worlds: Vec<World>) -> Result<World, String> {
        let mut last: Option<Vec<Look>> = None;
        let mut told = Vec::new();
        let mut nearest = "fewer turns began and ended".to_owned();
        loop {
            told.extend(self.listen()?);
            // Before that no look is worth its time.
            if worlds.iter().any(|(model, _)| model.told_count() <= told.len()) {
                let looks = self.look(&worlds[0]).await?;
                let mut errors = Vec::new();
                for (model, names) in &worlds {
                    let mut names = names.clone();
                    let same = unify(model, &mut names, &looks, &told);
                    match same.and_then(|()| self.compare_told(model, &names, &looks)) {
                        Ok(()) => {
                            let mut model = model.clone();
                            model.sessions.iter_mut().for_each(|session| session.told.clear());
                            return Ok((model, names));
                        }
                        Err(error) => errors.push(error),
                    }
                }
                nearest = errors.join("\n  or ");
                // Seen twice while everything waits, and all of it was told: it stays like this.
                let at_rest = looks.iter().all(is_at_rest) && self.was_told(&worlds[0], &looks);
                if at_rest && last.as_ref() == Some(&looks) {
                    return Err(nearest);
                }
                last = Some(looks);
                if at_rest {
                    continue;
                }
            }
            match timeout(self.patience, self.watch.until_notified()).await {
                Ok(Ok(())) => {}
                Ok(Err(closed)) => return Err(lost(closed)),
                Err(_) => return Err(format!("never: {nearest}")),
            }
        }
    }

    /// Takes the notifications that have arrived; returns the turns that began and ended.
    fn listen(&mut self) -> Result<Vec<(Value, Value)>, String> {
        let mut turns = Vec::new();
        for (action, event) in self.watch.take_notifications() {
            // Of all sessions of the user, watched or not: it is no event of the session.
            if action == "session.deleted" {
                continue;
            }
            let session = event["session_id"].as_str().unwrap_or_default();
            if let Some(mirror) = self.mirrors.get_mut(session) {
                mirror.tell(&action, &event)?;
            }
            turns.extend(turn_event((action, event)));
        }
        Ok(turns)
    }

    /// Returns whether all that these looks show was told.
    fn was_told(&self, (model, names): &World, looks: &[Look]) -> bool {
        let told = |(session, look): (&Session, &Look)| match session.standing {
            Standing::Open => self.mirror(session, names).is_as_new_as(look),
            // Nothing says which event was the last.
            Standing::Archived => self.mirror(session, names).compare(look).is_ok(),
            Standing::Gone => true,
        };
        model.sessions.iter().zip(looks).all(told)
    }

    fn compare_told(&self, model: &Model, names: &Names, looks: &[Look]) -> Result<(), String> {
        for (session, look) in model.sessions.iter().zip(looks) {
            if session.standing != Standing::Gone {
                let same = self.mirror(session, names).compare(look);
                same.map_err(|error| format!("session {}, {error}", session.name))?;
            }
        }
        Ok(())
    }

    fn mirror(&self, session: &Session, names: &Names) -> &Mirror {
        let id = names.fill(&json!(session.session_name()));
        let mirror = id.as_str().and_then(|id| self.mirrors.get(id));
        mirror.expect("every session is watched")
    }

    /// Looks at every session: queue, session, newest page, in this order.
    async fn look(&mut self, (model, names): &World) -> Result<Vec<Look>, String> {
        let mut sent = Vec::new();
        for session in &model.sessions {
            let id = json!({"session_id": session.session_name()});
            let mut page = id.clone();
            merge(&mut page, json!({"limit": 200}));
            for (action, payload) in [
                ("message.queue.get", session.identity()),
                ("session.get", id),
                ("transcript.page", page),
            ] {
                let payload = names.fill(&payload);
                sent.push(self.watch.send(action, payload).await.map_err(lost)?);
            }
        }
        let mut answers = Vec::new();
        for id in sent {
            let answer = self.watch.answer(&id).await.map_err(lost)?;
            answers.push(answer.unwrap_or_else(
                |Refusal { code, details }| json!({"code": code, "details": details}),
            ));
        }
        let mut answers = answers.into_iter();
        let mut next = || answers.next().expect("three looks a session");
        Ok(model.sessions.iter().map(|_| [next(), next(), next()]).collect())
    }
}

fn merged(mut object: Value, fields: Value) -> Value {
    merge(&mut object, fields);
    object
}

fn lost(closed: Closed) -> String {
    format!("the link was lost: {closed:?}")
}

/// Returns the requests of a step, each with its link, numbered from `number` on.
fn calls(number: u32, step: &Step, model: &Model) -> Vec<(Link, Call)> {
    let call =
        |link: Link, number, operation: &Operation| (link, operation.call(number, link, model));
    let (links, first, second) = match step {
        Step::One(link, one) => {
            return vec![call(one.holder(model).unwrap_or(*link), number, one)];
        }
        Step::Pipelined(link, first, second) => ([*link, *link], first, second),
        Step::Race(first, second) => ([Link::First, Link::Second], first, second),
    };
    let (first, second) = (first.meeting(second, model), second.meeting(first, model));
    let calls = vec![call(links[0], number, &first), call(links[1], number + 1, &second)];
    // An archived queue is not shown: what came of a race with its archive could not be told from
    // what else might have, and would show only when it is back.
    if let Some(archive) = calls.iter().find(|(_, call)| matches!(call.ask, Ask::Archive)) {
        return vec![archive.clone()];
    }
    // What else was sent might be lost with its link.
    let disconnect = calls.iter().find(|(_, call)| matches!(call.ask, Ask::Disconnect));
    if let Some(disconnect) = disconnect {
        return vec![disconnect.clone()];
    }
    // It is several requests.
    let upload = calls.iter().find(|(_, call)| matches!(call.ask, Ask::Upload { .. }));
    if let Some(upload) = upload {
        return vec![upload.clone()];
    }
    // On one link only what names one session comes one after the other.
    let names_none = |(_, call): &(Link, Call)| {
        matches!(call.ask, Ask::Archive | Ask::Unarchive | Ask::Abort { .. })
    };
    if calls[0].1.session == calls[1].1.session && !calls.iter().any(names_none) {
        return calls;
    }
    let links = [Link::First, Link::Second].into_iter();
    links.zip(calls).map(|(link, (_, call))| (link, Call { link, ..call })).collect()
}

/// The worlds that some order of requests and of the server's own steps leads to.
#[derive(Default)]
struct Explained {
    /// Where the search was: how many requests of each flow were left, and the state.
    seen: Vec<(Vec<usize>, Model)>,
    worlds: Vec<World>,
    nearest: String,
}

impl Explained {
    /// Tries every order: of the flows' next requests, and of the session's next own step.
    fn search(&mut self, world: World, flows: &[Vec<(&Call, &Answer)>]) {
        let here = (flows.iter().map(Vec::len).collect(), world.0.clone());
        if self.seen.contains(&here) {
            return;
        }
        self.seen.push(here);
        for (index, flow) in flows.iter().enumerate() {
            let Some(((call, answer), later)) = flow.split_first() else {
                continue;
            };
            let (mut model, mut names) = world.clone();
            let expected = model.call(call);
            match unify_answers(&mut names, &expected, answer) {
                Ok(()) => {
                    let mut flows = flows.to_vec();
                    flows[index] = later.to_vec();
                    self.search((model, names), &flows);
                }
                Err(error) => self.nearest = error,
            }
        }
        let (model, names) = world;
        let mut rests = true;
        let asked: Vec<&Call> = flows.iter().flatten().map(|(call, _)| *call).collect();
        let alone = asked.iter().all(|call| call.is_of_one_session());
        let among = match asked.first() {
            Some(call) if alone => call.session..call.session + 1,
            _ => 0..SESSIONS,
        };
        for session in among {
            for next in model.successors(session) {
                rests = false;
                self.search((next, names.clone()), flows);
            }
            // Sessions do not meet: their order among each other makes no difference.
            if !rests && asked.is_empty() {
                return;
            }
        }
        if rests && asked.is_empty() {
            self.worlds.push((model, names));
        }
    }
}

fn unify_answers(names: &mut Names, expected: &Answer, actual: &Answer) -> Result<(), String> {
    let one = |answer: &Answer| match answer {
        Ok(reply) => json!({"ok": reply}),
        Err(Refusal { code, details }) => json!({"code": code, "details": details}),
    };
    names.unify(&one(expected), &one(actual))
}

fn unify(
    model: &Model,
    names: &mut Names,
    looks: &[Look],
    told: &[(Value, Value)],
) -> Result<(), String> {
    for (session, look) in model.sessions.iter().zip(looks) {
        let expected = session.look(model.settings);
        let what = ["queue", "session", "transcript"];
        for ((expected, actual), what) in expected.iter().zip(look).zip(what) {
            let same = names.unify(expected, actual);
            same.map_err(|error| format!("session {}, {what}{error}", session.name))?;
        }
        rises(&look[0]["entries"])?;
        if session.standing == Standing::Gone {
            continue;
        }
        let id = names.fill(&json!(session.session_name()));
        let told = told.iter().filter(|(of, _)| *of == id).map(|(_, event)| event.clone());
        let expected = session.told.iter().map(|(action, event)| json!([action, event]));
        let same = names.unify(&expected.collect(), &told.collect());
        same.map_err(|error| format!("session {}, turns told{error}", session.name))?;
    }
    Ok(())
}

/// Returns the session and what is said of its turn, if the notification is about one.
fn turn_event((action, mut event): (String, Value)) -> Option<(Value, Value)> {
    if action != "turn.started" && action != "turn.ended" {
        return None;
    }
    let fields = event.as_object_mut()?;
    let session = fields.remove("session_id")?;
    for stamp in ["event_seq", "epoch", "first_event_seq"] {
        fields.remove(stamp);
    }
    Some((session, json!([action, event])))
}

/// Positions are order keys.
fn rises(entries: &Value) -> Result<(), String> {
    let positions = entries.as_array().into_iter().flatten();
    let positions: Vec<u64> = positions.filter_map(|entry| entry["position"].as_u64()).collect();
    match positions.is_sorted_by(|a, b| a < b) {
        true => Ok(()),
        false => Err(format!("positions {positions:?} do not rise")),
    }
}

/// Nothing goes on by itself from here.
fn is_at_rest([queue, session, page]: &Look) -> bool {
    let is_hidden = queue["code"].is_string();
    let waits = is_hidden
        || queue["auto_run"] == false
        || queue["entries"] == json!([])
        || !queue["blocked"].is_null();
    let messages = page["messages"].as_array().into_iter().flatten();
    let streams = messages.into_iter().any(|message| message["status"] == "streaming");
    match session["session"]["state"].as_str() {
        Some("idle") => waits,
        Some("awaiting_permission") => !streams,
        Some(_) => false,
        // It is gone.
        None => true,
    }
}
