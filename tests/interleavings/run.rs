//! One order at one point.

use std::fmt;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use usher_tests::chat::{Chat, by_role, contents, string};
use usher_tests::client::{Answer, Client};
use usher_tests::pauses::{Hold, Pauses};
use usher_tests::server::Server;

/// The prompts; each turn ends when its question is answered.
const A: &str = "/demo ask; say A";
const B: &str = "/demo ask; say B";
const C: &str = "/demo ask; say C";
const D: &str = "/demo ask; say D";

/// What happens to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// C is sent now.
    SendNow,
    /// The open question is answered, and so its turn ends.
    TurnEnd,
    /// The running turn is cancelled.
    Cancel,
    /// D is admitted.
    Admission,
    /// The head is drained.
    Drain,
}

impl Happening {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::SendNow, Self::TurnEnd, Self::Cancel, Self::Admission, Self::Drain];

    /// The errors that it may be answered with: something else came first.
    fn refusals(self) -> &'static [&'static str] {
        match self {
            Self::SendNow => &["send_now_conflict", "entry_not_found"],
            Self::TurnEnd => &["permission_closed"],
            Self::Cancel => &["send_now_conflict"],
            Self::Admission => &[],
            Self::Drain => &["session_busy", "session_not_promptable"],
        }
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Report {
    point: &'static str,
    order: Vec<Happening>,
    /// The happening that led to the point; one more than the last: it came when all was over.
    pub(crate) held: Option<usize>,
    answers: Vec<String>,
    prompts: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<12}", self.point)?;
        for (index, (happening, answer)) in self.order.iter().zip(&self.answers).enumerate() {
            let held = if self.held == Some(index) { " [held]" } else { "" };
            write!(f, " {:<34}", format!("{happening:?}: {answer}{held}"))?;
        }
        write!(f, " ran {}", self.prompts)
    }
}

/// A link for each happening, and one that watches.
pub(crate) struct Links {
    each: Vec<Client>,
    watch: Client,
}

/// A session in the middle of its run.
struct Scene<'l> {
    links: &'l mut Links,
    chat: Chat,
    /// The entry of C.
    c: String,
    /// The question that was seen last.
    question: Value,
    /// Every `turn.started` and `turn.ended`.
    turns: Vec<(String, String)>,
}

impl Links {
    /// Connects.
    pub(crate) async fn connect(server: &Server) -> Self {
        let mut each = Vec::new();
        for _ in Happening::ALL {
            each.push(Client::connect(server).await);
        }
        Self { each, watch: Client::connect(server).await }
    }

    /// Runs one order at one point and judges it.
    pub(crate) async fn run(
        &mut self,
        pauses: &Pauses,
        point: &'static str,
        order: &[Happening],
    ) -> Report {
        let mut scene = Scene::begin(self).await;
        let mut armed = pauses.arm(point, &scene.chat.session_id);
        let mut hold: Option<Hold> = None;
        let mut held = None;
        let mut waiting: Vec<(usize, String)> = Vec::new();
        let mut answers: Vec<Option<Answer>> = vec![None; order.len()];
        for (index, happening) in order.iter().enumerate() {
            let (action, payload) = scene.request(*happening);
            let id = scene.links.each[index].send(action, payload).await.expect("the link is open");
            let answered = scene.links.each[index].answer(&id);
            tokio::select! {
                answer = answered => answers[index] = Some(answer.expect("the link is open")),
                now = &mut armed, if hold.is_none() => {
                    hold = now.ok();
                    held = Some(index);
                    waiting.push((index, id));
                }
            }
            if hold.is_none() {
                hold = scene.settled_or_held(&mut armed).await;
                held = hold.as_ref().map(|_| index);
            } else if point == "claim" || point == "cancel" {
                // Only a request is held: the session itself goes on.
                scene.settled().await;
            }
        }
        drop(hold);
        for (index, id) in waiting {
            let answer = scene.links.each[index].answer(&id).await;
            answers[index] = Some(answer.expect("the link is open"));
        }
        if held.is_none() {
            let later = scene.drive(Some(&mut armed)).await;
            held = later.map(|_| order.len());
        }
        drop(armed);
        scene.drive(None).await;
        let answers: Vec<Answer> = answers.into_iter().map(|a| a.expect("answered")).collect();
        let context = format!("{point}, {order:?}: {answers:?}");
        let prompts = scene.judge(order, &answers, &context).await;
        let answers = answers.iter().map(|answer| match answer {
            Ok(_) => "ok".to_owned(),
            Err(refusal) => refusal.code.clone(),
        });
        Report { point, order: order.to_vec(), held, answers: answers.collect(), prompts }
    }
}

impl<'l> Scene<'l> {
    /// A asks; B and C wait.
    async fn begin(links: &'l mut Links) -> Self {
        let chat = Chat::create(&mut links.watch).await;
        links.watch.forget_notifications();
        links.watch.subscribe(&chat).await;
        let mut scene =
            Self { links, chat, c: String::new(), question: Value::Null, turns: Vec::new() };
        scene.links.watch.admit(&scene.chat, "A", A).await;
        scene.settled().await;
        scene.links.watch.admit(&scene.chat, "B", B).await;
        scene.c = scene.links.watch.admit(&scene.chat, "C", C).await;
        scene
    }

    fn request(&self, happening: Happening) -> (&'static str, Value) {
        match happening {
            Happening::SendNow => (
                "message.queue.send_now",
                self.chat.with(json!({"scope": "entry", "entry_id": self.c})),
            ),
            Happening::TurnEnd => ("permission.respond", self.answer()),
            Happening::Cancel => ("turn.cancel", self.chat.identity()),
            Happening::Admission => ("message.queue.add", self.chat.prompt("D", D)),
            Happening::Drain => ("message.queue.drain", self.chat.identity()),
        }
    }

