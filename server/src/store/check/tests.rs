//! Every invariant holds for a database with a row of every kind, and is the one that finds the
//! damage done to it.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::attachments::object_path;
use super::super::sqlite::{Sqlite, open_writer};
use super::super::{StoreFiles, Sync};
use super::*;
use crate::domain::attachment::ContentDigest;

/// A session at rest (key 1), one whose agent answers while a send now waits (2), one whose head
/// is reserved (3), in tasks 1 and 2. Ids are the table's letter and the key.
const SOUND: &str = "
INSERT INTO users (key, id, name) VALUES (1, 'u1--------------', 'anna');
INSERT INTO user_tokens (key, user_key, digest, created_at) VALUES (1, 1, zeroblob(32), 0);
INSERT INTO nodes (key, id, expires_at) VALUES (1, 'n1--------------', 9);
INSERT INTO tasks (key, id, owner_key, title, kind, agent, client_request_id, created_at) VALUES
 (1, 't1--------------', 1, 't', 'task', 'demo', 'r1', 0),
 (2, 't2--------------', 1, 't', 'quick', 'demo', NULL, 0);
INSERT INTO session_incarnations (key, id, session_key) VALUES
 (1, 'i1--------------', 1), (2, 'i2--------------', 2), (3, 'i3--------------', 3),
 (4, 'i4--------------', 1);
INSERT INTO sessions (key, id, task_key, incarnation_key, agent, title, client_request_id,
  created_at, last_seq, queue_revision, queue_stored, next_position, auto_run_off) VALUES
 (1, 's1--------------', 1, 4, 'demo', 't', 'r1', 0, 3, 9, 4, 9, 'user'),
 (2, 's2--------------', 1, 2, 'demo', 't', NULL, 0, 2, 9, 1, 9, NULL),
 (3, 's3--------------', 2, 3, 'demo', 't', NULL, 0, 0, 9, 1, 9, NULL);
INSERT INTO queue_entries (key, id, session_key, position, content, plan_mode, provenance,
  queued_at, sender_kind, sender_id, sender_name, revision, turn_id, undo_id, removed_at) VALUES
 (1, 'e1--------------', 1, 5, 'x', 0, '{\"ids\":[\"k1\",\"k2\"]}', 0, 'user', 'u', 'anna', 2,
  NULL, NULL, NULL),
 (2, 'e2--------------', 1, 6, 'x', 0, '{\"past\":[\"k1\"]}', 0, 'user', 'u', 'anna', 1,
  NULL, NULL, NULL),
 (3, 'e3--------------', 1, 6, 'x', 1, '{\"ids\":[\"k3\"]}', 0, 'user', 'u', 'anna', 1,
  NULL, 'd1--------------', 7),
 (4, 'e4--------------', 2, 1, 'x', 0, NULL, 0, 'agent', 'a', 'demo', 1,
  'o5--------------', NULL, NULL),
 (5, 'e5--------------', 3, 1, 'x', 0, '{\"ids\":[\"k1\"]}', 0, 'user', 'u', 'anna', 1,
  'o3--------------', NULL, NULL),
 (6, 'e6--------------', 1, 7, 'x', 0, NULL, 0, 'user', 'u', 'anna', 2, NULL, NULL, NULL),
 (7, 'e7--------------', 1, 8, 'x', 0, NULL, 0, 'user', 'u', 'anna', 1, NULL, NULL, NULL);
