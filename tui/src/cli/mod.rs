//! The one-shot commands of `usher`, for people, scripts and tests.
//!
//! Exit codes: 0 accepted (with `--wait`: answered), 1 output failed, 2 usage, 3 rejected,
//! 4 uncertain, 5 no server, 6 turn failed. A reader that closes our standard output ends the
//! command quietly with 141, as SIGPIPE would.
//!
//! Without `--session` a command means the session that was used last among those whose task works
//! in the current directory; `send` makes one if there is none.
//!
//! # `usher send --json`
//! One JSON object per line and outcome; every key is always there, null where it has no value:
//! ```json
//! {"outcome":"accepted","id":"…","accepted_queue_id":"…","admission":"admitted","session_id":"…","task_id":"…","code":null,"text":null,"text_truncated":false,"reason_text":null}
//! ```
//! - `outcome`: `accepted`, `rejected` or `uncertain`; with `--wait` then `answered` or `failed`.
//! - `id`: the admission ID; running the command again with it (`--id`), the same session
//!   (`--session`) and the same text is safe.
//! - `accepted_queue_id`, `admission` (`admitted`, `folded`, `replayed`): the server's answer; null
//!   where the proof was found in the queue or the transcript instead.
//! - `code`: why it was rejected (a code of the protocol), or how the turn failed (`turn_failed`,
//!   `start_failed`, `turn_cancelled`, `turn_interrupted`, `turn_uncertain`, `turn_refused`;
//!   `entry_not_found`: somebody removed the prompt; `no_server`: the server stayed away; else the
//!   code with which the server refused to say more).
//! - `text`: the answer, also of a turn that failed; if such a turn has none, what `reason_text`
//!   says. `text_truncated`: the server gives no more of the answer.
//! - `reason_text`: what the agent said about how the turn ended, such as why it failed.

mod args;
mod attach;
mod client;
mod ending;
mod exit;
mod follow;
mod interrupt;
mod output;
mod queue;
mod run;
mod send;
mod server;

pub use exit::Exit;
pub use run::run;
