//! The thread that writes.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
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

    /// Waits for the next answer. Can be cancelled without losing one.
    pub async fn next_answer(&mut self) -> JournalAnswer {
        match self.answers.recv().await {
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
    while let Ok(mut batch) = jobs.recv() {
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
                jobs.retain(can_be_owed);
                jobs.truncate(OWED_MAX);
                self.owed = jobs;
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
