//! Real programs under the `command` agent.

use std::os::unix::process::ExitStatusExt;

use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::super::AgentPrompt;
use super::*;

/// Far beyond what any of these programs takes: a bound for a broken build, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

const LONG: Duration = Duration::from_secs(3_600);

fn spec(program: &str, args: &[&str], cancel_grace: Duration) -> CommandSpec {
    CommandSpec {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env_from: Vec::new(),
        cancel_grace,
        abilities: Abilities::default(),
    }
}

fn shell_in(directory: &Path, script: &str, cancel_grace: Duration) -> AgentHandle {
    start(
        spec("sh", &["-c", script], cancel_grace),
        AgentStart { workspace_dir: Some(directory.to_owned()), owner: None },
    )
    .unwrap()
}

fn shell(script: &str) -> AgentHandle {
    shell_in(Path::new("/"), script, LONG)
}

async fn send(agent: &AgentHandle, command: AgentCommand) {
    assert!(agent.commands.send(command).await.is_ok());
}

async fn prompt(agent: &AgentHandle, text: &str) {
    let prompt = AgentPrompt { text: text.to_owned(), ..AgentPrompt::default() };
    send(agent, AgentCommand::Prompt(prompt)).await;
}

async fn next(agent: &mut AgentHandle) -> Option<AgentEvent> {
    timeout(PATIENCE, agent.events.recv()).await.unwrap()
}

/// Takes the events of one prompt up to its end, with the text of neighbours joined.
async fn until_ended(agent: &mut AgentHandle) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    loop {
        let event = next(agent).await.expect("the agent is alive");
        match (events.last_mut(), event) {
            (Some(AgentEvent::Text(before)), AgentEvent::Text(text)) => before.push_str(&text),
            (_, event @ AgentEvent::Ended(_)) => {
                events.push(event);
                return events;
            }
            (_, event) => events.push(event),
        }
    }
}

async fn events_of(script: &str, text: &str) -> Vec<AgentEvent> {
    let mut agent = shell(script);
    prompt(&agent, text).await;
    until_ended(&mut agent).await
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text(text.to_owned())
}

fn exit(text: &str) -> AgentEvent {
    AgentEvent::Ended(AgentEnd::Failed { reason: TurnReason::AgentExit, text: text.to_owned() })
}

const COMPLETED: AgentEvent = AgentEvent::Ended(AgentEnd::Completed);
const KILLED: AgentEvent = AgentEvent::Ended(AgentEnd::Killed);
const CANCELLED: AgentEvent = AgentEvent::Ended(AgentEnd::Cancelled);

#[tokio::test]
async fn the_prompt_goes_in_and_the_answer_comes_out_byte_for_byte() {
    let prompt = "wörld\n\"$HOME\" 漢 ".repeat(20_000);
    assert_eq!(events_of("cat", &prompt).await, [AgentEvent::Accepted, text(&prompt), COMPLETED]);
}

#[tokio::test]
async fn every_turn_gets_a_fresh_process() {
    let mut agent = shell("n=$((n+1)); echo $n; cat");
    for _ in 0..3 {
        prompt(&agent, "x").await;
        assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("1\nx"), COMPLETED]);
    }
}

#[tokio::test]
async fn a_failed_program_shows_its_error_output_or_else_its_status() {
    assert_eq!(
        events_of("echo partial; echo sorry >&2; exit 3", "x").await,
        [AgentEvent::Accepted, text("partial\n"), exit("sorry\n")]
    );
    let status = ExitStatus::from_raw(3 << 8).to_string();
    assert_eq!(events_of("exit 3", "x").await, [AgentEvent::Accepted, exit(&status)]);
    let killed = ExitStatus::from_raw(9).to_string();
    assert_eq!(events_of("kill -9 $$", "x").await, [AgentEvent::Accepted, exit(&killed)]);
}