INSERT INTO queue_admission_receipts (key, incarnation_key, client_queue_id, fingerprint, entry_id,
  outcome, queue_revision, position, content, content_truncated, plan_mode, provenance,
  accepted_at, sender_kind, sender_id, sender_name, entry_revision, base_key, base_bytes) VALUES
 (1, 1, 'k1', zeroblob(32), 'e0--------------', 'admitted', 1, 1, 'x', 0, 0, NULL, 0, 'user',
  'u', 'anna', 1, NULL, NULL),
 (2, 4, 'k1', zeroblob(32), 'e1--------------', 'admitted', 2, 5, 'x', 0, 0, NULL, 0, 'user',
  'u', 'anna', 1, NULL, NULL),
 (3, 4, 'k2', zeroblob(32), 'e1--------------', 'folded', 3, 5, 'x', 0, 0,
  '{\"ids\":[\"k1\",\"k2\"]}', 0, 'user', 'u', 'anna', 2, NULL, NULL),
 (4, 4, 'k3', zeroblob(32), 'e3--------------', 'admitted', 4, 6,
  CAST(zeroblob(65535) AS TEXT), 1, 1, NULL, 0, 'user', 'u', 'anna', 1, NULL, NULL),
 (5, 3, 'k1', zeroblob(32), 'e5--------------', 'admitted', 4, 1, 'x', 0, 0, NULL, 0, 'user',
  'u', 'anna', 1, NULL, NULL),
 (6, 4, 'k4', zeroblob(32), 'e9--------------', 'admitted', 4, 6, 'x', 0, 0, NULL, 0, 'user',
  'u', 'anna', 1, NULL, NULL),
 (7, 4, 'k5', zeroblob(32), 'e1--------------', 'folded', 3, 5, 'yz', 0, 0, NULL, 0, 'user',
  'u', 'anna', 2, 2, 1);
INSERT INTO turns (key, id, session_key, stage, stop_asked, message_id, started_at, ended_at,
  outcome, reason, replaced_by) VALUES
 (1, 'o1--------------', 1, 'running', 0, 'm1--------------', 0, 1, 'failed', 'error', NULL),
 (2, 'o2--------------', 2, 'running', 1, 'm4--------------', 0, NULL, NULL, NULL,
  'o5--------------'),
 (3, 'o3--------------', 3, 'reserved', 0, NULL, 0, NULL, NULL, NULL, NULL);
INSERT INTO messages (key, id, session_key, incarnation_key, seq, turn_id, role, content,
  content_bytes, status, details, created_at) VALUES
 (1, 'm1--------------', 1, 1, 1, 'o1--------------', 'user', 'x', 1, 'failed',
  '{\"ids\":[\"k1\"],\"sender\":\"anna\",\"resolution\":\"drop\"}', 0),
 (2, 'm2--------------', 1, 1, 2, 'o1--------------', 'agent', 'abc', 12, 'failed', NULL, 0),
 (3, 'm3--------------', 1, 4, 3, NULL, 'user', 'x', 1, 'complete', '{\"ids\":[\"k4\"]}', 0),
 (4, 'm4--------------', 2, 2, 1, 'o2--------------', 'user', 'x', 1, 'complete', NULL, 0),
 (5, 'm5--------------', 2, 2, 2, 'o2--------------', 'agent', '', 0, 'streaming', NULL, 0);
INSERT INTO edit_leases (entry_key, session_key, generation, lease_id, link_id, node_id,
  target_revision, expires_at, ends_at, saved) VALUES
 (6, 1, 3, 'l1--------------', 'c1--------------', 'n1--------------', 1, 5, 9, 1),
 (7, 1, 1, 'l2--------------', NULL, NULL, 1, 5, 9, 0),
 (4, 2, 1, NULL, NULL, NULL, 1, 5, 9, 0);
INSERT INTO attachments (key, id, session_key, kind, name, mime_type, size_bytes, sha256, stage,
  expires_at, entry_key, message_key) VALUES
 (1, 'a1--------------', 1, 'image', 'a', 'a/b', 5,
  x'5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5', 'receiving', 9, NULL, NULL),
 (2, CAST('22222222-2222-22' AS BLOB), 1, 'image', 'a', 'a/b', 5,
  x'5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5', 'claimed', NULL, 6, NULL),
 (3, CAST('33333333-3333-33' AS BLOB), 2, 'image', 'a', 'a/b', 5,
  x'5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5', 'claimed', NULL, NULL, 4),
 (4, 'a4--------------', 2, 'image', 'a', 'a/b', 5,
  x'5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5', 'claimed', NULL, NULL, NULL);
UPDATE queue_entries SET enclosed = '{\"attachments\":[{\"id\":\"32323232-3232-3232-2d32-3232322d3232\",
  \"kind\":\"image\",\"name\":\"a\",\"mime_type\":\"a/b\",\"size_bytes\":5,\"delivery\":\"prompt\"}]}'
  WHERE key = 6;
