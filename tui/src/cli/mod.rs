//! The one-shot commands of `usher`, for people, scripts and tests.
//!
//! Exit codes: 0 accepted (with `--wait`: answered), 1 output failed, 2 usage, 3 rejected,
//! 4 uncertain, 5 no server, 6 turn failed. A reader that closes our standard output ends the
//! command quietly with 141, as SIGPIPE would.
//!
//! # `usher send --json`
//! One JSON object per line and outcome; every key is always there, null where it has no value:
//! ```json
//! {"outcome":"accepted","id":"…","accepted_queue_id":"…","admission":"admitted","session_id":"…","task_id":"…","code":null,"text":null,"text_truncated":false}
//! ```
//! - `outcome`: `accepted`, `rejected` or `uncertain`; with `--wait` then `answered` or `failed`.
//! - `id`: the admission ID; running the command again with `--id` and the same text is safe.
//! - `accepted_queue_id`, `admission` (`admitted`, `folded`, `replayed`): the server's answer; null
//!   where the proof was found in the queue or the transcript instead.
//! - `code`: why it was rejected (a code of the protocol), or how the turn failed (`turn_failed`,
//!   `start_failed`, `turn_cancelled`, `turn_interrupted`, `turn_uncertain`, `turn_refused`;
//!   `entry_not_found`: somebody removed the prompt; `no_server`: the server stayed away; else the
//!   code with which the server refused to say more).
//! - `text`: the answer, also of a turn that failed; `text_truncated`: the server gives no more.

mod args;
mod client;
mod exit;
mod follow;
mod output;
mod queue;
mod run;
mod send;
mod server;

pub use exit::Exit;
pub use run::run;
