//! Who tidies beside others.

use futures_util::FutureExt as _;

use super::*;
use crate::domain::attachment::{ContentDigest, Described, Inline};
use usher_shared::vocabulary::{AttachmentKind, DeliveryMode};

fn inline(byte: u8) -> Inline {
    let about = Described {
        kind: AttachmentKind::Resource,
        name: "n".to_owned(),
        mime_type: "text/plain".to_owned(),
        size_bytes: 1,
        sha256: ContentDigest([byte; 32]),
    };
    let (id, data) = (AttachmentId::default(), Arc::from([byte]));
    Inline { id, about, data, delivery: DeliveryMode::Prompt }
}

#[tokio::test]
async fn whoever_tidies_forgets_nothing_that_was_held_while_another_one_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let bytes = AttachmentBytes::in_files(dir.path()).expect("an empty folder");
    let one = inline(7);
    let digest = one.about.sha256;
    // The first looks at the rows; then a row is committed, and a second begins.
    let first = bytes.begin_tidying().await.expect("a folder can be listed");
    drop(bytes.put(vec![one]).await.expect("a file can be written"));
    let second = bytes.begin_tidying();
    tokio::pin!(second);
    assert!(second.as_mut().now_or_never().is_none());
    let files = bytes.files.as_ref().expect("beside SQLite");
    files.remove_object(digest).expect("a file can be removed");
    assert_eq!(files.all_objects().expect("a folder can be listed"), [digest]);
    // It goes on when the first is done.
    drop(first);
    second.await.expect("a folder can be listed");
}
