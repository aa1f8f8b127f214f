-- Plans and the comments on them.

-- The plan that the session's agent published last; its steps as JSON.
CREATE TABLE plans (
    session_key BIGINT PRIMARY KEY,
    id @BYTES NOT NULL,
    entries TEXT NOT NULL
);

-- A comment that an admission took along names the entry that it became, and never changes any more.
-- Without an incarnation it is of no plan here: its entry came from another session.
CREATE TABLE plan_comments (
    key @KEY,
    id @BYTES NOT NULL UNIQUE,
    session_key BIGINT NOT NULL,
    incarnation_key BIGINT,
    version BIGINT NOT NULL,
    entry_index BIGINT,
    entry_text TEXT,
    selected_text TEXT,
    body TEXT NOT NULL,
    consumed_by @BYTES
);
CREATE INDEX plan_comments_waiting ON plan_comments (session_key) WHERE consumed_by IS NULL;
CREATE INDEX plan_comments_consumed ON plan_comments (session_key, incarnation_key, key)
    WHERE consumed_by IS NOT NULL;
CREATE INDEX plan_comments_by_entry ON plan_comments (consumed_by) WHERE consumed_by IS NOT NULL;
