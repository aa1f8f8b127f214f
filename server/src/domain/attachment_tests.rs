//! Decisions about attachments.

use usher_shared::id::UserId;
use usher_shared::limits::ATTACHMENTS_MAX;

use super::super::fixtures::{NOW, session, uuid};
use super::*;

fn about(size_bytes: u64) -> Described {
    Described {
        kind: AttachmentKind::Resource,
        name: "b c.txt".to_owned(),
        mime_type: "text/plain".to_owned(),
        size_bytes,
        sha256: ContentDigest([7; 32]),
    }
}

fn upload(n: u128, stage: Stage) -> Upload {
    let session = session(None);
    Upload {
        id: AttachmentId::from_uuid(uuid(n)),
        session: session.key,
        session_id: session.id,
        owner: session.owner,
        about: about(5),
        stage,
        expires_at: Some(UnixMillis::new(NOW.get() + 1)),
    }
}

fn named(n: u128) -> Offered {
    Offered::Named { id: AttachmentId::from_uuid(uuid(n)), delivery: DeliveryMode::Prompt }
}

fn inline(n: u128, size: u64) -> Offered {
    Offered::Inline(Box::new(Inline {
        id: AttachmentId::from_uuid(uuid(n)),
        about: about(size),
        data: Arc::from([]),
        delivery: DeliveryMode::Path,
    }))
}

fn took(
    offered: &[Offered],
    uploads: &[Upload],
    kept: &[Attachment],
) -> Result<Taken, TakeRefusal> {
    take(&session(None), offered, uploads, kept, NOW)
}

const fn unavailable(index: usize) -> TakeRefusal {
    TakeRefusal::Unavailable { index }
}

#[test]
fn only_a_finished_upload_of_the_same_session_in_its_time_is_taken_and_once() {
    let taken = took(&[inline(1, 3), named(2)], &[upload(2, Stage::Ready)], &[]).unwrap();
    let ids: Vec<_> = taken.attachments.iter().map(|one| one.id.uuid().as_u128()).collect();
    assert_eq!(ids, [1, 2]);
    let entry = EntryId::from_uuid(uuid(9));
    let changes = taken.by(session(None).key, entry);
    assert!(matches!(&changes[0], Change::InsertAttachment(_, id, _) if *id == entry));
    assert_eq!(changes[1], Change::ClaimUpload(AttachmentId::from_uuid(uuid(2)), entry));

    let elsewhere = Upload { session: SessionKey(2), ..upload(2, Stage::Ready) };
    let late = Upload { expires_at: Some(NOW), ..upload(2, Stage::Ready) };
    let receiving = upload(2, Stage::Receiving);
    let claimed = Upload { expires_at: None, ..upload(2, Stage::Claimed) };
    for found in [vec![], vec![elsewhere], vec![late], vec![receiving], vec![claimed]] {
        assert_eq!(took(&[inline(1, 3), named(2)], &found, &[]), Err(unavailable(1)));
    }
    let twice = [named(2), named(2)];
    assert_eq!(took(&twice, &[upload(2, Stage::Ready)], &[]), Err(unavailable(1)));
}

#[test]
fn an_edit_keeps_what_it_names_and_lets_the_rest_go() {
    let before =
        took(&[named(1), named(2)], &[upload(1, Stage::Ready), upload(2, Stage::Ready)], &[]);
    let before = before.unwrap().attachments;
    let path = Offered::Named { id: before[1].id, delivery: DeliveryMode::Path };
    let taken = took(&[path, named(3)], &[upload(3, Stage::Ready)], &before).unwrap();
    let kept = Attachment { delivery: DeliveryMode::Path, ..before[1].clone() };
    assert_eq!(taken.attachments[0], kept);
    let left = released(&before, &taken.attachments);
    assert_eq!(left, [Change::ReleaseAttachment(before[0].id)]);
    let entry = EntryId::from_uuid(uuid(9));
    let claim = Change::ClaimUpload(AttachmentId::from_uuid(uuid(3)), entry);
    assert_eq!(taken.by(session(None).key, entry), [claim]);
}

#[test]
fn the_first_attachment_that_is_too_much_is_named() {
    let half = ATTACHMENT_BYTES_MAX as u64 / 2;
    assert!(took(&[inline(1, half), inline(2, half)], &[], &[]).is_ok());
    let more = [inline(1, half), inline(2, half), inline(3, 1)];
    assert_eq!(took(&more, &[], &[]), Err(TakeRefusal::TooLarge { index: 2 }));
    let many: Vec<_> = (0..=ATTACHMENTS_MAX as u128).map(|n| inline(n, 0)).collect();
    let refused = TakeRefusal::TooLarge { index: ATTACHMENTS_MAX };
    assert_eq!(took(&many, &[], &[]), Err(refused));
}

#[test]
fn what_is_there_already_is_not_new_and_a_gap_is_none() {
    assert_eq!(new_part(10, 0, 0, 4), Ok(0..4));
    assert_eq!(new_part(10, 4, 2, 4), Ok(2..4));
    assert_eq!(new_part(10, 8, 2, 4), Ok(4..4));
    assert_eq!(new_part(10, 4, 5, 4), Err(AppendRefusal::Gap { received: 4 }));
    assert_eq!(new_part(10, 4, 4, 7), Err(AppendRefusal::TooLong { size: 10 }));
    assert_eq!(new_part(10, 4, u64::MAX, 7), Err(AppendRefusal::TooLong { size: 10 }));
    assert_eq!(new_part(0, 0, 0, 0), Ok(0..0));
}

#[test]
fn a_user_has_so_many_unclaimed_uploads_and_no_more() {
    let session = session(None);
    let id = AttachmentId::from_uuid(uuid(1));
    let begun = |staged| begin(&session, staged, id, about(5), NOW).map(drop);
    assert_eq!(begun(Staged { count: STAGED_MAX - 1, bytes: STAGED_BYTES_MAX - 5 }), Ok(()));
    assert_eq!(begun(Staged { count: STAGED_MAX, bytes: 0 }), Err(TooManyStaged));
    assert_eq!(begun(Staged { count: 0, bytes: STAGED_BYTES_MAX - 4 }), Err(TooManyStaged));
    let mine = upload(1, Stage::Ready);
    assert_eq!(Upload::of(Some(mine.clone()), session.owner, NOW), Ok(mine.clone()));
    let other = UserId::from_uuid(uuid(99));
    assert_eq!(Upload::of(Some(mine), other, NOW), Err(UploadGone));
}

#[test]
fn a_digest_is_64_lower_case_hex_digits() {
    let text = "00ff".repeat(16);
    assert_eq!(ContentDigest::parse(&text).map(|digest| digest.to_string()), Some(text.clone()));
    for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace("00", "0g")] {
        assert_eq!(ContentDigest::parse(wrong), None);
    }
    assert_eq!(ContentDigest::parse(&"é".repeat(32)), None);
}
