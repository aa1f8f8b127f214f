-- What prompts carry beside their text.

-- Attachments, references, context files and plan comments of an entry, and of it as of acceptance.
-- A receipt that goes on from another one without saying anything here says what that one says.
ALTER TABLE queue_entries ADD COLUMN enclosed TEXT;
ALTER TABLE queue_admission_receipts ADD COLUMN enclosed TEXT;
