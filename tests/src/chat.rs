//! What most tests do with a session.

use serde_json::{Value, json};

use crate::client::{Answer, Client, merge, timed};

/// Names a session, as requests do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// Its task.
    pub task_id: String,
    /// The session.
    pub session_id: String,
    /// Its life.
    pub incarnation_id: String,
}

impl Chat {
    /// Makes a task with a session.
    pub async fn create(client: &mut Client) -> Self {
        Self::create_with(client, json!({})).await
    }

    /// The same with auto-run off: what is admitted waits.
    pub async fn parked(client: &mut Client) -> Self {
        let chat = Self::create(client).await;
        client.set_auto_run(&chat, false).await;
        chat
    }

    /// The same, watched by this client.
    pub async fn watched(client: &mut Client) -> Self {
        let chat = Self::create(client).await;
        client.subscribe(&chat).await;
        chat
    }

    /// Makes a task with a session, with more fields in the request.
    pub async fn create_with(client: &mut Client, fields: Value) -> Self {
        let mut request = json!({"title": "a task"});
        merge(&mut request, fields);
        Self::of_session(&client.ok("task.create", request).await["session"])
    }

    /// Reads the names out of a session.
    pub fn of_session(session: &Value) -> Self {
        Self {
            task_id: string(&session["task_id"]),
            session_id: string(&session["id"]),
            incarnation_id: string(&session["incarnation_id"]),
        }
    }

    /// Returns the identity with more fields.
    pub fn with(&self, fields: Value) -> Value {
        let mut payload = json!({
            "task_id": self.task_id,
            "session_id": self.session_id,
            "session_incarnation_id": self.incarnation_id,
        });
        merge(&mut payload, fields);
        payload
    }

    /// Returns the identity.
    pub fn identity(&self) -> Value {
        self.with(json!({}))
    }

    /// Returns the payload of an identified admission.
    pub fn prompt(&self, admission_id: &str, content: &str) -> Value {
        self.with(json!({"client_queue_id": admission_id, "content": content}))
    }
}

/// Returns a string, or fails the test.
pub fn string(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// Returns the entry an admission was accepted as, and how.
pub fn accepted(answer: &Answer) -> (String, String) {
    let answer = answer.as_ref().expect("the prompt is accepted");
    let admission = &answer["admission"];
    (string(&admission["accepted_queue_id"]), string(&admission["outcome"]))
}

/// Returns the contents of entries or messages, in order.
pub fn contents(list: &[Value]) -> Vec<&str> {
    list.iter().map(|item| item["content"].as_str().expect("content is text")).collect()
}

/// Returns the messages of one role, in order.
pub fn by_role(messages: &[Value], role: &str) -> Vec<Value> {
    messages.iter().filter(|message| message["role"] == role).cloned().collect()
}

impl Client {
    /// Asks for an admission.
    pub async fn add(&mut self, chat: &Chat, admission_id: &str, content: &str) -> Answer {
        self.request("message.queue.add", chat.prompt(admission_id, content)).await
    }

    /// Asks for one that has to be accepted; returns the entry's id.
    pub async fn admit(&mut self, chat: &Chat, admission_id: &str, content: &str) -> String {
        accepted(&self.add(chat, admission_id, content).await).0
    }

    /// Returns the state of the queue.
    pub async fn queue(&mut self, chat: &Chat) -> Value {
        self.ok("message.queue.get", chat.identity()).await
    }

    /// Returns what waits.
    pub async fn entries(&mut self, chat: &Chat) -> Vec<Value> {
        let queue = self.queue(chat).await;
        queue["entries"].as_array().expect("entries are a list").clone()
    }

    /// Returns the session.
    pub async fn session(&mut self, chat: &Chat) -> Value {
        let request = json!({"session_id": chat.session_id});
        self.ok("session.get", request).await["session"].take()
    }

    /// Switches auto-run.
    pub async fn set_auto_run(&mut self, chat: &Chat, enabled: bool) -> Value {
        let request = chat.with(json!({"enabled": enabled}));
        self.ok("message.queue.auto_run.set", request).await
    }

    /// Returns the whole transcript, oldest first.
    pub async fn transcript(&mut self, chat: &Chat) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let after = messages.last().map_or(json!(0), |last: &Value| last["seq"].clone());
            let request = json!({"session_id": chat.session_id, "after_seq": after, "limit": 200});
            let mut page = self.ok("transcript.page", request).await;
            if let Value::Array(page) = page["messages"].take() {
                messages.extend(page);
            }
            if page["has_more"] != true {
                return messages;
            }
        }
    }

    /// Watches a session; returns its state.
    pub async fn subscribe(&mut self, chat: &Chat) -> Value {
        self.ok("session.subscribe", json!({"session_id": chat.session_id})).await
    }

    /// Waits until session and queue look like this; the session must be subscribed.
    pub async fn until(&mut self, chat: &Chat, is: impl Fn(&Value, &Value) -> bool) -> Value {
        timed(async {
            loop {
                // What arrives from here on may make it true after it was looked at.
                self.forget_notifications();
                // An empty queue and then an idle session: the other way round, a prompt could
                // pass from the one to the other between the two looks.
                let queue = self.queue(chat).await;
                let session = self.session(chat).await;
                if is(&session, &queue) {
                    return queue;
                }
                self.notification().await;
            }
        })
        .await
    }

    /// Waits until a turn has begun.
    pub async fn until_running(&mut self, chat: &Chat) {
        self.until(chat, |session, _| session["state"] == "running").await;
    }

    /// Waits until the agent has said this, whole.
    pub async fn until_said(&mut self, chat: &Chat, text: &str) {
        timed(async {
            loop {
                self.forget_notifications();
                let said = by_role(&self.transcript(chat).await, "agent");
                if contents(&said).contains(&text) {
                    return;
                }
                self.notification().await;
            }
        })
        .await;
    }

    /// Waits until no turn is open and nothing is left that would start by itself.
    pub async fn until_settled(&mut self, chat: &Chat) -> Value {
        self.until(chat, |session, queue| {
            session["state"] == "idle" && (queue["count"] == 0 || queue["auto_run"] == false)
        })
        .await
    }
}
