-- Edit leases.

-- The row of an entry that was ever edited stays as long as the entry, so that its generation only
-- grows. Without a lease id nobody edits; without a link the editor's connection is gone. Instants
-- are those of a clock that nobody can set: of the machine since it started, or of the shared
-- database.
CREATE TABLE edit_leases (
    entry_key BIGINT PRIMARY KEY REFERENCES queue_entries (key) ON DELETE CASCADE,
    session_key BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    lease_id @BYTES,
    link_id @BYTES,
    node_id @BYTES,
    target_revision BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL,
    saved BIGINT NOT NULL
);
CREATE INDEX edit_leases_live ON edit_leases (session_key) WHERE lease_id IS NOT NULL;

-- What was saved under the lease of an entry: an operation is done once.
CREATE TABLE edit_operations (
    entry_key BIGINT NOT NULL REFERENCES queue_entries (key) ON DELETE CASCADE,
    operation_id TEXT NOT NULL,
    fingerprint @BYTES NOT NULL,
    revision BIGINT NOT NULL,
    PRIMARY KEY (entry_key, operation_id)
);
