//! One client that watches one session of a server of its own: where most stories of a queue play.

use serde_json::{Value, json};

use crate::chat::{Chat, by_role, contents, string};
use crate::client::{Answer, Client, Refusal, timed};
use crate::server::{Launch, Server};

/// See the module.
pub struct Scene {
    /// The server.
    pub server: Server,
    /// A link that watches the session.
    pub client: Client,
    /// The session.
    pub chat: Chat,
}

/// The refusal with this code and no details.
pub fn refused(code: &str) -> Answer {
    Err(Refusal::new(code, json!({})))
}

/// Lets the dispatcher, set to pass over all sessions every few milliseconds, do so many times:
/// another session runs a turn meanwhile. `id` is its admission ID.
pub async fn passes(scene: &Scene, bystander: &Chat, id: &str) {
    let mut client = Client::connect(&scene.server).await;
    client.subscribe(bystander).await;
    client.admit(bystander, id, "/demo sleep 300ms; say done").await;
    client.until_settled(bystander).await;
}

/// The same without a session to hand.
pub async fn let_passes_run(server: &Server) {
    let mut client = Client::connect(server).await;
    let bystander = Chat::watched(&mut client).await;
    client.admit(&bystander, "pass", "/demo sleep 300ms; say done").await;
    client.until_settled(&bystander).await;
}

impl Scene {
    /// A session with auto-run on.
    pub async fn new() -> Self {
        Self::of(&Launch::new()).await
    }

    /// The same on a server that is started like this.
    pub async fn of(launch: &Launch) -> Self {
        Self::with(launch, json!({})).await
    }

    /// The same with more fields in the request that makes the task.
    pub async fn with(launch: &Launch, task: Value) -> Self {
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        let chat = Chat::create_with(&mut client, task).await;
        client.subscribe(&chat).await;
        Self { server, client, chat }
    }

    /// The same session after its server was killed and started again.
    pub async fn restarted(self) -> Self {
        let launch = self.server.kill();
        Self::again(&launch, self.chat).await
    }

    /// A session that is there already, on a server that is started like this. Comes back when a
    /// turn that the last server left open is settled: where several servers share a database, that
    /// is not before the last one is known to be gone.
    pub async fn again(launch: &Launch, chat: Chat) -> Self {
        let server = launch.start();
        let mut client = Client::connect(&server).await;
        client.subscribe(&chat).await;
        let mut scene = Self { server, client, chat };
        scene.idle().await;
        scene
    }

    /// Switches auto-run off: what is admitted waits.
    pub async fn park(&mut self) {
        self.client.set_auto_run(&self.chat, false).await;
    }

    /// Switches auto-run on and waits until nothing is left to run.
    pub async fn run_all(&mut self) -> Value {
        self.client.set_auto_run(&self.chat, true).await;
        self.settled().await
    }

    /// Asks for something about the session.
    pub async fn ask(&mut self, action: &str, fields: Value) -> Answer {
        self.client.request(action, self.chat.with(fields)).await
    }

    /// Asks for something that has to work.
    pub async fn act(&mut self, action: &str, fields: Value) -> Value {
        self.client.ok(action, self.chat.with(fields)).await
    }

    /// Admits a prompt under its own text as admission ID; returns the entry's id.
    pub async fn admit(&mut self, text: &str) -> String {
        self.client.admit(&self.chat, text, text).await
    }

    /// Admits several; returns their entries' ids.
    pub async fn admit_all(&mut self, texts: &[&str]) -> Vec<String> {
        let mut ids = Vec::new();
        for text in texts {
            ids.push(self.admit(text).await);
        }
        ids
    }

    /// Admits a prompt and waits until it runs.
    pub async fn running(&mut self, text: &str) {
        self.admit(text).await;
        self.client.until_running(&self.chat).await;
    }

    /// Admits a prompt whose turn goes on until [`Scene::answer`] answers its question.
    pub async fn asking(&mut self, admission_id: &str) {
        self.client.admit(&self.chat, admission_id, "/demo ask").await;
        self.asked().await;
    }

    /// Waits until the agent asks; returns the question.
    pub async fn asked(&mut self) -> Value {
        let is_asking = |session: &Value, _: &Value| session["state"] == "awaiting_permission";
        self.client.until(&self.chat, is_asking).await;
        self.client.session(&self.chat).await["permission"].clone()
    }

    /// Answers the open question.
    pub async fn answer(&mut self) {
        let question = self.asked().await;
        let answer = json!({"request_id": question["request_id"], "option_id": "once"});
        self.act("permission.respond", answer).await;
    }

    /// Waits until nothing runs and nothing would start by itself.
    pub async fn settled(&mut self) -> Value {
        self.client.until_settled(&self.chat).await
    }

    /// Waits until no turn is open.
    pub async fn idle(&mut self) {
        self.client.until(&self.chat, |session, _| session["state"] == "idle").await;
    }

    /// Returns the texts that wait, in order.
    pub async fn waiting(&mut self) -> Vec<String> {
        texts(&self.client.entries(&self.chat).await)
    }

    /// Returns the prompts that ran or run, in order.
    pub async fn prompts(&mut self) -> Vec<String> {
        texts(&by_role(&self.client.transcript(&self.chat).await, "user"))
    }

    /// Returns what the transcript reports beside what was said, in order.
    pub async fn notices(&mut self) -> Vec<String> {
        let notices = by_role(&self.client.transcript(&self.chat).await, "system");
        notices.iter().map(|notice| string(&notice["metadata"]["notice"])).collect()
    }

    /// Returns the newest report and its text.
    pub async fn last_notice(&mut self) -> (Value, String) {
        let transcript = self.client.transcript(&self.chat).await;
        let last = by_role(&transcript, "system").pop().expect("something is reported");
        (last["metadata"]["notice"].clone(), string(&last["content"]))
    }

    /// Returns the auto-run switch and why it is off.
    pub async fn auto_run(&mut self) -> (Value, Value) {
        let queue = self.client.queue(&self.chat).await;
        (queue["auto_run"].clone(), queue["auto_run_reason"].clone())
    }

    /// Cancels the turn.
    pub async fn cancel(&mut self) -> Value {
        self.act("turn.cancel", json!({})).await
    }

    /// Sends one entry now.
    pub async fn send_now(&mut self, entry_id: &str) -> Answer {
        self.ask("message.queue.send_now", json!({"scope": "entry", "entry_id": entry_id})).await
    }

    /// Follows the session's turns from here on, by their events, until `count` of them have ended;
    /// returns how they ended. Two that overlap fail the test.
    pub async fn turns(&mut self, count: usize) -> Vec<Value> {
        timed(async {
            let mut open = None;
            let mut ended = Vec::new();
            while ended.len() < count {
                let (action, event) = self.client.notification().await;
                match action.as_str() {
                    "turn.started" => {
                        let turn = string(&event["turn_id"]);
                        assert_eq!(open.replace(turn), None, "two turns at once");
                    }
                    "turn.ended" => {
                        // The first may have begun before anybody listened.
                        let known = open.take();
                        assert!(known.is_none_or(|turn| event["turn_id"] == turn), "{event}");
                        ended.push(event);
                    }
                    _ => {}
                }
            }
            ended
        })
        .await
    }
}

fn texts(list: &[Value]) -> Vec<String> {
    contents(list).into_iter().map(str::to_owned).collect()
}