    fn answer(&self) -> Value {
        self.chat.with(json!({"request_id": self.question, "option_id": "once"}))
    }

    /// Takes the notifications that have arrived.
    fn listen(&mut self) {
        for (action, event) in self.links.watch.take_notifications() {
            let of_turn = action == "turn.started" || action == "turn.ended";
            if of_turn && event["session_id"] == json!(self.chat.session_id) {
                self.turns.push((action, string(&event["turn_id"])));
            }
        }
    }

    /// Looks once; None while something goes on by itself, else the session and its queue.
    async fn look(&mut self) -> Option<(Value, Value)> {
        self.listen();
        let queue = self.links.watch.queue(&self.chat).await;
        let session = self.links.watch.session(&self.chat).await;
        let asked = &session["permission"]["request_id"];
        if asked.is_string() {
            self.question = asked.clone();
        }
        let waits = queue["auto_run"] == false || queue["count"] == 0;
        let settled = match session["state"].as_str() {
            Some("awaiting_permission") => true,
            Some("idle") => waits,
            _ => false,
        };
        settled.then_some((session, queue))
    }

    /// Waits until nothing goes on by itself.
    async fn settled(&mut self) -> (Value, Value) {
        loop {
            if let Some(settled) = self.look().await {
                return settled;
            }
            self.links.watch.until_notified().await.expect("the link is open");
        }
    }

    /// The same, or until the session is held.
    async fn settled_or_held(&mut self, armed: &mut oneshot::Receiver<Hold>) -> Option<Hold> {
        loop {
            if self.look().await.is_some() {
                return armed.try_recv().ok();
            }
            tokio::select! {
                hold = &mut *armed => return hold.ok(),
                notified = self.links.watch.until_notified() => notified.expect("it is open"),
            }
        }
    }

    /// Answers every question and resumes the queue until everything ran, or until it is held.
    async fn drive(&mut self, mut armed: Option<&mut oneshot::Receiver<Hold>>) -> Option<Hold> {
        loop {
            let hold = match &mut armed {
                Some(armed) => self.settled_or_held(armed).await,
                None => None,
            };
            if hold.is_some() {
                return hold;
            }
            let (session, queue) = self.settled().await;
            if session["state"] == "awaiting_permission" {
                // Somebody's own answer may be on its way.
                let answer = self.answer();
                let answer = self.links.watch.request("permission.respond", answer).await;
                let late = answer.err().map(|refusal| refusal.code);
                assert!(late.is_none_or(|code| code == "permission_closed"));
                continue;
            }
            if queue["count"] == 0 {
                return None;
            }
            self.dispatched_or_parked(&queue).await;
            self.links.watch.set_auto_run(&self.chat, true).await;
        }
    }

    /// While the session rests, every prompt is in the transcript or in the queue.
    async fn dispatched_or_parked(&mut self, queue: &Value) {
        let transcript = self.links.watch.transcript(&self.chat).await;
        let mut prompts = by_role(&transcript, "user");
        prompts.extend(queue["entries"].as_array().expect("entries are a list").clone());
        let mut all = contents(&prompts);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), prompts.len(), "twice: {prompts:?}");
        assert_eq!(all.iter().filter(|content| **content != D).count(), 3, "lost: {prompts:?}");
    }

    /// Judges what is left when everything ran; returns the order it ran in.
    async fn judge(&mut self, order: &[Happening], answers: &[Answer], context: &str) -> String {
        for (happening, answer) in order.iter().zip(answers) {
            let code = answer.as_ref().err().map(|refusal| refusal.code.as_str());
            let typed = code.is_none_or(|code| happening.refusals().contains(&code));
            assert!(typed, "{context}: {happening:?}");
        }
        let transcript = self.links.watch.transcript(&self.chat).await;
        let prompts = by_role(&transcript, "user");
        let ran = contents(&prompts);
        let mut sorted = ran.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [A, B, C, D], "{context}: ran {ran:?}");
        let send_now = order.iter().position(|happening| *happening == Happening::SendNow);
        let sent_now = send_now.is_some_and(|index| answers[index].is_ok());
        let rest: Vec<&str> =
            ran.iter().copied().filter(|prompt| !(sent_now && *prompt == C)).collect();
        let fifo = [A, B, C, D].into_iter().filter(|prompt| !(sent_now && *prompt == C));
        assert_eq!(rest, fifo.collect::<Vec<_>>(), "{context}");
        self.one_after_the_other(context).await;
        let last = |prompt: &&str| prompt.chars().last().expect("a prompt has text");
        ran.iter().map(last).collect()
    }

    /// Never two open turns.
    async fn one_after_the_other(&mut self, context: &str) {
        let open = |turns: &[(String, String)]| {
            let started = turns.iter().filter(|(action, _)| action == "turn.started").count();
            turns.len() != 2 * started
        };
        self.listen();
        while open(&self.turns) {
            self.links.watch.until_notified().await.expect("the link is open");
            self.listen();
        }
        for pair in self.turns.chunks(2) {
            let [(first, begun), (second, ended)] = pair else {
                panic!("{context}: {:?}", self.turns);
            };
            assert_eq!(
                (first.as_str(), second.as_str()),
                ("turn.started", "turn.ended"),
                "{context}"
            );
            assert_eq!(begun, ended, "{context}: {:?}", self.turns);
        }
    }
}