UPDATE messages SET details = '{\"attachments\":[{\"id\":\"33333333-3333-3333-2d33-3333332d3333\",\"kind\":\"image\",\"name\":\"a\",
  \"mime_type\":\"a/b\",\"size_bytes\":5,\"delivery\":\"prompt\"}]}' WHERE key = 4;
INSERT INTO edit_operations (entry_key, operation_id, fingerprint, revision) VALUES
 (6, 'w1', zeroblob(32), 2);
INSERT INTO message_parts (message_key, start_byte, content) VALUES (2, 3, 'defg'), (2, 7, 'hijkl');
INSERT INTO plans (session_key, id, entries) VALUES
 (1, 'p1--------------', '[{\"text\":\"A\",\"status\":\"pending\"}]');
INSERT INTO plan_comments (key, id, session_key, incarnation_key, version, entry_index, entry_text,
  selected_text, body, consumed_by) VALUES
 (1, 'aaaaaaaaaaaaaaaa', 1, 4, 1, 0, 'A', 'A', 'x', NULL),
 (2, x'62626262626262626262626262626262', 1, 4, 2, NULL, NULL, NULL, 'x', 'e1--------------'),
 (3, x'63636363636363636363636363636363', 1, 4, 1, NULL, NULL, NULL, 'x', 'e9--------------'),
 (4, 'dddddddddddddddd', 2, NULL, 1, NULL, NULL, NULL, 'x', 'e8--------------');
UPDATE queue_entries SET enclosed =
  '{\"comments\":[{\"id\":\"62626262-6262-6262-6262-626262626262\",\"version\":2}]}' WHERE key = 1;
