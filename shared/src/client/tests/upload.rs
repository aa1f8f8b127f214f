//! Uploads: every byte once, whatever the link does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::client::UploadEnd;
use crate::id::AttachmentId;
use crate::protocol::attachment::{
    AttachmentAppendReply, AttachmentBeginParams, AttachmentBeginReply, AttachmentFinishReply,
};
use crate::vocabulary::AttachmentKind;

const FILE_BYTES: usize = 1_000_000;

pub(super) fn upload_id() -> UploadId {
    UploadId::new(1)
}

pub(super) fn file() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at / 7 % 251) as u8).collect()
}

pub(super) fn params() -> AttachmentBeginParams {
    AttachmentBeginParams {
        task_id: task_id(),
        session_id: session_id(1),
        name: "file".to_owned(),
        mime_type: "application/octet-stream".to_owned(),
        kind: AttachmentKind::Resource,
        size_bytes: FILE_BYTES as u64,
        sha256: "0".repeat(64),
    }
}

pub(super) fn attachment_id(number: u128) -> AttachmentId {
    AttachmentId::from_uuid(Uuid::from_u128(9_000 + number))
}

/// A server's end of uploads.
#[derive(Default)]
struct Disk {
    begun: u128,
    bytes: Vec<u8>,
}

impl Rig {
    fn uploading() -> Self {
        let mut rig = Self::online();
        rig.input(Input::Upload { id: upload_id(), params: params() });
        rig
    }

    /// Gives the program's bytes for every piece that is asked for.
    fn read_pieces(&mut self) {
        for (id, offset, length) in std::mem::take(&mut self.reads) {
            let start = usize::try_from(offset).unwrap();
            let bytes = file()[start..start + length].to_vec();
            self.input(Input::UploadRead { id, bytes: Some(bytes) });
        }
    }

    /// Takes the request of the upload that is under way, doing what it says on the other side.
    fn serve(&mut self, disk: &mut Disk) -> Option<(Sent, Value)> {
        self.read_pieces();
        let index = self.sent.iter().position(|sent| sent.action.starts_with("attachment."))?;
        let request = self.sent.remove(index);
        let reply = match request.action.as_str() {
            "attachment.begin" => {
                disk.begun += 1;
                disk.bytes.clear();
                json!(AttachmentBeginReply {
                    attachment_id: attachment_id(disk.begun),
                    expires_at: UnixMillis::new(0),
                    received_bytes: 0,
                })
            }
            "attachment.append" => {
                assert_eq!(request.payload["attachment_id"], json!(attachment_id(disk.begun)));
                let offset = request.payload["offset"].as_u64().unwrap() as usize;
                let data = STANDARD.decode(request.payload["data"].as_str().unwrap()).unwrap();
                assert!(offset <= disk.bytes.len(), "a gap");
                let known = disk.bytes.len() - offset;
                disk.bytes.extend(data.iter().skip(known));
                json!(AttachmentAppendReply { received_bytes: disk.bytes.len() as u64 })
            }
            _ => json!(AttachmentFinishReply {
                attachment_id: attachment_id(disk.begun),
                size_bytes: disk.bytes.len() as u64,
            }),
        };
        Some((request, reply))
    }

    fn upload_ends(&mut self) -> Vec<UploadEnd> {
        let events = std::mem::take(&mut self.events).into_iter();
        let ends = events.filter_map(|event| match event {
            Event::UploadEnded { end, .. } => Some(end),
            _ => None,
        });
        ends.collect()
    }

    /// Lets it run to its end.
    fn finish_upload(&mut self, disk: &mut Disk) -> Vec<UploadEnd> {
        while let Some((request, reply)) = self.serve(disk) {
            self.reply(&request, &reply);
        }
        self.upload_ends()
    }
}

#[test]
fn a_file_goes_up_in_growing_pieces() {
    let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
    assert_eq!(rig.finish_upload(&mut disk), [UploadEnd::Finished(attachment_id(1))]);
    assert_eq!(disk.bytes, file());
}

#[test]
fn an_empty_file_needs_no_piece() {
    let mut rig = Rig::online();
    let params = AttachmentBeginParams { size_bytes: 0, ..params() };
    rig.input(Input::Upload { id: upload_id(), params });
    let ends = rig.finish_upload(&mut Disk::default());
    assert_eq!(ends, [UploadEnd::Finished(attachment_id(1))]);
}

