//! The thread that writes.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use usher_shared::client::{Input, JournalOrder, JournalStage};
use usher_shared::time::UnixMillis;

use super::file::{JournalAnswer, JournalError, JournalFile, JournalJob, failed};

/// Batches that the thread has not taken yet. A screen makes one per key at most.
const BATCHES_MAX: usize = 1_024;
/// Jobs of one transaction, about.
const JOBS_MAX: usize = 256;
/// Jobs that are tried again after a failure: more than a client has sends and sessions with drafts.
const OWED_MAX: usize = 1_024;

/// How long what could not be written waits for the next attempt, if nothing else is to be written.
const OWED_AGAIN: Duration = Duration::from_secs(1);
/// How long the end of a program waits for its journal: a disk that hangs must not hold it for ever.
const END_WAIT: Duration = Duration::from_secs(3);

/// A running journal. Dropping it writes what was handed over, and waits for that.
#[derive(Debug)]
pub struct Journal {
    jobs: Option<SyncSender<Vec<JournalJob>>>,
    /// What came of the jobs. At most one answer a job, and jobs are bounded.
    answers: UnboundedReceiver<JournalAnswer>,
    refused: UnboundedSender<JournalAnswer>,
    /// Closed when the thread is done.
    done: Receiver<()>,
}

impl Journal {
    /// Starts a journal in `folder`. The file is opened with the first job.
    pub fn spawn(folder: PathBuf) -> Self {
        let (jobs, jobs_out) = mpsc::sync_channel(BATCHES_MAX);
        let (answers_in, answers) = unbounded_channel();
        let refused = answers_in.clone();
        let (still_running, done) = mpsc::channel();
        std::thread::spawn(move || {
            run(folder, &jobs_out, &answers_in);
            drop::<Sender<()>>(still_running);
        });
        Self { jobs: Some(jobs), answers, refused, done }
    }

    /// Hands jobs over, to be done together. Never waits.
    pub fn hand_over(&self, batch: Vec<JournalJob>) {
        let Some(jobs) = self.jobs.as_ref().filter(|_| !batch.is_empty()) else {
            return;
        };
        match jobs.try_send(batch) {
            Ok(()) => {}
            // A disk that hangs, or a thread that is gone.
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                give_up(&batch, &self.refused);
            }
        }
    }

    /// Waits for the next answer; for ever where there is no journal. Can be cancelled without losing
    /// one.
    pub async fn next_answer(journal: &mut Option<Self>) -> JournalAnswer {
        let answer = match journal {
            Some(journal) => journal.answers.recv().await,
            None => None,
        };
        match answer {
            Some(answer) => answer,
            // We hold a sender ourselves.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.jobs = None;
        // An error: it is done.
        let _ = self.done.recv_timeout(END_WAIT);
    }
}

/// What the thread knows between batches.
struct Writer {
    folder: PathBuf,
    file: Option<JournalFile>,
    /// What nobody waits for and could not be done yet. A row that stays although its prompt was
    /// taken back would be sent by an heir.
    owed: Vec<JournalJob>,
}

fn run(
    folder: PathBuf,
    jobs: &Receiver<Vec<JournalJob>>,
    answers: &UnboundedSender<JournalAnswer>,
) {
    let mut writer = Writer { folder, file: None, owed: Vec::new() };
    while let Some(mut batch) = next_batch(jobs, &writer.owed) {
        while batch.len() < JOBS_MAX {
            match jobs.try_recv() {
                Ok(more) => batch.extend(more),
                Err(_) => break,
            }
        }
        writer.handle(batch, answers);
    }
    if !writer.owed.is_empty() {
        writer.handle(Vec::new(), answers);
    }
}