UPDATE messages SET details = '{\"ids\":[\"k4\"],\"comments\":
  [{\"id\":\"63636363-6363-6363-6363-636363636363\",\"version\":1}]}' WHERE key = 3;
";

/// SHA-256 of "12345", which the attachments above are.
const DIGEST: &str = "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5";

/// What is done to the sound database, and the one invariant that it breaks, in which rows.
const DAMAGES: &[(&str, &[i64], &str)] = &[
    (
        "sqlite_references",
        &[1],
        "DELETE FROM users; INSERT INTO users (key, id, name) \
      VALUES (2, 'u2--------------', 'otto'); UPDATE tasks SET owner_key = 2;",
    ),
    ("user_ids", &[1], "UPDATE users SET id = x'00'"),
    ("user_token_digests", &[1], "UPDATE user_tokens SET digest = zeroblob(31)"),
    ("task_ids", &[2], "UPDATE tasks SET id = x'00' WHERE key = 2"),
    ("session_ids", &[3], "UPDATE sessions SET operation = x'00' WHERE key = 3"),
    ("incarnation_ids", &[1], "UPDATE session_incarnations SET id = x'00' WHERE key = 1"),
    ("entry_ids", &[1], "UPDATE queue_entries SET sender_task = x'00' WHERE key = 1"),
    ("receipt_ids", &[1], "UPDATE queue_admission_receipts SET fingerprint = x'00' WHERE key = 1"),
    ("receipt_ids", &[5], "UPDATE queue_admission_receipts SET entry_id = x'00' WHERE key = 5"),
    (
        "receipt_ids",
        &[1],
        "UPDATE queue_admission_receipts SET client_queue_id = ' ' WHERE key = 1",
    ),
    ("turn_ids", &[1], "UPDATE turns SET node_id = x'00' WHERE key = 1"),
    ("message_ids", &[2], "UPDATE messages SET id = x'00' WHERE key = 2"),
    ("node_ids", &[1], "UPDATE nodes SET id = x'00'"),
    ("lease_ids", &[6], "UPDATE edit_leases SET link_id = x'00' WHERE entry_key = 6"),
    ("lease_ids", &[4], "UPDATE edit_leases SET generation = 0 WHERE entry_key = 4"),
    ("lease_entry", &[7], "UPDATE edit_leases SET session_key = 2 WHERE entry_key = 7"),
    ("lease_entry", &[4], "UPDATE edit_leases SET lease_id = zeroblob(16) WHERE entry_key = 4"),
    ("lease_holder", &[7], "UPDATE edit_leases SET node_id = zeroblob(16) WHERE entry_key = 7"),
    ("lease_holder", &[6], "UPDATE edit_leases SET ends_at = 4 WHERE entry_key = 6"),
    ("edit_operation", &[6], "UPDATE edit_leases SET saved = 0 WHERE entry_key = 6"),
    ("edit_operation", &[6], "UPDATE edit_operations SET revision = 3"),
    ("attachment_ids", &[1], "UPDATE attachments SET sha256 = x'00' WHERE key = 1"),
    ("attachment_ids", &[4], "UPDATE attachments SET kind = 'film' WHERE key = 4"),
    ("attachment_owner", &[4], "UPDATE attachments SET expires_at = 7 WHERE key = 4"),
    ("attachment_owner", &[1], "UPDATE attachments SET stage = 'claimed' WHERE key = 1"),
    ("attachment_session", &[4], "UPDATE attachments SET session_key = 99 WHERE key = 4"),
    ("entry_attachments", &[6], "UPDATE attachments SET entry_key = NULL WHERE key = 2"),
    ("entry_attachments", &[6], "UPDATE queue_entries SET enclosed = '{}' WHERE key = 6"),
    (
        "attachment_parts",
        &[3],
        "INSERT INTO attachment_parts (attachment_key, start_byte, data) VALUES (3, 0, x'00')",
    ),
    ("message_attachments", &[4], "DELETE FROM attachments WHERE key = 3"),
    ("task_kinds", &[1], "UPDATE tasks SET kind = 'chore' WHERE key = 1"),
    ("auto_run_reasons", &[1], "UPDATE sessions SET auto_run_off = 'because' WHERE key = 1"),
    ("entry_senders", &[1, 2, 3], "UPDATE queue_entries SET sender_kind = 'x' WHERE key < 4"),
    ("receipt_senders", &[1, 2, 3, 4, 5], "UPDATE queue_admission_receipts SET sender_kind = ''"),
    (
        "receipt_outcomes",
        &[2],
        "UPDATE queue_admission_receipts SET outcome = 'replayed' \
      WHERE key = 2",
    ),
    ("turn_stages", &[1], "UPDATE turns SET stage = 'over' WHERE key = 1"),
    ("turn_outcomes", &[1], "UPDATE turns SET outcome = 'good' WHERE key = 1"),
    ("turn_reasons", &[1], "UPDATE turns SET reason = 'none' WHERE key = 1"),
    ("message_roles", &[2], "UPDATE messages SET role = 'robot' WHERE key = 2"),
    ("message_statuses", &[2], "UPDATE messages SET status = 'done' WHERE key = 2"),
    ("task_archived", &[1], "UPDATE tasks SET archived = 2 WHERE key = 1"),
    ("user_settings", &[1], "UPDATE users SET max_per_session = 1001"),
    ("user_settings", &[1], "UPDATE users SET auto_merge_enabled = 2, max_per_session = 0"),
    (
        "task_made_once",
        &[2],
        "DROP INDEX tasks_by_request; \
      UPDATE tasks SET client_request_id = 'r1'",
    ),
    (
        "session_made_once",
        &[2],
        "DROP INDEX sessions_by_request; \
      UPDATE sessions SET client_request_id = 'r1' WHERE key = 2",
    ),
    (
        "session_incarnation",
        &[3],
        "UPDATE queue_admission_receipts SET incarnation_key = 2 \
      WHERE key = 5; UPDATE sessions SET incarnation_key = 2 WHERE key = 3",
    ),
    (
        "incarnation_session",
        &[5],
        "INSERT INTO session_incarnations (key, id, session_key) \
      VALUES (5, 'i5--------------', 0)",
    ),
    ("queue_count", &[1], "UPDATE sessions SET queue_stored = 3 WHERE key = 1"),
    (
        "queue_bound",
        &[1],
        "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n \
      WHERE i < 1096) INSERT INTO queue_entries (id, session_key, position, content, plan_mode, \
      queued_at, sender_kind, sender_id, sender_name, revision) SELECT randomblob(16), 1, i, 'x', \
      0, 0, 'user', 'u', 'anna', 1 FROM n; \
      UPDATE sessions SET queue_stored = 1001, next_position = 2000 WHERE key = 1",
    ),
    ("entry_session", &[3], "UPDATE queue_entries SET session_key = 9 WHERE key = 3"),
    ("entry_position", &[1], "UPDATE queue_entries SET position = 9 WHERE key = 1"),
    ("entry_position", &[1], "UPDATE queue_entries SET position = 0 WHERE key = 1"),
    (
        "entry_order",
        &[2],
        "DROP INDEX queue_entries_in_order; \
      UPDATE queue_entries SET position = 5 WHERE key = 2",
    ),
    ("entry_values", &[1], "UPDATE queue_entries SET revision = 0 WHERE key = 1"),
    ("entry_values", &[1], "UPDATE queue_entries SET plan_mode = 2 WHERE key = 1"),
    (
        "entry_values",
        &[1],
        "UPDATE queue_entries SET content = CAST(zeroblob(262145) AS TEXT) \
      WHERE key = 1",
    ),
    // Of a turn that is over, of one of another session, of none.
    (
        "entry_reservation",
        &[1],
        "UPDATE queue_entries SET turn_id = 'o1--------------' \
      WHERE key = 1",
    ),
    (
        "entry_reservation",
        &[1],
        "UPDATE queue_entries SET turn_id = 'o3--------------' \
      WHERE key = 1",
    ),
    (
        "entry_reservation",
        &[1],
        "UPDATE queue_entries SET turn_id = 'o9--------------' \
      WHERE key = 1",
    ),
    ("entry_removal", &[3], "UPDATE queue_entries SET removed_at = NULL WHERE key = 3"),
    ("entry_removal", &[1], "UPDATE queue_entries SET removed_at = 7 WHERE key = 1"),
    ("entry_removal", &[3], "UPDATE queue_entries SET turn_id = 'o1--------------' WHERE key = 3"),
    ("entry_provenance", &[2], "UPDATE queue_entries SET provenance = '{' WHERE key = 2"),
    ("entry_receipts", &[1], "DELETE FROM queue_admission_receipts WHERE key = 3"),
    ("admission_once", &[1], "UPDATE messages SET details = '{\"ids\":[\"k1\"]}' WHERE key = 3"),
    (
        "admission_once",
        &[1],
        "UPDATE queue_entries SET provenance = '{\"ids\":[\"k2\"]}' \
      WHERE key = 2",
    ),
    ("plan_session", &[9], "UPDATE plans SET session_key = 9"),
    ("plan_session", &[1], "UPDATE plans SET id = x'00'"),
    ("plan_entries", &[1], "UPDATE plans SET entries = '[{\"text\":\"A\"}]'"),
    (
        "plan_entries",
        &[1],
        "UPDATE plans SET entries = '[{\"text\":\"' || \
      replace(hex(zeroblob(1025)), '00', 'xx') || '\",\"status\":\"pending\"}]'",
    ),
    ("comment_ids", &[1], "UPDATE plan_comments SET id = x'00' WHERE key = 1"),
    ("comment_session", &[1], "UPDATE plan_comments SET session_key = 9 WHERE key = 1"),
    ("comment_session", &[1], "UPDATE plan_comments SET incarnation_key = 1 WHERE key = 1"),
    ("comment_session", &[1], "UPDATE plan_comments SET incarnation_key = NULL WHERE key = 1"),
    ("comment_values", &[1], "UPDATE plan_comments SET version = 0 WHERE key = 1"),
    ("comment_values", &[1], "UPDATE plan_comments SET entry_index = NULL WHERE key = 1"),
    ("comment_values", &[1], "UPDATE plan_comments SET entry_index = 100 WHERE key = 1"),
    (
        "comment_values",
        &[1],
        "UPDATE plan_comments SET body = CAST(zeroblob(8193) AS TEXT) WHERE key = 1",
    ),
    (
        "comment_bound",
        &[1],
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) \
      INSERT INTO plan_comments (id, session_key, incarnation_key, version, body) \
      SELECT randomblob(16), 1, 4, 1, 'x' FROM n",
    ),
    // By one that was never accepted, in another life; by a fold.
    (
        "comment_consumed",
        &[1],
        "UPDATE plan_comments SET consumed_by = 'e7--------------' WHERE key = 1",
    ),
    ("comment_consumed", &[3], "UPDATE plan_comments SET incarnation_key = 1 WHERE key = 3"),
    (
        "comment_consumed",
        &[3],
        "UPDATE queue_admission_receipts SET outcome = 'folded' WHERE key = 6",
    ),
    ("entry_comments", &[1], "DELETE FROM plan_comments WHERE key = 2"),
    ("entry_comments", &[1], "UPDATE plan_comments SET version = 3 WHERE key = 2"),
    (
        "entry_comments",
        &[1],
        "UPDATE plan_comments SET consumed_by = 'e3--------------' WHERE key = 2",
    ),
    (
        "entry_comments",
        &[1],
        "UPDATE plan_comments SET session_key = 2, incarnation_key = NULL WHERE key = 2",
    ),
    ("message_comments", &[3], "DELETE FROM plan_comments WHERE key = 3"),
    (
        "message_comments",
        &[3],
        "UPDATE plan_comments SET session_key = 2, incarnation_key = NULL WHERE key = 3",
    ),
    (
        "receipt_incarnation",
        &[1],
        "UPDATE queue_admission_receipts SET incarnation_key = 9 \
      WHERE key = 1",
    ),
    (
        "receipt_once",
        &[6],
        "DROP INDEX queue_admission_receipts_once; UPDATE messages \
      SET details = NULL WHERE key = 3; UPDATE queue_admission_receipts SET client_queue_id = 'k3' \
      WHERE key = 6",
    ),
    (
        "receipt_snapshot",
        &[1],
        "UPDATE queue_admission_receipts \
      SET content = CAST(zeroblob(65537) AS TEXT) WHERE key = 1",
    ),
    ("receipt_snapshot", &[1], "UPDATE queue_admission_receipts SET plan_mode = 2 WHERE key = 1"),
    (
        "receipt_cut",
        &[1, 7],
        "UPDATE queue_admission_receipts SET content_truncated = 1 \
      WHERE key IN (1, 7)",
    ),
    // From another life, from too little, from itself, from none; all of it again.
    ("receipt_base", &[7], "UPDATE queue_admission_receipts SET base_key = 1 WHERE key = 7"),
    ("receipt_base", &[7], "UPDATE queue_admission_receipts SET base_bytes = 2 WHERE key = 7"),
    ("receipt_base", &[7], "UPDATE queue_admission_receipts SET base_key = 7 WHERE key = 7"),
    ("receipt_base", &[7], "UPDATE queue_admission_receipts SET base_key = 9 WHERE key = 7"),
    ("receipt_base", &[7], "UPDATE queue_admission_receipts SET base_key = NULL WHERE key = 7"),
    (
        "receipt_base",
        &[7],
        "UPDATE queue_admission_receipts SET provenance = '{\"ids\":[\"k1\",\"k5\"]}' \
      WHERE key = 7",
    ),
    (
        "receipt_revisions",
        &[2],
        "UPDATE queue_admission_receipts SET queue_revision = 10 \
      WHERE key = 2",
    ),
    ("receipt_revisions", &[2], "UPDATE queue_admission_receipts SET position = 0 WHERE key = 2"),
    (
        "receipt_provenance",
        &[3],
        "UPDATE queue_admission_receipts \
      SET provenance = '{\"ids\":[\"k1\"]}' WHERE key = 3",
    ),
    (
        "turn_session",
        &[1],
        "UPDATE messages SET turn_id = NULL WHERE session_key = 1; \
      UPDATE turns SET session_key = 9 WHERE key = 1",
    ),
    (
        "turn_open_once",
        &[9],
        "DROP INDEX turns_open; INSERT INTO turns (key, id, session_key, \
      stage, stop_asked, message_id, started_at) SELECT 9, 'o9--------------', 2, 'reserved', 0, \
      'm9--------------', 0; UPDATE sessions SET last_seq = 3 WHERE key = 2; INSERT INTO messages \
      (id, session_key, incarnation_key, seq, turn_id, role, content, content_bytes, status, \
      created_at) VALUES ('m9--------------', 2, 2, 3, 'o9--------------', 'user', '', 0, \
      'failed', 0)",
    ),
    ("turn_end", &[1], "UPDATE turns SET outcome = NULL WHERE key = 1"),
    ("turn_end", &[2], "UPDATE turns SET reason = 'forced' WHERE key = 2"),
    ("turn_end", &[2], "UPDATE turns SET stop_asked = 2 WHERE key = 2"),
    ("turn_of_archived_task", &[3], "UPDATE tasks SET archived = 1 WHERE key = 2"),
    // Nowhere; in both places.
    ("turn_prompt", &[3], "UPDATE queue_entries SET turn_id = NULL WHERE key = 5"),
    (
        "turn_prompt",
        &[3],
        "UPDATE turns SET message_id = 'm9--------------' WHERE key = 3; \
      UPDATE sessions SET last_seq = 1 WHERE key = 3; INSERT INTO messages (id, session_key, \
      incarnation_key, seq, turn_id, role, content, content_bytes, status, created_at) VALUES \
      ('m9--------------', 3, 3, 1, 'o3--------------', 'user', '', 0, 'failed', 0)",
    ),
    ("turn_accepted", &[2], "UPDATE turns SET message_id = NULL WHERE key = 2"),
    (
        "turn_accepted",
        &[2],
        "INSERT INTO queue_entries (id, session_key, position, content, \
      plan_mode, queued_at, sender_kind, sender_id, sender_name, revision, turn_id) VALUES \
      ('e9--------------', 2, 8, 'x', 0, 0, 'user', 'u', 'anna', 1, 'o2--------------'); \
      UPDATE sessions SET queue_stored = 2 WHERE key = 2",
    ),
    ("turn_message", &[2], "UPDATE turns SET message_id = 'm5--------------' WHERE key = 2"),
    ("turn_message", &[2], "UPDATE turns SET message_id = 'm1--------------' WHERE key = 2"),
    ("turn_replacement", &[2], "UPDATE queue_entries SET turn_id = NULL WHERE key = 4"),
    ("message_session", &[4], "UPDATE messages SET incarnation_key = 3 WHERE key = 4"),
    (
        "message_session",
        &[3],
        "UPDATE messages SET session_key = 9, seq = 1, details = NULL WHERE key = 3; \
      UPDATE sessions SET last_seq = 2 WHERE key = 1",
    ),
    ("message_numbers", &[1], "DELETE FROM messages WHERE key = 1"),
    (
        "message_numbers",
        &[1],
        "DROP INDEX messages_in_order; \
      UPDATE messages SET seq = 1 WHERE key = 2",
    ),
    ("message_last", &[1], "UPDATE sessions SET last_seq = 4 WHERE key = 1"),
    ("message_last", &[3], "UPDATE sessions SET last_seq = 1 WHERE key = 3"),
    ("message_turn", &[3], "UPDATE messages SET turn_id = 'o2--------------' WHERE key = 3"),
    ("message_streaming", &[2], "UPDATE messages SET status = 'streaming' WHERE key = 2"),
    ("message_bytes", &[1], "UPDATE messages SET content_bytes = 2 WHERE key = 1"),
    ("message_bytes", &[2], "DELETE FROM message_parts WHERE start_byte = 7"),
    ("message_parts", &[2], "UPDATE message_parts SET start_byte = 8 WHERE start_byte = 7"),
    ("message_parts", &[2], "UPDATE message_parts SET start_byte = 2 WHERE start_byte = 3"),
    ("message_of_parts", &[9], "INSERT INTO message_parts VALUES (9, 0, 'x')"),
    ("message_details", &[1], "UPDATE messages SET details = '{\"notice\":\"x\"}' WHERE key = 1"),
    ("message_receipts", &[3], "UPDATE messages SET details = '{\"ids\":[\"k9\"]}' WHERE key = 3"),
];

fn sound(dir: &Path) -> Sqlite {
    let writer = open_writer(&StoreFiles::of(dir).database, Sync::Full).unwrap();
    writer.conn.execute_batch(SOUND).unwrap();
    writer
}

fn found(report: &[Violation]) -> Vec<(&'static str, &[i64])> {
    report.iter().map(|violation| (violation.invariant, violation.keys.as_slice())).collect()
}

#[test]
fn a_database_with_rows_of_every_kind_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    sound(dir.path());
    let files = StoreFiles::of(dir.path());
    let object = object_path(&files.attachments, ContentDigest::parse(DIGEST).unwrap());
    std::fs::create_dir_all(object.parent().unwrap()).unwrap();
    std::fs::write(&object, "12345").unwrap();
    // The rows, and the files beside them.
    let checked = invariants::SQLITE.len() + invariants::ROWS.len() + 1;
    assert_eq!(check(&files).unwrap(), CheckReport { checked, violations: Vec::new() });
    for damage in [Some("12346"), Some("1234"), None] {
        match damage {
            Some(text) => std::fs::write(&object, text).unwrap(),
            None => std::fs::remove_file(&object).unwrap(),
        }
        let report = check(&files).unwrap();
        assert_eq!(found(&report.violations), [("attachment_files", [2, 3].as_slice())]);
    }
}

