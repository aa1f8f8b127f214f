//! One upload.

use super::super::upload::{attachment_id, file, params, upload_id};
use super::*;
use crate::protocol::attachment::{
    AttachmentAppendReply, AttachmentBeginReply, AttachmentFinishReply,
};

const BEGIN: &str = "attachment.begin";
const APPEND: &str = "attachment.append";
const FINISH: &str = "attachment.finish";
const FILE_BYTES: u64 = 70_000;

fn begun() -> AttachmentBeginReply {
    let attachment_id = attachment_id(1);
    AttachmentBeginReply { attachment_id, expires_at: UnixMillis::new(0), received_bytes: 0 }
}

fn none() -> Rig {
    Rig::online()
}

fn upload(mut rig: Rig) -> Rig {
    let params =
        crate::protocol::attachment::AttachmentBeginParams { size_bytes: FILE_BYTES, ..params() };
    rig.input(Input::Upload { id: upload_id(), params });
    rig
}

fn offline() -> Rig {
    let mut rig = Rig::online();
    rig.input(Input::LinkClosed { code: None });
    upload(rig)
}

fn beginning() -> Rig {
    upload(Rig::online())
}

fn reading() -> Rig {
    let mut rig = beginning();
    let begin = rig.take(BEGIN);
    rig.reply(&begin, &begun());
    rig
}

fn read(rig: &mut Rig, start: usize, end: usize) {
    let bytes = Some(file()[start..end].to_vec());
    rig.input(Input::UploadRead { id: upload_id(), bytes });
}

fn appending() -> Rig {
    let mut rig = reading();
    read(&mut rig, 0, 65_536);
    rig
}

fn finishing() -> Rig {
    let mut rig = appending();
    let append = rig.take(APPEND);
    rig.reply(&append, &AttachmentAppendReply { received_bytes: 65_536 });
    read(&mut rig, 65_536, 70_000);
    let append = rig.take(APPEND);
    rig.reply(&append, &AttachmentAppendReply { received_bytes: FILE_BYTES });
    rig
}

fn state_of(case: &Case) -> String {
    if case.rig.engine.has_uploads() { "open".to_owned() } else { "gone".to_owned() }
}

#[test]
fn every_state_of_an_upload_meets_every_input() {
    let states: &[State] = &[
        ("none", none),
        ("without a link", offline),
        ("beginning", beginning),
        ("reading", reading),
        ("appending", appending),
        ("finishing", finishing),
    ];
    let inputs: &[Step] = &[
        ("begun", |case| case.reply(BEGIN, &begun())),
        ("begin refused", |case| case.refuse(BEGIN, ErrorCode::NotFound)),
        ("begin: rate_limited", |case| case.refuse(BEGIN, ErrorCode::RateLimited)),
        ("a piece is read", |case| read(&mut case.rig, 0, 65_536)),
        ("a piece of another size", |case| read(&mut case.rig, 0, 9)),
        ("nothing can be read", |case| {
            case.rig.input(Input::UploadRead { id: upload_id(), bytes: None });
        }),
        ("appended", |case| {
            case.reply(APPEND, &AttachmentAppendReply { received_bytes: 65_536 });
        }),
        ("append: not_found", |case| case.refuse(APPEND, ErrorCode::NotFound)),
        ("finished", |case| {
            let (attachment_id, size_bytes) = (attachment_id(1), FILE_BYTES);
            case.reply(FINISH, &AttachmentFinishReply { attachment_id, size_bytes });
        }),
        ("finish: validation", |case| case.refuse(FINISH, ErrorCode::Validation)),
        ("garbage for the latest", |case| {
            for action in [BEGIN, APPEND, FINISH] {
                case.reply(action, &json!("?"));
            }
        }),
        ("given up", |case| case.rig.input(Input::AbortUpload(upload_id()))),
        ("link closes", |case| case.rig.input(Input::LinkClosed { code: None })),
        ("link comes (again)", Case::link_comes),
        ("next deadline", Case::next_deadline),
    ];
    check("uploads", states, inputs, state_of);
}
