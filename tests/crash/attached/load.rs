//! A load of prompts with attachments, of uploads and of saved edits, and what has to be left of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use usher_tests::chat::{Chat, by_role, string};
use usher_tests::client::{Answer, Client, Closed, merge};
use usher_tests::server::Server;
use usher_tests::uploads::{base64, ids, inline, named, names, sha256};

/// Prompts of one link.
const PROMPTS: usize = 5;

/// A session of a load.
#[derive(Clone)]
pub(super) struct Place {
    chat: Chat,
    /// Its prompts wait, and are edited; else they run.
    parked: bool,
}

/// A file that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    name: String,
    bytes: Vec<u8>,
}

/// What a prompt says and carries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    content: String,
    files: Vec<File>,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Acknowledged,
    Refused,
    Nothing,
}

/// A prompt that was sent.
struct Prompt {
    id: String,
    request: Value,
    sent: Said,
    known: Known,
    /// What an edit made of it, or may have.
    saved: Option<(Said, Known)>,
}

/// An upload that was begun.
struct Upload {
    id: String,
    file: File,
    /// Bytes that were acknowledged.
    received: usize,
    finished: Known,
}

/// What one link sent.
struct Sent {
    place: Place,
    prompts: Vec<Prompt>,
    uploads: Vec<Upload>,
    refusals: BTreeSet<String>,
    cut_off: bool,
}

/// A load under way.
pub(super) struct Running(JoinSet<Sent>);

/// A load that is over.
pub(super) struct Load(Vec<Sent>);

/// Makes sessions; of every two, the first is parked.
pub(super) async fn places(server: &Server, count: usize) -> Vec<Place> {
    let mut client = Client::connect(server).await;
    let mut places = Vec::new();
    for number in 0..count {
        let chat = Chat::create(&mut client).await;
        let parked = number % 2 == 0;
        client.set_auto_run(&chat, !parked).await;
        places.push(Place { chat, parked });
    }
    places
}

/// Begins an upload of which nothing is sent.
pub(super) async fn begin_only(client: &mut Client, place: &Place) -> String {
    let begun = client.begin_upload(&place.chat, "n", b"none of it").await;
    string(&begun.expect("an upload begins")["attachment_id"])
}

impl Load {
    /// Connects and starts sending, one link a session.
    pub(super) async fn begin(server: &Server, places: &[Place], name: &str) -> Running {
        let mut links = JoinSet::new();
        for (number, place) in places.iter().enumerate() {
            // Some of these servers die before anything is sent.
            let Ok(mut client) = Client::dial(server).await else { break };
            let hello = json!({
                "protocol": [1], "client": {"name": "load", "version": "0"},
                "client_instance": uuid::Uuid::new_v4().to_string(),
            });
            if !matches!(client.try_request("hello", hello).await, Ok(Ok(_))) {
                break;
            }
            links.spawn(send_all(client, place.clone(), format!("{name}-{number}")));
        }
        Running(links)
    }

    /// Tells whether any link ended before it had sent all.
    pub(super) fn was_cut_off(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(|sent| sent.cut_off)
    }

    /// Returns the codes of refusals, each once.
    pub(super) fn refusals(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|sent| sent.refusals.clone()).collect()
    }

    /// Checks what the server has made of everything, and sends every prompt again.
    pub(super) async fn verify(&self, server: &Server, context: &str) {
        let mut client = Client::connect(server).await;
        for sent in &self.0 {
            sent.verify(&mut client, context).await;
        }
    }
}

impl Running {
    /// Waits until every link has sent all or was cut off.
    pub(super) async fn ended(self) -> Load {
        Load(self.0.join_all().await)
    }
}

async fn send_all(mut client: Client, place: Place, name: String) -> Sent {
    let (prompts, uploads, refusals) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut sent = Sent { place, prompts, uploads, refusals, cut_off: false };
    sent.cut_off = sent.send(&mut client, &name).await.is_err();
    sent
}

fn file(name: String) -> File {
    // Unlike any other's.
    let bytes = format!("the bytes of {name}").into_bytes();
    File { name, bytes }
}