#[test]
fn every_damage_is_found_by_the_one_invariant_it_breaks() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = sound(dir.path());
    writer.conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    for (name, keys, damage) in DAMAGES {
        writer.conn.execute_batch("BEGIN").unwrap();
        writer.conn.execute_batch(damage).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut violations = violations(&mut writer, invariants::SQLITE).unwrap();
        violations.extend(check_rows(&mut writer).unwrap().violations);
        assert_eq!(found(&violations), [(*name, *keys)], "{damage}");
        writer.conn.execute_batch("ROLLBACK").unwrap();
    }
}

#[test]
fn no_invariant_is_dead_and_no_two_share_a_name() {
    let list: Vec<&str> =
        invariants::SQLITE.iter().chain(invariants::ROWS).map(|i| i.name).collect();
    let names: BTreeSet<&str> = list.iter().copied().collect();
    assert_eq!(list.len(), names.len());
    let mut broken: BTreeSet<&str> = DAMAGES.iter().map(|(name, ..)| *name).collect();
    // This one takes a damaged file, below.
    broken.insert("sqlite_file");
    assert_eq!(names, broken);
}

#[test]
fn a_damaged_file_is_found_and_its_rows_are_not_judged() {
    let dir = tempfile::tempdir().unwrap();
    let files = StoreFiles::of(dir.path());
    let writer = sound(dir.path());
    let index = "SELECT rootpage FROM sqlite_schema WHERE name = 'queue_admission_receipts_once'";
    let page: u32 = writer.conn.query_row(index, [], |row| row.get(0)).unwrap();
    writer.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(writer);
    let mut bytes = std::fs::read(&files.database).unwrap();
    // The number of keys on the index's one page.
    let count = (page as usize - 1) * 4_096 + 3;
    bytes[count..count + 2].fill(0);
    std::fs::write(&files.database, bytes).unwrap();
    let report = check(&files).unwrap();
    assert_eq!(report.checked, invariants::SQLITE.len());
    assert_eq!(found(&report.violations), [("sqlite_file", [].as_slice())]);
    assert!(report.violations[0].count > 0);
}

