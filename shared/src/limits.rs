//! Every bound of the protocol and of the client, with its unit and its reason.
//!
//! A server may lower some of them and says so in `hello`; none is ever raised.

use serde::{Deserialize, Serialize};

/// One WebSocket frame, bytes. Holds the largest content even when every byte is escaped as
/// `\u0001` (6 x 262,144) beside 10 MiB of inline attachments in base64.
pub const FRAME_BYTES_MAX: usize = 16_777_216;
/// The text of one prompt, bytes of UTF-8. Far beyond what is typed; pastes of logs fit.
pub const CONTENT_BYTES_MAX: usize = 262_144;
/// An admission ID, bytes. Holds a UUID with a prefix of the client's choosing.
pub const CLIENT_QUEUE_ID_BYTES_MAX: usize = 128;
/// Admission IDs of one entry: bounds how much one entry can fold.
pub const ADMISSION_IDS_MAX: usize = 256;
/// Attachments of one message.
pub const ATTACHMENTS_MAX: usize = 10;
/// Sum of the attachments of one message, bytes.
pub const ATTACHMENT_BYTES_MAX: usize = 104_857_600;
/// Sum of the inline attachments of one message, decoded bytes.
pub const INLINE_BYTES_MAX: usize = 10_485_760;
/// One chunk of an upload, decoded bytes: a slow link still answers within the reply timeout.
pub const APPEND_BYTES_MAX: usize = 524_288;
/// How long an upload stays that nothing claims, milliseconds: a day.
pub const STAGED_TTL_MS: u64 = 86_400_000;
/// Uploads of one user that nothing claimed.
pub const STAGED_MAX: u64 = 1_000;
/// Their announced sizes together, bytes: a hundred messages as large as they may be.
pub const STAGED_BYTES_MAX: u64 = 100 * ATTACHMENT_BYTES_MAX as u64;
/// Entity references of one message.
pub const REFERENCES_MAX: usize = 100;
/// Context files of one message.
pub const CONTEXT_FILES_MAX: usize = 200;
/// Steps of one plan: more than anybody reads. Those beyond are left out of the session's plan, not of
/// the transcript.
pub const PLAN_ENTRIES_MAX: usize = 100;
/// The text of one step of a plan, bytes: some paragraphs. What is longer is cut there.
pub const PLAN_ENTRY_BYTES_MAX: usize = 2_048;
/// Comments of one session that wait to be sent: one for each step of the longest plan.
pub const PLAN_COMMENTS_MAX: usize = 100;
/// The newest consumed comments that are shown beside those that wait.
pub const CONSUMED_COMMENTS_SHOWN_MAX: usize = 50;
/// The body of a plan comment, bytes: a long mail. With all its comments a plan fits into a frame.
pub const COMMENT_BODY_BYTES_MAX: usize = 8_192;
/// The text that a plan comment quotes, bytes: twice the longest step.
pub const SELECTED_TEXT_BYTES_MAX: usize = 4_096;
// A byte takes at most six as JSON; what is around the texts, some hundred each.
const _: () = assert!(
    PLAN_ENTRIES_MAX * (6 * PLAN_ENTRY_BYTES_MAX + 128)
        + (PLAN_COMMENTS_MAX + CONSUMED_COMMENTS_SHOWN_MAX)
            * (6 * (COMMENT_BODY_BYTES_MAX + SELECTED_TEXT_BYTES_MAX) + 256)
        + 4_096
        <= FRAME_BYTES_MAX
);
/// Stored entries of one session, whatever cap its user chose.
pub const ENTRIES_MAX: usize = 1_000;
/// Requests of one connection that are not answered yet.
pub const IN_FLIGHT_MAX: usize = 64;
/// How long an edit lease lives without a renewal, milliseconds.
pub const LEASE_TTL_MS: u64 = 60_000;
/// Saves that one edit lease remembers. Whoever saves more often begins another lease.
pub const EDIT_OPERATIONS_MAX: usize = 1_000;
/// How long one edit lease may be held with renewals, milliseconds.
pub const LEASE_HOLD_MS: u64 = 3_600_000;
/// One status frame, bytes; later entries of a longer queue are stubs.
pub const STATUS_BYTES_MAX: usize = 4_194_304;
/// Content of one message in lists, bytes; `transcript.read` gives all of it.
pub const MESSAGE_CONTENT_BYTES_MAX: usize = 262_144;
/// A receipt's snapshot, bytes: a receipt lives as long as its session.
pub const SNAPSHOT_BYTES_MAX: usize = 65_536;
/// What an entry has beside its text and the bytes of its attachments, bytes: admission IDs, names of
/// attachments, references, context files. Each receipt repeats it, so it is what one may hold.
pub const METADATA_BYTES_MAX: usize = SNAPSHOT_BYTES_MAX;
/// The id of an entity reference, bytes.
pub const REFERENCE_ID_BYTES_MAX: usize = 512;
/// The name of an attachment, bytes: the usual NAME_MAX, because an agent sees a file of that name.
pub const ATTACHMENT_NAME_BYTES_MAX: usize = 255;
/// A MIME type, bytes: two names of at most 127 (RFC 6838, section 4.2) and a slash.
pub const MIME_TYPE_BYTES_MAX: usize = 255;
/// Messages of one transcript page.
pub const PAGE_MESSAGES_MAX: u32 = 200;
/// Messages of a page when the request names no limit.
pub const PAGE_MESSAGES_DEFAULT: u32 = 100;
/// Tasks or sessions of one answer, the newest ones: nobody looks through more, and all of them
/// would not fit into a frame.
pub const LISTED_MAX: u32 = 1_000;
/// The same as JSON, bytes: half a frame. Titles, models and directories can take 40 KiB each.
pub const LISTED_BYTES_MAX: usize = 8_388_608;
/// Hits of one search.
pub const SEARCH_HITS_MAX: u32 = 100;
/// Hits of a search when the request names no limit.
pub const SEARCH_HITS_DEFAULT: u32 = 20;
/// Text that one search looks at, bytes: older messages are out of its reach.
pub const SEARCH_BYTES_MAX: u64 = 67_108_864;
/// The text around a match, bytes.
pub const SNIPPET_BYTES_MAX: usize = 200;
/// Bytes of one `transcript.read` answer.
pub const READ_BYTES_MAX: u64 = 524_288;
/// A request id, bytes.
pub const REQUEST_ID_BYTES_MAX: usize = 64;
/// The name of an action that an error repeats, bytes; none of ours is longer.
pub const ACTION_BYTES_MAX: usize = 64;
/// Titles and names of models and agents, bytes.
pub const NAME_BYTES_MAX: usize = 1_024;
/// A directory, bytes: the usual PATH_MAX.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Frames that are no valid request before a connection is closed.
pub const BAD_FRAMES_MAX: u32 = 10;
/// Queue capacity when nobody chose one.
pub const QUEUE_CAP_DEFAULT: u32 = 10;
/// Connections of one user unless configured otherwise: an idle one takes some 12 KB, and a fleet of
/// scripts may act for one user.
pub const LINKS_PER_USER_MAX: usize = 16_384;
/// Connections of all users together unless configured otherwise.
pub const LINKS_MAX: usize = 32_768;
/// Sessions that one connection watches: more than a screen shows, and each keeps its newest events.
pub const SUBSCRIPTIONS_MAX: usize = 256;
/// The interval of the server's pings, milliseconds. Silence of 2.5 of them drops a link.
pub const HEARTBEAT_MS: u64 = 15_000;