impl Sent {
    async fn send(&mut self, client: &mut Client, name: &str) -> Result<(), Closed> {
        self.upload(client, file(format!("{name} half")), 7).await?;
        for number in 0..PROMPTS {
            let id = format!("{name}-{number}");
            let (first, second) = (file(format!("{id} inline")), file(format!("{id} staged")));
            let mut attachments = vec![inline(&first.name, &first.bytes)];
            let mut files = vec![first];
            if let Some(upload) = self.upload(client, second.clone(), usize::MAX).await? {
                attachments.push(named(&upload));
                files.push(second);
            }
            let mut request = self.place.chat.prompt(&id, &id);
            merge(&mut request, json!({ "attachments": attachments }));
            let sent = Said { content: id.clone(), files };
            let (known, saved) = (Known::Nothing, None);
            self.prompts.push(Prompt { id, request: request.clone(), sent, known, saved });
            let answer = client.try_request("message.queue.add", request).await?;
            let prompt = self.prompts.last_mut().expect("it is there");
            prompt.known = Known::of(&answer);
            match answer {
                Ok(entry) if self.place.parked => self.edit(client, &entry).await?,
                Ok(_) => {}
                Err(refusal) => drop(self.refusals.insert(refusal.code)),
            }
        }
        Ok(())
    }

    /// Uploads a file, as far as that; returns its id if it was finished.
    async fn upload(
        &mut self,
        client: &mut Client,
        file: File,
        until: usize,
    ) -> Result<Option<String>, Closed> {
        let chat = &self.place.chat;
        let begin = json!({
            "task_id": chat.task_id, "session_id": chat.session_id, "name": file.name,
            "mime_type": "text/plain", "type": "resource",
            "size_bytes": file.bytes.len(), "sha256": sha256(&file.bytes),
        });
        let Some(begun) = self.ask(client, "attachment.begin", begin).await? else {
            return Ok(None);
        };
        let id = string(&begun["attachment_id"]);
        let part = &file.bytes[..until.min(file.bytes.len())];
        let part = json!({"attachment_id": id, "offset": 0, "data": base64(part)});
        let (received, finished) = (0, Known::Refused);
        self.uploads.push(Upload { id: id.clone(), file, received, finished });
        let index = self.uploads.len() - 1;
        let Some(appended) = self.ask(client, "attachment.append", part).await? else {
            return Ok(None);
        };
        self.uploads[index].received = appended["received_bytes"].as_u64().unwrap_or(0) as usize;
        if until < usize::MAX {
            return Ok(None);
        }
        self.uploads[index].finished = Known::Nothing;
        let finished = client.try_request("attachment.finish", named(&id)).await?;
        self.uploads[index].finished = Known::of(&finished);
        match finished {
            Ok(_) => Ok(Some(id)),
            Err(refusal) => {
                self.refusals.insert(refusal.code);
                Ok(None)
            }
        }
    }

    async fn ask(
        &mut self,
        client: &mut Client,
        action: &str,
        payload: Value,
    ) -> Result<Option<Value>, Closed> {
        match client.try_request(action, payload).await? {
            Ok(answer) => Ok(Some(answer)),
            Err(refusal) => {
                self.refusals.insert(refusal.code);
                Ok(None)
            }
        }
    }

    /// Keeps the first file of the last prompt, drops what else it has, and adds two.
    async fn edit(&mut self, client: &mut Client, entry: &Value) -> Result<(), Closed> {
        let chat = self.place.chat.clone();
        let prompt = self.prompts.last().expect("it was accepted");
        let (id, kept) = (prompt.id.clone(), prompt.sent.files[0].clone());
        let begin = chat.with(json!({"entry_id": entry["id"]}));
        let Some(lease) = self.ask(client, "message.queue.edit.begin", begin).await? else {
            return Ok(());
        };
        let (new, staged) = (file(format!("{id} new")), file(format!("{id} late")));
        let mut attachments = vec![named(&ids(entry)[0]), inline(&new.name, &new.bytes)];
        let mut files = vec![kept, new];
        if let Some(upload) = self.upload(client, staged.clone(), usize::MAX).await? {
            attachments.push(named(&upload));
            files.push(staged);
        }
        let content = format!("{id} edited");
        let held = json!({"entry_id": entry["id"], "lease_id": lease["lease_id"]});
        let mut save = chat.with(held.clone());
        let fields = json!({
            "operation_id": "o", "expected_target_revision": lease["target_revision"],
            "content": content, "attachments": attachments,
        });
        merge(&mut save, fields);
        let index = self.prompts.len() - 1;
        self.prompts[index].saved = Some((Said { content, files }, Known::Nothing));
        let answer = client.try_request("message.queue.update", save).await?;
        if let Some((_, known)) = &mut self.prompts[index].saved {
            *known = Known::of(&answer);
        }
        if let Err(refusal) = answer {
            self.refusals.insert(refusal.code);
        }
        self.ask(client, "message.queue.edit.end", chat.with(held)).await.map(drop)
    }

