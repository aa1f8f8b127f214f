//! Attachments on the real server: uploads, whether they can still be claimed, and their bytes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use usher_tests::client::{Answer, Client, Closed, merge};
use usher_tests::uploads::base64;

use crate::names::Names;
use crate::reference::{File, Model, Whose, attachment_name};

/// Requests that are on their way at once.
const AT_ONCE: usize = 32;
/// How often what goes only with the dispatcher's pass is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What has to be true of an attachment from now on.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    id: Value,
    /// None: it is gone after the next pass.
    bytes: Option<Vec<u8>>,
}

/// Begins and finishes an upload; the answers as one, or the first refusal.
pub(crate) async fn upload(
    client: &mut Client,
    (action, begin): (&str, Value),
    file: File,
) -> Result<Answer, Closed> {
    let begun = match client.try_request(action, begin).await? {
        Ok(begun) => begun,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let id = json!({"attachment_id": begun["attachment_id"]});
    let mut part = id.clone();
    merge(&mut part, json!({"offset": 0, "data": base64(&file.bytes())}));
    let appended = match client.try_request("attachment.append", part).await? {
        Ok(appended) => appended,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let finished = client.try_request("attachment.finish", id).await?;
    Ok(finished.map(|finished| json!({"begun": begun, "appended": appended, "finished": finished})))
}

/// Compares which uploads can be claimed, and what can be read. What is gone may be read until the
/// dispatcher's next pass.
pub(crate) async fn compare(
    client: &mut Client,
    model: &Model,
    names: &Names,
) -> Result<(), String> {
    let all = model.attachments();
    let id = |id: u32| names.fill(&json!({"attachment_id": attachment_name(id)}));
    // Finishing once more changes nothing, and what a prompt claimed has no owner who could.
    let finishes = all.iter().map(|(number, ..)| ("attachment.finish", id(*number))).collect();
    for ((number, file, whose), answer) in all.iter().zip(ask(client, finishes).await?) {
        let mut size = id(*number);
        size["size_bytes"] = json!(file.bytes().len());
        let right = match whose {
            Whose::Nobodys => answer == Ok(size),
            Whose::Carried | Whose::Gone => is_unavailable(&answer),
        };
        if !right {
            return Err(format!("attachment {number} is {whose:?}; finished again: {answer:?}"));
        }
    }
    let kept: Vec<_> = all.iter().filter(|(.., whose)| *whose != Whose::Gone).collect();
    let reads = kept.iter().map(|(number, ..)| read(&id(*number)["attachment_id"])).collect();
    for ((number, file, whose), answer) in kept.iter().zip(ask(client, reads).await?) {
        if !is_whole(&answer, &file.bytes()) {
            return Err(format!("attachment {number} is {whose:?}; read: {answer:?}"));
        }
    }
    Ok(())
}

/// Gives up the uploads that a sequence leaves; returns what is true of its attachments then.
pub(crate) async fn leave(
    client: &mut Client,
    model: &Model,
    names: &Names,
) -> Result<Vec<Kept>, String> {
    let mut kept = Vec::new();
    for (number, file, whose) in model.attachments() {
        let id = names.fill(&json!({"attachment_id": attachment_name(number)}));
        if whose == Whose::Nobodys {
            let aborted = client.try_request("attachment.abort", id.clone()).await;
            if !matches!(&aborted, Ok(Ok(answer)) if *answer == id) {
                return Err(format!("attachment {number} was not given up: {aborted:?}"));
            }
        }
        let bytes = (whose == Whose::Carried).then(|| file.bytes());
        kept.push(Kept { id: id["attachment_id"].clone(), bytes });
    }
    Ok(kept)
}

/// Looks until everything is as it has to be.
///
/// # Errors
/// What is not.
pub(crate) async fn all_kept(
    client: &mut Client,
    mut kept: Vec<Kept>,
    patience: Duration,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let answers = ask(client, kept.iter().map(|one| read(&one.id)).collect()).await?;
        let mut left = Vec::new();
        let mut nearest = String::new();
        for (one, answer) in kept.into_iter().zip(answers) {
            match &one.bytes {
                Some(bytes) if is_whole(&answer, bytes) => {}
                Some(_) => return Err(format!("{one:?} is carried, and read: {answer:?}")),
                None if is_unavailable(&answer) => {}
                None => {
                    nearest = format!("nothing carries {one:?}, and read: {answer:?}");
                    left.push(one);
                }
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > patience {
            return Err(nearest);
        }
        kept = left;
        sleep(LOOK_EVERY).await;
    }
}

fn read(id: &Value) -> (&'static str, Value) {
    ("attachment.read", json!({"attachment_id": id, "offset": 0, "length": 100}))
}

fn is_whole(answer: &Answer, bytes: &[u8]) -> bool {
    *answer == Ok(json!({"data": base64(bytes), "eof": true}))
}

fn is_unavailable(answer: &Answer) -> bool {
    matches!(answer, Err(refusal) if refusal.code == "attachment_unavailable")
}

async fn ask(
    client: &mut Client,
    requests: Vec<(&'static str, Value)>,
) -> Result<Vec<Answer>, String> {
    let lost = |closed: Closed| format!("the link was lost: {closed:?}");
    let mut answers = Vec::new();
    for requests in requests.chunks(AT_ONCE) {
        let mut sent = Vec::new();
        for (action, payload) in requests {
            sent.push(client.send(action, payload.clone()).await.map_err(lost)?);
        }
        for id in sent {
            answers.push(client.answer(&id).await.map_err(lost)?);
        }
    }
    Ok(answers)
}