#[tokio::test]
async fn only_the_tail_of_the_error_output_is_kept() {
    let events = events_of("yes 0123456789 | head -c 200000 >&2; echo end >&2; exit 1", "x").await;
    let Some(AgentEvent::Ended(AgentEnd::Failed { text, .. })) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(text.len(), STDERR_TAIL_BYTES_MAX);
    assert!(text.ends_with("56789\nend\n") || text.ends_with("end\n"), "{text}");
}

#[tokio::test]
async fn error_output_of_a_completed_turn_is_not_the_answer() {
    assert_eq!(
        events_of("echo warning >&2; echo fine", "x").await,
        [AgentEvent::Accepted, text("fine\n"), COMPLETED]
    );
}

#[tokio::test]
async fn everything_printed_before_a_crash_arrives_every_time() {
    let mut agent = shell("printf chunk; exit 3");
    let status = ExitStatus::from_raw(3 << 8).to_string();
    for round in 0..100 {
        prompt(&agent, "x").await;
        assert_eq!(
            until_ended(&mut agent).await,
            [AgentEvent::Accepted, text("chunk"), exit(&status)],
            "round {round}"
        );
    }
}

#[tokio::test]
async fn a_large_answer_arrives_whole_through_a_slow_reader() {
    let mut agent = shell("yes 0123456789abcde | head -c 4000000; exit 1");
    prompt(&agent, "x").await;
    assert_eq!(next(&mut agent).await, Some(AgentEvent::Accepted));
    // Nobody takes an event until all the room for them is used up.
    while agent.events.len() < EVENTS_MAX {
        tokio::task::yield_now().await;
    }
    let events = until_ended(&mut agent).await;
    assert_eq!(events[0], text(&"0123456789abcde\n".repeat(250_000)));
}

#[tokio::test]
async fn a_program_that_does_not_exist_fails_the_turn_before_it_is_accepted() {
    let start_agent = || {
        let start = AgentStart { workspace_dir: None, owner: None };
        super::start(spec("no-such-program-here", &[], LONG), start).unwrap()
    };
    let mut agent = start_agent();
    for _ in 0..2 {
        prompt(&agent, "x").await;
        let events = until_ended(&mut agent).await;
        let [AgentEvent::Ended(AgentEnd::Failed { reason, text })] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!(*reason, TurnReason::StartFailed);
        assert!(text.starts_with("no-such-program-here: "), "{text}");
    }
}

#[tokio::test]
async fn a_directory_that_does_not_exist_is_refused_at_start() {
    let start =
        AgentStart { workspace_dir: Some(PathBuf::from("/no/such/directory")), owner: None };
    let error = super::start(spec("true", &[], LONG), start).err().unwrap();
    assert_eq!(error.to_string(), "/no/such/directory is not a directory");
}

#[tokio::test]
async fn the_program_runs_in_the_workspace_with_a_clean_environment() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().canonicalize().unwrap();
    let mut agent = shell_in(&real, "pwd; env | cut -d= -f1 | sort | tr '\\n' ' '", LONG);
    prompt(&agent, "x").await;
    let events = until_ended(&mut agent).await;
    let AgentEvent::Text(output) = &events[1] else {
        panic!("{events:?}");
    };
    let (place, names) = output.split_once('\n').unwrap();
    assert_eq!(Path::new(place), real);
    for name in names.split_whitespace() {
        // The shell adds its own few.
        let known = ["HOME", "LANG", "PATH", "TERM", "USER", "PWD", "OLDPWD", "SHLVL", "_"];
        assert!(known.contains(&name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_for_two_seconds_after_the_whole_prompt_accepts_it() {
    let mut agent = shell("cat >/dev/null; exec sleep 1000");
    let before = Instant::now();
    prompt(&agent, "x").await;
    assert_eq!(agent.events.recv().await, Some(AgentEvent::Accepted));
    assert!(before.elapsed() >= ALIVE_ACCEPTS);
    assert!(agent.events.is_empty());
}

#[tokio::test]
async fn a_program_that_never_reads_its_input_still_ends() {
    let prompt = "x".repeat(1_000_000);
    assert_eq!(
        events_of("exec 0<&-; echo no thanks", &prompt).await,
        [AgentEvent::Accepted, text("no thanks\n"), COMPLETED]
    );
}

#[tokio::test]
async fn a_cancel_ends_a_program_that_listens_and_keeps_its_last_words() {
    let mut agent = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    prompt(&agent, "x").await;
    assert_eq!(next(&mut agent).await, Some(AgentEvent::Accepted));
    assert_eq!(next(&mut agent).await, Some(text("ready\n")));
    send(&agent, AgentCommand::Cancel).await;
    assert_eq!(until_ended(&mut agent).await, [text("bye\n"), CANCELLED]);
}

#[tokio::test]
async fn a_cancel_kills_a_program_that_does_not_listen_and_the_next_prompt_runs() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "trap '' TERM; read line; echo $line; [ $line = last ] || while :; do sleep 9; done";
    let mut agent = shell_in(directory.path(), script, Duration::from_millis(50));
    prompt(&agent, "first\n").await;
    assert_eq!(next(&mut agent).await, Some(AgentEvent::Accepted));
    assert_eq!(next(&mut agent).await, Some(text("first\n")));
    send(&agent, AgentCommand::Cancel).await;
    assert_eq!(until_ended(&mut agent).await, [KILLED]);
    prompt(&agent, "last\n").await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("last\n"), COMPLETED]);
}