/// The client waits this long for a reply before it counts as lost, milliseconds.
pub const REPLY_TIMEOUT_MS: u64 = 10_000;
/// The same with attachments, milliseconds.
pub const REPLY_TIMEOUT_ATTACHMENTS_MS: u64 = 30_000;
/// The first wait before a reconnect, milliseconds; doubles up to [`BACKOFF_LONGEST_MS`].
pub const BACKOFF_FIRST_MS: u64 = 250;
/// The longest wait before a reconnect, milliseconds.
pub const BACKOFF_LONGEST_MS: u64 = 30_000;
/// A link that lived this long was healthy: the next reconnect is quick again, milliseconds.
pub const HEALTHY_MS: u64 = 60_000;
/// Messages the client keeps of one transcript; older ones are paged in again.
pub const MIRROR_MESSAGES_MAX: usize = 100_000;

/// The bounds in force, as `hello` answers them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// See [`FRAME_BYTES_MAX`].
    pub frame_bytes_max: u64,
    /// See [`CONTENT_BYTES_MAX`].
    pub content_bytes_max: u64,
    /// See [`CLIENT_QUEUE_ID_BYTES_MAX`].
    pub client_queue_id_bytes_max: u64,
    /// See [`ADMISSION_IDS_MAX`].
    pub admission_ids_max: u64,
    /// See [`ATTACHMENTS_MAX`].
    pub attachments_max: u64,
    /// See [`ATTACHMENT_BYTES_MAX`].
    pub attachment_bytes_max: u64,
    /// See [`INLINE_BYTES_MAX`].
    pub inline_bytes_max: u64,
    /// See [`APPEND_BYTES_MAX`].
    pub append_bytes_max: u64,
    /// See [`REFERENCES_MAX`].
    pub references_max: u64,
    /// See [`CONTEXT_FILES_MAX`].
    pub context_files_max: u64,
    /// See [`ENTRIES_MAX`].
    pub entries_max: u64,
    /// See [`METADATA_BYTES_MAX`]. Older servers do not say it.
    #[serde(default)]
    pub metadata_bytes_max: u64,
    /// See [`IN_FLIGHT_MAX`].
    pub in_flight_max: u64,
    /// See [`LEASE_TTL_MS`].
    pub lease_ttl_ms: u64,
    /// See [`STATUS_BYTES_MAX`].
    pub status_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: FRAME_BYTES_MAX as u64,
            content_bytes_max: CONTENT_BYTES_MAX as u64,
            client_queue_id_bytes_max: CLIENT_QUEUE_ID_BYTES_MAX as u64,
            admission_ids_max: ADMISSION_IDS_MAX as u64,
            attachments_max: ATTACHMENTS_MAX as u64,
            attachment_bytes_max: ATTACHMENT_BYTES_MAX as u64,
            inline_bytes_max: INLINE_BYTES_MAX as u64,
            append_bytes_max: APPEND_BYTES_MAX as u64,
            references_max: REFERENCES_MAX as u64,
            context_files_max: CONTEXT_FILES_MAX as u64,
            entries_max: ENTRIES_MAX as u64,
            metadata_bytes_max: METADATA_BYTES_MAX as u64,
            in_flight_max: IN_FLIGHT_MAX as u64,
            lease_ttl_ms: LEASE_TTL_MS,
            status_bytes_max: STATUS_BYTES_MAX as u64,
        }
    }
}
