//! What one who watches a session knows from the notifications alone. At rest that is what a
//! look shows: nothing was told twice, out of order, or never.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::reference::Look;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mirror {
    epoch: Value,
    /// The newest event.
    place: u64,
    queue: Value,
    session: Value,
    /// The open question.
    question: Value,
    /// By number.
    messages: BTreeMap<u64, Value>,
}

impl Mirror {
    /// Begins with the answer to a subscription.
    pub(crate) fn new(mut snapshot: Value) -> Self {
        let messages = snapshot["messages"].as_array().into_iter().flatten();
        Self {
            epoch: snapshot["epoch"].clone(),
            place: number(&snapshot["event_seq"]),
            messages: messages.map(|message| (number(&message["seq"]), message.clone())).collect(),
            queue: snapshot["queue"].take(),
            question: snapshot["session"]["permission"].clone(),
            session: snapshot["session"].take(),
        }
    }

    /// Takes the next notification.
    ///
    /// # Errors
    /// It is not the next one, or does not fit what was told before.
    pub(crate) fn tell(&mut self, action: &str, payload: &Value) -> Result<(), String> {
        // Told to all links of the owner, outside of the session's own events.
        if action == "session.deleted" {
            return Ok(());
        }
        let mut event = payload.clone();
        let fields = event.as_object_mut().ok_or("a notification without fields")?;
        let last = fields.remove("event_seq").unwrap_or_default();
        let first = fields.remove("first_event_seq").unwrap_or_else(|| last.clone());
        let epoch = fields.remove("epoch").unwrap_or_default();
        if (epoch != self.epoch)
            || number(&first) != self.place + 1
            || first.as_u64() > last.as_u64()
        {
            return Err(format!("after event {}: {action} {payload}", self.place));
        }
        self.place = number(&last);
        match action {
            "message.queue.status_changed" => self.queue = event,
            "session.changed" => {
                fields.remove("session_id");
                self.session = event;
            }
            "permission.requested" => {
                fields.remove("session_id");
                self.session["state"] = json!("awaiting_permission");
                self.session["permission"] = event.clone();
                self.question = event;
            }
            "permission.resolved" => {
                if self.question["request_id"] != event["request_id"] {
                    return Err(format!("another question is closed than was asked: {event}"));
                }
                // A later state of the session may have been told before.
                let closed = self.question.take();
                if self.session["permission"] == closed {
                    self.session["permission"].take();
                    self.session["state"] = json!("running");
                }
            }
            "transcript.message" => drop(self.messages.insert(number(&event["seq"]), event)),
            "transcript.delta" => self.append(&event)?,
            // Compared with the reference, one by one.
            "turn.started" | "turn.ended" => {}
            _ => return Err(format!("told of nothing known: {action} {payload}")),
        }
        Ok(())
    }

    fn append(&mut self, delta: &Value) -> Result<(), String> {
        let message = self.messages.get_mut(&number(&delta["seq"]));
        let message = message.filter(|message| message["id"] == delta["message_id"]);
        let message = message.ok_or_else(|| format!("text of a message never told: {delta}"))?;
        let mut content = message["content"].as_str().unwrap_or_default().to_owned();
        let text = delta["text"].as_str().unwrap_or_default();
        let known = (content.len() as u64).checked_sub(number(&delta["offset"]));
        let known = known.and_then(|known| usize::try_from(known).ok());
        let known = known.ok_or_else(|| format!("text is missing before {delta}"))?;
        content.push_str(text.get(known..).unwrap_or_default());
        message["content"] = json!(content);
        Ok(())
    }

    /// Returns whether everything before this look was told.
    pub(crate) fn is_as_new_as(&self, [queue, _, _]: &Look) -> bool {
        queue["event_seq"].as_u64().is_some_and(|newest| self.place >= newest)
    }

    /// Compares what was told with a look at the session.
    ///
    /// # Errors
    /// Where they differ.
    pub(crate) fn compare(&self, [queue, session, page]: &Look) -> Result<(), String> {
        let differ = |what: &str, told: &Value, shown: &Value| {
            Err(format!("told of another {what}\n  told  {told}\n  shown {shown}"))
        };
        // An archived session's queue is not shown.
        let (mut told, mut shown) = (self.queue.clone(), queue.clone());
        told["event_seq"].take();
        shown["event_seq"].take();
        // The same instant, put into words at two times.
        for queue in [&mut told, &mut shown] {
            let entries = queue["entries"].as_array_mut().into_iter().flatten();
            let edited = entries.filter(|entry| entry["editing"].is_object());
            edited.for_each(|entry| drop(entry["editing"]["expires_at"].take()));
        }
        if shown["entries"].is_array() && told != shown {
            return differ("queue", &told, &shown);
        }
        let (mut told, mut shown) = (self.session.clone(), session["session"].clone());
        // Every message says its own.
        told["last_seq"].take();
        shown["last_seq"].take();
        if told != shown {
            return differ("session", &told, &shown);
        }
        if self.question != shown["permission"] {
            return differ("question", &self.question, &shown["permission"]);
        }
        let told = self.messages.values().cloned().collect();
        if told != page["messages"] {
            return differ("transcript", &told, &page["messages"]);
        }
        Ok(())
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