#[test]
fn what_is_no_database_of_this_version_is_not_judged() {
    let dir = tempfile::tempdir().unwrap();
    let files = StoreFiles::of(dir.path());
    assert!(matches!(check(&files), Err(StoreError::Database(_))));
    assert!(!files.database.exists(), "looking makes nothing");
    std::fs::write(&files.database, b"").unwrap();
    assert!(matches!(check(&files), Err(StoreError::Database(_))), "a first start, cut short");
    let other = rusqlite::Connection::open(&files.database).unwrap();
    other.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    drop(other);
    assert!(matches!(check(&files), Err(StoreError::Database(_))));
    std::fs::write(&files.database, [7; 4_096]).unwrap();
    assert!(matches!(check(&files), Err(StoreError::Database(_))));
    std::fs::remove_file(&files.database).unwrap();

    let writer = sound(dir.path());
    let set = |schema: &str| {
        let set = "UPDATE meta SET value = ?1 WHERE name = 'schema'";
        writer.conn.execute(set, [schema]).unwrap();
        check(&files).unwrap_err()
    };
    assert!(matches!(set("1"), StoreError::Database(_)));
    let known = migrate::newest();
    assert!(matches!(set("1000"), StoreError::Newer { found: 1_000, known: k } if k == known));
    assert!(matches!(set("one"), StoreError::Damaged(_)));
}
