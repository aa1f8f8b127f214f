-- Folding, send now, users with tokens and settings, and several servers over one database.

-- A removed user keeps the row: what it owned still names its owner. NULL in a setting: not saved.
ALTER TABLE users ADD COLUMN removed_at BIGINT;
ALTER TABLE users ADD COLUMN max_per_session BIGINT;
ALTER TABLE users ADD COLUMN merge_enabled BIGINT;
ALTER TABLE users ADD COLUMN auto_merge_enabled BIGINT;

-- Tokens are stored as their SHA-256 only.
CREATE TABLE user_tokens (
    key @KEY,
    user_key BIGINT NOT NULL REFERENCES users (key),
    digest @BYTES NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

-- Decided to be deleted: unknown to everybody from then on, purged when no turn is open any more.
ALTER TABLE tasks ADD COLUMN deleted_at BIGINT;
ALTER TABLE sessions ADD COLUMN deleted_at BIGINT;
CREATE INDEX tasks_deleted ON tasks (key) WHERE deleted_at IS NOT NULL;
CREATE INDEX sessions_deleted ON sessions (key) WHERE deleted_at IS NOT NULL;
-- What a purge looks for.
CREATE INDEX session_incarnations_by_session ON session_incarnations (session_key);
CREATE INDEX turns_by_session ON turns (session_key);

-- The last transaction that changed a session: one whose commit gave no answer is found again.
ALTER TABLE sessions ADD COLUMN operation @BYTES;

-- The task of the agent that sent an entry.
ALTER TABLE queue_entries ADD COLUMN sender_task @BYTES;
-- The entries of a turn are those that carry its id: one, or all that were sent together.
CREATE INDEX queue_entries_by_turn ON queue_entries (turn_id) WHERE turn_id IS NOT NULL;
ALTER TABLE turns DROP COLUMN entry_id;
-- The turn that begins when this one has ended.
ALTER TABLE turns ADD COLUMN replaced_by @BYTES;

-- The server that runs a turn, and until when it is sure to be alive unless it says so again.
ALTER TABLE turns ADD COLUMN node_id @BYTES;
CREATE TABLE nodes (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    expires_at BIGINT NOT NULL
);

-- The receipt of an admission that folded into a tail goes on from the receipt of the one before:
-- its content begins with that many bytes of the other's, and its provenance has one ID more. NULL:
-- it says all by itself.
ALTER TABLE queue_admission_receipts ADD COLUMN base_key BIGINT;
ALTER TABLE queue_admission_receipts ADD COLUMN base_bytes BIGINT;
