//! The files of attachments.

use std::os::unix::fs::PermissionsExt as _;

use uuid::Uuid;

use super::*;
use usher_shared::vocabulary::AttachmentKind;

fn about(data: &[u8]) -> Described {
    Described {
        kind: AttachmentKind::Resource,
        name: "x".to_owned(),
        mime_type: "a/b".to_owned(),
        size_bytes: data.len() as u64,
        sha256: ContentDigest(Sha256::digest(data).into()),
    }
}

fn id(n: u128) -> AttachmentId {
    AttachmentId::from_uuid(Uuid::from_u128(n))
}

fn files() -> (tempfile::TempDir, Arc<AttachmentFiles>) {
    let dir = tempfile::tempdir().unwrap();
    let files = Arc::new(AttachmentFiles::open(&dir.path().join("attachments")).unwrap());
    (dir, files)
}

#[test]
fn parts_in_any_number_and_repeated_make_one_object() {
    let (_dir, files) = files();
    let about = about(b"hello");
    assert_eq!(files.append(id(1), 5, 0, b"he").unwrap(), Ok(2));
    assert_eq!(files.append(id(1), 5, 3, b"o").unwrap(), Err(AppendRefusal::Gap { received: 2 }));
    assert!(matches!(files.settle(id(1), &about).unwrap(), Whole::Short { received: 2 }));
    assert_eq!(files.append(id(1), 5, 1, b"ello").unwrap(), Ok(5));
    assert_eq!(files.append(id(1), 5, 0, b"he").unwrap(), Ok(5));
    let Whole::Yes(_held) = files.settle(id(1), &about).unwrap() else { panic!("not whole") };
    files.forget_arriving(id(1)).unwrap();
    assert_eq!(files.read(about.sha256, 1, 10).unwrap(), b"ello");
    assert_eq!(files.all_objects().unwrap(), [about.sha256]);
    assert_eq!(files.all_arriving().unwrap(), []);
    let mode = files.object(about.sha256).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn other_bytes_than_announced_become_no_object() {
    let (_dir, files) = files();
    files.append(id(1), 5, 0, b"hallo").unwrap().unwrap();
    assert!(matches!(files.settle(id(1), &about(b"hello")).unwrap(), Whole::Others));
    assert_eq!(files.all_objects().unwrap(), []);
}

#[test]
fn a_damaged_object_is_replaced_by_the_same_bytes() {
    let (_dir, files) = files();
    let about = about(b"hello");
    drop(files.put(id(1), &about, b"hello").unwrap());
    fs::write(files.object(about.sha256), "he").unwrap();
    drop(files.put(id(2), &about, b"hello").unwrap());
    assert_eq!(files.read(about.sha256, 0, 10).unwrap(), b"hello");
    assert_eq!(entries(&files.incoming).unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn tidying_spares_what_is_held_or_was_held_since_it_began() {
    let (_dir, files) = files();
    let (early, late, over) = (about(b"early"), about(b"late"), about(b"over"));
    let held = files.put(id(1), &early, b"early").unwrap();
    drop(files.put(id(3), &over, b"over").unwrap());
    files.begin_tidying();
    drop(held);
    drop(files.put(id(2), &late, b"late").unwrap());
    for about in [&early, &late, &over] {
        files.remove_object(about.sha256).unwrap();
    }
    let mut left = files.all_objects().unwrap();
    left.sort_by_key(|digest| digest.0);
    let mut spared = [early.sha256, late.sha256];
    spared.sort_by_key(|digest| digest.0);
    assert_eq!(left, spared);
    // The next time they go.
    files.begin_tidying();
    spared.iter().for_each(|digest| files.remove_object(*digest).unwrap());
    assert_eq!(files.all_objects().unwrap(), []);
}

#[test]
fn what_a_killed_server_had_not_finished_is_gone_at_the_next_start() {
    let (dir, files) = files();
    files.append(id(1), 5, 0, b"he").unwrap().unwrap();
    fs::write(files.arriving(id(2)).with_extension(UNFINISHED), "half").unwrap();
    let again = AttachmentFiles::open(&dir.path().join("attachments")).unwrap();
    assert_eq!(entries(&again.incoming).unwrap(), [files.arriving(id(1))]);
}

#[test]
fn what_is_no_plain_file_of_these_bytes_is_neither_read_nor_given_to_an_agent() {
    let (dir, files) = files();
    let about = about(b"hello");
    drop(files.put(id(1), &about, b"hello").unwrap());
    let object = files.object(about.sha256);
    let copied = |n: u32| files.copy(&about, &dir.path().join(n.to_string()));
    copied(0).unwrap();
    assert_eq!(fs::read(dir.path().join("0")).unwrap(), b"hello");
    fs::write(&object, "hallo").unwrap();
    assert!(matches!(copied(1), Err(StoreError::Damaged(_))));
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, "hello").unwrap();
    let link: fn(&Path, &Path) = |elsewhere, object| {
        std::os::unix::fs::symlink(elsewhere, object).unwrap();
    };
    let waits: fn(&Path, &Path) = |_, object| {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, object, kind, mode, 0).unwrap();
    };
    for (n, put) in [(2, link), (3, waits)] {
        fs::remove_file(&object).unwrap();
        put(&elsewhere, &object);
        assert!(matches!(copied(n), Err(StoreError::Damaged(_))));
        assert!(matches!(files.read(about.sha256, 0, 5), Err(StoreError::Damaged(_))));
        assert!(!files.has(&about).unwrap());
    }
    // The same bytes again take its place.
    drop(files.put(id(2), &about, b"hello").unwrap());
    assert_eq!(files.read(about.sha256, 0, 5).unwrap(), b"hello");
}

#[test]
fn an_upload_of_nothing_is_whole_and_private() {
    let (_dir, files) = files();
    let about = about(b"");
    let Whole::Yes(_held) = files.settle(id(1), &about).unwrap() else { panic!("not whole") };
    let mode = files.object(about.sha256).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