/// Cuts the link once at every request, before or after it was done, with and without waiting for
/// the timeout.
#[test]
fn a_cut_at_any_request_costs_one_piece_at_most() {
    for cut_at in 0..7 {
        for (is_done, times_out) in [(true, false), (false, false), (true, true), (false, true)] {
            let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
            for _ in 0..cut_at {
                let Some((request, reply)) = rig.serve(&mut disk) else { break };
                rig.reply(&request, &reply);
            }
            if is_done {
                rig.serve(&mut disk);
            } else {
                rig.read_pieces();
                rig.forget();
            }
            if times_out {
                rig.wait_alive(30_000);
            } else {
                rig.blink();
            }
            let ends = rig.finish_upload(&mut disk);
            let end = UploadEnd::Finished(attachment_id(disk.begun));
            assert_eq!(ends, [end], "cut at {cut_at}, done: {is_done}");
            assert_eq!(disk.bytes, file());
            assert!(cut_at == 0 || disk.begun == 1, "what was begun is gone on with");
        }
    }
}

#[test]
fn a_lost_piece_makes_the_next_one_smaller() {
    let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
    let (begin, reply) = rig.serve(&mut disk).unwrap();
    rig.reply(&begin, &reply);
    let mut lengths = Vec::new();
    for _ in 0..6 {
        lengths.push(rig.reads[0].2);
        rig.read_pieces();
        rig.wait_alive(30_000);
    }
    assert_eq!(lengths, [65_536, 32_768, 16_384, 8_192, 4_096, 4_096]);
}

#[test]
fn a_server_that_has_less_than_it_said_gets_the_rest_again_but_not_for_ever() {
    let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
    for _ in 0..3 {
        let (request, reply) = rig.serve(&mut disk).unwrap();
        rig.reply(&request, &reply);
    }
    rig.read_pieces();
    disk.bytes.truncate(100);
    let gap = rig.take("attachment.append");
    let has = |bytes: u64| WireError::validation("offset", "a gap").with("received_bytes", bytes);
    rig.refuse(&gap, &has(100));
    assert_eq!(rig.reads[0].1, 100);
    assert_eq!(rig.finish_upload(&mut disk), [UploadEnd::Finished(attachment_id(1))]);
    assert_eq!(disk.bytes, file());

    let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
    let mut refused = 0;
    while rig.upload_ends().is_empty() {
        let Some((request, reply)) = rig.serve(&mut disk) else { break };
        if request.action == "attachment.append" && request.payload["offset"] != json!(0) {
            disk.bytes.clear();
            refused += 1;
            rig.refuse(&request, &has(0));
        } else {
            rig.reply(&request, &reply);
        }
    }
    assert_eq!(refused, 9);
}

#[test]
fn a_server_whose_answers_cannot_be_read_is_not_asked_for_ever() {
    let mut rig = Rig::uploading();
    let mut asked = 0;
    while rig.upload_ends().is_empty() {
        let begin = rig.take("attachment.begin");
        asked += 1;
        rig.reply(&begin, &json!("what?"));
        if rig.engine.has_uploads() {
            rig.wait_alive(1_000);
        }
    }
    assert_eq!((asked, rig.engine.has_uploads()), (9, false));
}

#[test]
fn a_refusal_is_final_unless_its_code_says_to_try_again() {
    for &code in ErrorCode::ALL {
        let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
        let begin = rig.take("attachment.begin");
        rig.refuse(&begin, &error(code));
        if code.advice() == crate::error::Advice::RetrySame {
            rig.wait_alive(2_000);
            let ends = rig.finish_upload(&mut disk);
            assert_eq!(ends, [UploadEnd::Finished(attachment_id(1))], "{code}");
        } else {
            assert_eq!(rig.upload_ends(), [UploadEnd::Refused(error(code))]);
        }
    }
}

#[test]
fn a_file_that_changed_or_is_gone_ends_its_upload() {
    for bytes in [None, Some(vec![1, 2, 3])] {
        let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
        let (begin, reply) = rig.serve(&mut disk).unwrap();
        rig.reply(&begin, &reply);
        rig.input(Input::UploadRead { id: upload_id(), bytes });
        assert_eq!(rig.upload_ends(), [UploadEnd::Unreadable]);
        rig.take("attachment.abort");
    }
}

#[test]
fn an_upload_that_is_given_up_is_taken_back_and_told_no_more_of() {
    let (mut rig, mut disk) = (Rig::uploading(), Disk::default());
    let (begin, reply) = rig.serve(&mut disk).unwrap();
    rig.reply(&begin, &reply);
    rig.read_pieces();
    let append = rig.take("attachment.append");
    rig.input(Input::AbortUpload(upload_id()));
    rig.take("attachment.abort");
    rig.reply(&append, &AttachmentAppendReply { received_bytes: 65_536 });
    rig.wait_alive(60_000);
    assert_eq!(rig.upload_ends(), []);
    assert_eq!(rig.actions(), Vec::<&str>::new());
}