    async fn verify(&self, client: &mut Client, context: &str) {
        let chat = &self.place.chat;
        client.subscribe(chat).await;
        client.set_auto_run(chat, false).await;
        client.until(chat, |session, _| session["state"] == "idle").await;
        let mut found = by_role(&client.transcript(chat).await, "user");
        for message in &mut found {
            message["attachments"] = message["metadata"]["attachments"].clone();
        }
        found.extend(client.entries(chat).await);
        let mut claimed = Vec::new();
        for prompt in &self.prompts {
            let here = json!([prompt.id]);
            let is_it = |one: &&Value| one["metadata"]["queue_admission_ids"] == here;
            let here: Vec<&Value> = found.iter().filter(is_it).collect();
            let context = format!("{context}: {}", prompt.id);
            match (prompt.known, here.len()) {
                (Known::Acknowledged | Known::Nothing, 1)
                | (Known::Refused | Known::Nothing, 0) => {}
                (known, count) => panic!("{context} was {known:?} and is there {count} times"),
            }
            if let Some(one) = here.first() {
                claimed.extend(ids(one));
                let said = said(client, one).await;
                assert!(prompt.may_be(&said), "{context} is {said:?}");
                if prompt.saved.as_ref().is_some_and(|(after, _)| *after == said) {
                    // The edit gave it up.
                    claimed.extend(prompt.named());
                }
            }
        }
        // What nothing claimed is whole, and can be claimed.
        for upload in &self.uploads {
            if upload.finished == Known::Acknowledged && !claimed.contains(&upload.id) {
                let again = client.finish(&upload.id).await;
                assert!(again.is_ok(), "{context}: {} is lost: {again:?}", upload.file.name);
                let bytes = client.bytes_of(&upload.id).await;
                assert_eq!(bytes, Ok(upload.file.bytes.clone()), "{context}");
            }
        }
        for prompt in &self.prompts {
            let was_here = found
                .iter()
                .any(|one| one["metadata"]["queue_admission_ids"] == json!([prompt.id]));
            self.send_again(client, prompt, was_here, context).await;
        }
        self.go_on(client, context).await;
    }

    /// The same admission once more: a replay if it is there, else the first one.
    async fn send_again(
        &self,
        client: &mut Client,
        prompt: &Prompt,
        was_here: bool,
        context: &str,
    ) {
        let again = client.request("message.queue.add", prompt.request.clone()).await;
        let again = again.unwrap_or_else(|refusal| panic!("{context}: {}: {refusal:?}", prompt.id));
        let outcome = if was_here { "replayed" } else { "admitted" };
        assert_eq!(again["admission"]["outcome"], outcome, "{context}: {}", prompt.id);
        let sent: Vec<&String> = prompt.sent.files.iter().map(|file| &file.name).collect();
        assert_eq!(names(&again).iter().collect::<Vec<_>>(), sent, "{context}");
        if !was_here {
            assert_eq!(said(client, &again).await, prompt.sent, "{context}");
        }
    }

    /// What was acknowledged of an upload that is not whole is there: the rest makes it whole.
    async fn go_on(&self, client: &mut Client, context: &str) {
        let begun = self.uploads.first().filter(|upload| upload.received > 0);
        if let Some(upload) = begun.filter(|upload| upload.finished == Known::Refused) {
            let rest = &upload.file.bytes[upload.received..];
            let whole = client.append(&upload.id, upload.received, rest).await;
            assert!(whole.is_ok(), "{context}: {}: {whole:?}", upload.file.name);
            let finished = client.finish(&upload.id).await;
            assert!(finished.is_ok(), "{context}: {}: {finished:?}", upload.file.name);
            assert_eq!(client.bytes_of(&upload.id).await.as_ref(), Ok(&upload.file.bytes));
        }
    }
}

impl Known {
    const fn of(answer: &Answer) -> Self {
        match answer {
            Ok(_) => Self::Acknowledged,
            Err(_) => Self::Refused,
        }
    }
}

impl Prompt {
    fn may_be(&self, said: &Said) -> bool {
        match &self.saved {
            Some((after, Known::Acknowledged)) => said == after,
            Some((after, Known::Nothing)) => said == after || *said == self.sent,
            Some((_, Known::Refused)) | None => *said == self.sent,
        }
    }

    /// Returns the uploads that it was sent with.
    fn named(&self) -> Vec<String> {
        let all = self.request["attachments"].as_array().into_iter().flatten();
        all.filter_map(|one| one["attachment_id"].as_str().map(str::to_owned)).collect()
    }
}

/// Reads what an entry or a message says and carries, to the last byte.
async fn said(client: &mut Client, one: &Value) -> Said {
    let mut files = Vec::new();
    for (id, name) in ids(one).iter().zip(names(one)) {
        let bytes = client.bytes_of(id).await.expect("a prompt's bytes are there");
        files.push(File { name, bytes });
    }
    Said { content: string(&one["content"]), files }
}
