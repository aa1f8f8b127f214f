-- The queue, its receipts, turns and transcripts.
--
-- @KEY is an integer key that the database hands out, @BYTES a byte string: the two words that
-- SQLite and PostgreSQL spell differently. Rows name each other by integer keys, so that the hot
-- tables and their indexes stay small; ids of the wire are 16 bytes.

CREATE TABLE users (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE tasks (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    owner_key BIGINT NOT NULL REFERENCES users (key),
    title TEXT NOT NULL,
    kind TEXT NOT NULL,
    workspace_dir TEXT,
    agent TEXT NOT NULL,
    archived BIGINT NOT NULL DEFAULT 0,
    client_request_id TEXT,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX tasks_by_request ON tasks (owner_key, client_request_id)
    WHERE client_request_id IS NOT NULL;

CREATE TABLE sessions (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    task_key BIGINT NOT NULL REFERENCES tasks (key),
    incarnation_key BIGINT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    mode TEXT,
    title TEXT NOT NULL,
    client_request_id TEXT,
    created_at BIGINT NOT NULL,
    last_seq BIGINT NOT NULL DEFAULT 0,
    queue_revision BIGINT NOT NULL DEFAULT 0,
    queue_stored BIGINT NOT NULL DEFAULT 0,
    next_position BIGINT NOT NULL DEFAULT 1,
    auto_run_off TEXT
);
CREATE INDEX sessions_by_task ON sessions (task_key);
CREATE UNIQUE INDEX sessions_by_request ON sessions (task_key, client_request_id)
    WHERE client_request_id IS NOT NULL;
-- What the dispatcher's regular pass looks at.
CREATE INDEX sessions_waiting ON sessions (key) WHERE queue_stored > 0 AND auto_run_off IS NULL;

CREATE TABLE session_incarnations (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL
);

-- A reserved entry has a turn; a removed one has an undo id and can still be restored.
CREATE TABLE queue_entries (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL,
    position BIGINT NOT NULL,
    content TEXT NOT NULL,
    model TEXT,
    plan_mode BIGINT NOT NULL,
    provenance TEXT,
    queued_at BIGINT NOT NULL,
    sender_kind TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    turn_id @BYTES,
    undo_id @BYTES,
    removed_at BIGINT
);
CREATE UNIQUE INDEX queue_entries_in_order ON queue_entries (session_key, position)
    WHERE undo_id IS NULL;
CREATE INDEX queue_entries_removed ON queue_entries (removed_at) WHERE undo_id IS NOT NULL;
CREATE INDEX queue_entries_by_undo ON queue_entries (undo_id) WHERE undo_id IS NOT NULL;

-- The snapshot is stored as fields and rendered again on replay. The sender of an identified
-- admission is the session's owner under the name of that time.
CREATE TABLE queue_admission_receipts (
    key @KEY,
    incarnation_key BIGINT NOT NULL,
    client_queue_id TEXT NOT NULL,
    fingerprint @BYTES NOT NULL,
    entry_id @BYTES NOT NULL,
    outcome TEXT NOT NULL,
    queue_revision BIGINT NOT NULL,
    position BIGINT NOT NULL,
    content TEXT NOT NULL,
    content_truncated BIGINT NOT NULL,
    model TEXT,
    plan_mode BIGINT NOT NULL,
    provenance TEXT,
    accepted_at BIGINT NOT NULL,
    sender_kind TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    entry_revision BIGINT NOT NULL
);
CREATE UNIQUE INDEX queue_admission_receipts_once
    ON queue_admission_receipts (incarnation_key, client_queue_id);

CREATE TABLE turns (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL,
    stage TEXT NOT NULL,
    stop_asked BIGINT NOT NULL,
    entry_id @BYTES,
    message_id @BYTES,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    outcome TEXT,
    reason TEXT
);
-- Never two open turns of one session, whatever the code does.
CREATE UNIQUE INDEX turns_open ON turns (session_key) WHERE ended_at IS NULL;

CREATE TABLE messages (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL,
    incarnation_key BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    turn_id @BYTES,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    content_bytes BIGINT NOT NULL,
    status TEXT NOT NULL,
    details TEXT,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX messages_in_order ON messages (session_key, seq);
CREATE INDEX messages_by_turn ON messages (turn_id) WHERE turn_id IS NOT NULL;

-- What a message has beyond its first 32 KiB, so that appending to a long one stays cheap.
CREATE TABLE message_parts (
    message_key BIGINT NOT NULL,
    start_byte BIGINT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (message_key, start_byte)
);
