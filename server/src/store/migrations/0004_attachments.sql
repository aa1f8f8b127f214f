-- What prompts carry beside their text.

-- Attachments, references, context files and plan comments of an entry, and of it as of acceptance.
-- A receipt that goes on from another one without saying anything here says what that one says.
ALTER TABLE queue_entries ADD COLUMN enclosed TEXT;
ALTER TABLE queue_admission_receipts ADD COLUMN enclosed TEXT;

-- Every attachment, from the first byte of an upload to the message that carries it. One that a prompt
-- claimed and that nothing carries any more is spent: deleted soon, claimed by nothing else.
CREATE TABLE attachments (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    sha256 @BYTES NOT NULL,
    stage TEXT NOT NULL,
    expires_at BIGINT,
    entry_key BIGINT REFERENCES queue_entries (key) ON DELETE SET NULL,
    message_key BIGINT
);
CREATE INDEX attachments_by_entry ON attachments (entry_key) WHERE entry_key IS NOT NULL;
CREATE INDEX attachments_by_session ON attachments (session_key);
CREATE INDEX attachments_by_content ON attachments (sha256);
CREATE INDEX attachments_waiting ON attachments (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX attachments_let_go ON attachments (key)
    WHERE stage = 'claimed' AND entry_key IS NULL AND message_key IS NULL;

-- Their bytes, where the database keeps them.
CREATE TABLE attachment_parts (
    attachment_key BIGINT NOT NULL REFERENCES attachments (key) ON DELETE CASCADE,
    start_byte BIGINT NOT NULL,
    data @BYTES NOT NULL,
    PRIMARY KEY (attachment_key, start_byte)
);