/// Waits for jobs, but no longer than what is owed can wait; None: there will be no more.
fn next_batch(jobs: &Receiver<Vec<JournalJob>>, owed: &[JournalJob]) -> Option<Vec<JournalJob>> {
    if owed.is_empty() {
        return jobs.recv().ok();
    }
    match jobs.recv_timeout(OWED_AGAIN) {
        Ok(batch) => Some(batch),
        Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

impl Writer {
    fn handle(&mut self, batch: Vec<JournalJob>, answers: &UnboundedSender<JournalAnswer>) {
        let mut jobs = std::mem::take(&mut self.owed);
        jobs.extend(batch);
        match self.write(&jobs) {
            Ok(done) => {
                for answer in done {
                    let _ = answers.send(answer);
                }
            }
            Err(_) => {
                give_up(&jobs, answers);
                self.owed = still_owed(jobs);
            }
        }
    }

    fn write(&mut self, jobs: &[JournalJob]) -> Result<Vec<JournalAnswer>, JournalError> {
        let open = match self.file.take().filter(JournalFile::is_in_place) {
            Some(open) => self.file.insert(open),
            None => self.file.insert(JournalFile::open(&self.folder)?),
        };
        let now = UnixMillis::new(jiff::Timestamp::now().as_millisecond());
        open.apply(jobs, now)
    }
}

/// Returns what is tried again: of the drafts of a session only the newest.
fn still_owed(jobs: Vec<JournalJob>) -> Vec<JournalJob> {
    let mut owed: Vec<JournalJob> = Vec::new();
    for job in jobs.into_iter().filter(can_be_owed) {
        if let JournalJob::PutDraft(newer) = &job {
            owed.retain(|job| !matches!(job, JournalJob::PutDraft(old) if old.is_of_same(newer)));
        }
        owed.push(job);
    }
    owed.truncate(OWED_MAX);
    owed
}

fn can_be_owed(job: &JournalJob) -> bool {
    match job {
        JournalJob::Order(JournalOrder::Drop(_)) | JournalJob::PutDraft(_) => true,
        JournalJob::Order(JournalOrder::Mark(_, stage, _)) => *stage != JournalStage::Sent,
        JournalJob::Order(JournalOrder::Keep(_) | JournalOrder::Adopt { .. })
        | JournalJob::TakeDrafts { .. } => false,
    }
}

/// Tells the engine what it must not wait for.
fn give_up(jobs: &[JournalJob], answers: &UnboundedSender<JournalAnswer>) {
    for job in jobs {
        let answer = match job {
            JournalJob::Order(JournalOrder::Keep(row)) => failed(&row.admission_id),
            JournalJob::Order(JournalOrder::Mark(id, JournalStage::Sent, _)) => failed(id),
            JournalJob::Order(JournalOrder::Adopt { .. }) => {
                JournalAnswer::Input(Box::new(Input::Adopted(Vec::new())))
            }
            JournalJob::TakeDrafts { .. } => JournalAnswer::Drafts(Vec::new()),
            JournalJob::Order(JournalOrder::Mark(..) | JournalOrder::Drop(_))
            | JournalJob::PutDraft(_) => continue,
        };
        let _ = answers.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rusqlite::Connection;
    use usher_shared::client::Receipts;
    use usher_shared::id::{AdmissionId, SessionId, StoreId, UserId};
    use uuid::Uuid;

    use super::*;
    use crate::journal::Draft;

    fn put(session: u128, text: &str) -> JournalJob {
        JournalJob::PutDraft(Draft {
            store_id: StoreId::from_uuid(Uuid::from_u128(1)),
            user_id: UserId::from_uuid(Uuid::from_u128(1)),
            session_id: SessionId::from_uuid(Uuid::from_u128(session)),
            text: text.to_owned(),
        })
    }

    /// A job whose answer tells that its batch is over.
    fn answered() -> JournalJob {
        let id = AdmissionId::parse("no such row").unwrap();
        JournalJob::Order(JournalOrder::Mark(id, JournalStage::Sent, Receipts::Missing))
    }

    #[test]
    fn what_could_not_be_written_is_written_when_it_can_be_and_nobody_asks_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::spawn(folder.path().to_owned());
        journal.hand_over(vec![put(1, "old"), answered()]);
        journal.answers.blocking_recv().unwrap();
        let other = Connection::open(folder.path().join("journal.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        journal.hand_over(vec![put(1, "newer"), answered()]);
        journal.answers.blocking_recv().unwrap();
        other.execute_batch("ROLLBACK").unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let sql = "SELECT text FROM drafts";
        while other.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap() != "newer" {
            assert!(Instant::now() < deadline, "never written");
            std::thread::yield_now();
        }
    }

    #[test]
    fn of_drafts_that_are_owed_only_the_newest_of_a_session_is_kept() {
        let texts = ["a", "ab", "abc"].map(|text| put(1, text)).into_iter();
        let owed = still_owed(texts.chain([put(2, "x"), put(1, "abcd"), answered()]).collect());
        let texts = owed.iter().map(|job| match job {
            JournalJob::PutDraft(draft) => draft.text.as_str(),
            other => panic!("{other:?}"),
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["x", "abcd"]);
    }
}
