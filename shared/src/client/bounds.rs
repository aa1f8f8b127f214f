//! Bounds of the engine alone, with their unit and their reason.

/// Sends that a client keeps open or unresolved; one more is refused locally. Far beyond what a
/// person leaves unresolved, and small enough to be journaled at once.
pub const DELIVERIES_MAX: usize = 256;
/// How long a send that lost its link waits for a new one before its retry counts as failed.
pub const LINK_WAIT_MS: u64 = 3_000;
/// How long one read of a reconciliation pass may take.
pub const PROOF_READ_TIMEOUT_MS: u64 = 5_000;
/// The same for the last pass of a send; here the time includes getting a link.
pub const FINAL_PASS_MS: u64 = 5_000;
/// How long a send waits for its row to be on disk, milliseconds: a disk that hangs must not hold a
/// prompt back for ever.
pub const JOURNAL_WAIT_MS: u64 = 3_000;
/// A prompt that a dead client never sent is sent by its heir up to this age, milliseconds.
pub const UNSENT_AGE_MAX_MS: u64 = 600_000;
/// A lease counts as lost this long before it would expire, milliseconds: a save that is sent then
/// could arrive too late.
pub const LEASE_MARGIN_MS: u64 = 2_000;
/// Renewals in the time that one lasts: every 20 s where a lease lasts 60 s.
pub(super) const LEASE_RENEWALS_PER_TTL: u64 = 3;
/// How often a save is sent over a link that lives but does not answer it.
pub const SAVE_ATTEMPTS_MAX: u32 = 3;
/// How often the end of a lease is asked for: it expires by itself as well.
pub(super) const END_ATTEMPTS_MAX: u32 = 3;
/// Uploads that are open at once: more than a message carries.
pub(super) const UPLOADS_MAX: usize = 16;
/// The first piece of an upload, bytes: half a second of a slow line.
pub(super) const PIECE_FIRST_BYTES: usize = 65_536;
/// The smallest piece, bytes.
pub(super) const PIECE_BYTES_MIN: usize = 4_096;
/// A piece that goes up in less makes the next one larger, milliseconds.
pub(super) const PIECE_FAST_MS: u64 = 1_000;
/// How often an upload goes back to less than the server had said that it has: a server that loses
/// bytes again and again gets no file.
pub(super) const SETBACKS_MAX: u32 = 8;
/// The wait before an upload goes on that the server could not serve, milliseconds.
pub(super) const UPLOAD_AGAIN_MS: u64 = 1_000;
/// Messages of the one page that a reconciliation pass reads.
pub(super) const PROOF_PAGE_MESSAGES: u32 = 100;
/// How long a connection may take to open, milliseconds. The same as a reply.
pub(super) const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// While a send has seconds to find a link again, the wait for the next attempt is no longer than the
/// one before this attempt: at most 500 ms. With the usual wait, a link that is back after two of the
/// three seconds of [`LINK_WAIT_MS`] would be found too late more often than not.
pub(super) const HURRIED_ATTEMPT: u32 = 2;
/// Content of all messages that a mirror keeps, bytes; the oldest go first.
pub const MIRROR_CONTENT_BYTES_MAX: usize = 67_108_864;
/// Requests left free for the engine itself (hello, subscriptions, pings, proof).
pub(super) const RESERVED_FOR_ENGINE: usize = 16;
/// The shortest and longest heartbeat that the engine takes from a server, milliseconds: no
/// server can make it spin or wait for ever.
pub(super) const HEARTBEAT_RANGE_MS: (u64, u64) = (1_000, 300_000);
/// The wait before a subscription that the server could not serve is asked for again.
pub(super) const SUBSCRIBE_AGAIN_MS: u64 = 1_000;