/// A program whose background child holds a named pipe open. The reading end learns when the last
/// of them has ended.
struct Family {
    agent: AgentHandle,
    lifeline: pipe::Receiver,
    _directory: tempfile::TempDir,
}

impl Family {
    /// Runs a child that ignores TERM, then `and_then`.
    async fn start(and_then: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("lifeline");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let lifeline = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        let script = format!(
            "exec 3>lifeline; (trap '' TERM; while :; do sleep 9; done) >/dev/null 2>&1 & \
             echo ready; {and_then}"
        );
        let mut agent = shell_in(directory.path(), &script, LONG);
        prompt(&agent, "x").await;
        assert_eq!(next(&mut agent).await, Some(AgentEvent::Accepted));
        assert_eq!(next(&mut agent).await, Some(text("ready\n")));
        Self { agent, lifeline, _directory: directory }
    }
}

async fn all_dead(mut lifeline: pipe::Receiver) {
    let mut nothing = Vec::new();
    let read = timeout(PATIENCE, lifeline.read_to_end(&mut nothing)).await;
    assert_eq!(read.expect("nobody lives on").unwrap(), 0);
}

#[tokio::test]
async fn dropping_the_handle_ends_the_program_and_its_children() {
    let family = Family::start("wait").await;
    drop(family.agent);
    all_dead(family.lifeline).await;
}

#[tokio::test]
async fn dropping_only_the_way_out_ends_them_too() {
    let family = Family::start("wait").await;
    let AgentHandle { commands, events } = family.agent;
    drop(events);
    all_dead(family.lifeline).await;
    drop(commands);
}

#[tokio::test]
async fn children_end_with_the_turn() {
    let mut family = Family::start("exit 0").await;
    assert_eq!(until_ended(&mut family.agent).await, [COMPLETED]);
    all_dead(family.lifeline).await;
}

#[tokio::test]
async fn children_end_with_a_cancelled_turn() {
    let mut family = Family::start("wait").await;
    send(&family.agent, AgentCommand::Cancel).await;
    assert_eq!(until_ended(&mut family.agent).await, [CANCELLED]);
    all_dead(family.lifeline).await;
}

#[tokio::test]
async fn something_that_left_the_group_and_keeps_the_pipe_does_not_hold_up_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let script = "setsid sh -c 'echo $$ >pid; exec sleep 1000' & \
                  while ! [ -s pid ]; do sleep 0.01; done; echo done";
    let mut agent = shell_in(directory.path(), script, LONG);
    prompt(&agent, "x").await;
    assert_eq!(until_ended(&mut agent).await, [AgentEvent::Accepted, text("done\n"), COMPLETED]);
    let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
