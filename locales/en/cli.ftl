# What the one-shot commands say. Help texts first.

cli-help = A chat with coding agents over a prompt queue that never loses, doubles or reorders a prompt. Without a command: the terminal client.
cli-help-server = The server to talk to, unix:PATH, ws://HOST:PORT or wss://HOST[:PORT]; its token is taken from USHER_TOKEN [default: your own, started when needed]
cli-help-ca = For wss://: trust the authorities in this file (PEM) and no others [default: those that this machine trusts]
cli-help-lang = The language, such as en
cli-help-serve = Run a server here; without flags your own
cli-help-stop = Stop your own server
cli-help-status = Say whether the server answers and what it holds
cli-help-send = Send one prompt, exactly once
cli-help-session = The session [default: the one used last in this directory]
cli-help-send-id = The admission ID; the same ID with the same text is sent once only
cli-help-send-wait = Wait for the answer and print it
cli-help-send-attach = A file to send along; can be given several times
cli-help-send-text = The prompt, or - to read it from standard input; write -- before one that begins with a dash
cli-help-json = Print JSON, one object per line
cli-help-queue = Look at the queue of a session, clear it, or switch its auto-run
cli-help-queue-auto-run = Let the next prompt start by itself, or not, and say what is in force
cli-help-queue-auto-run-state = on or off
cli-help-queue-list = Show what waits, in order
cli-help-queue-clear = Remove everything that waits

cli-accepted = Accepted: { $id }
cli-rejected = Not accepted. { $reason }
cli-prompt-empty = The prompt is empty.
cli-unknown-session = There is no session “{ $session }” that you can use. Without --session the one of this directory is used.
cli-queue-full-paused = The queue is full ({ $count }) and auto-run is off. Resume it with: usher queue auto-run on --session { $session }
cli-attach-unreadable = { $file } cannot be attached: { $reason }
cli-attach-no-file = { $file } cannot be attached: it is a folder, a pipe or a device.
cli-attach-changed = { $file } changed while it was being read. Nothing was sent; try again.
cli-attach-too-many = A prompt carries at most { $max } files.
cli-attach-too-large = The files are too large: a prompt carries { $mib } MiB in all at most.
cli-attach-too-large-with-id = The files are too large: with --id they may have { $mib } MiB in all, so that the same command can be run again.
cli-unprotected = The prompt could not be written to disk first. It is sent all the same; if this command is killed before the answer, nobody looks for it.
cli-uncertain = Delivery uncertain: the server may have this prompt. To check and send it safely, run the same command with --session { $session } --id { $id }

cli-wait-parked = Waiting. Auto-run is off: this prompt starts when somebody switches it on, such as with: usher queue auto-run on --session { $session }
cli-answer-truncated = The answer is longer than this server gives out; this is its beginning.
cli-turn-reason = The agent says: { $reason }
cli-turn-failed = The turn failed. The session shows why; the prompt can be run again from there.
cli-start-failed = The agent could not be started. The prompt still waits in the queue.
cli-turn-cancelled = The turn was cancelled.
cli-turn-interrupted = The server stopped while the turn ran. The prompt can be run again from the session.
cli-turn-uncertain = The server stopped before it knew whether the agent had the prompt. Decide in the session whether to run it again.
cli-turn-refused = The agent refused.
cli-entry-removed = Somebody removed the prompt from the queue before it ran.

cli-no-server = No server answers. Start one with “usher serve”, or check the address.
cli-link-lost = The connection was lost before the server answered. Look at the session, then try again.
cli-no-home = There is no home directory to keep things in. Set HOME.
cli-own-server-paths = Your own server cannot be started: { $reason }. Correct the folder or its permissions.
cli-own-server-spawn = Your own server cannot be started: { $reason }.
cli-own-server-silent = Your own server does not come up. Its log says why: { $log }
cli-address-malformed = “{ $address }” is no server address. Write unix:PATH, ws://HOST:PORT or wss://HOST[:PORT].
cli-ca-unreadable = { $file }, which --ca or USHER_CA names, cannot be read: { $reason }.
cli-ca-no-certificate = { $file }, which --ca or USHER_CA names, holds no certificate in PEM, or one that cannot be read.
cli-output-failed = The output could not be written: { $reason }.

cli-no-session = There is no session here yet.
cli-queue-head = { $count ->
    [0] Nothing waits
    [one] 1 prompt waits
   *[other] { $count } prompts wait
}{ $max ->
    [0] {""}
   *[other] {" "}(at most { $max })
}; auto-run is { $auto_run ->
    [on] on
   *[off] off
}.
cli-queue-cleared = { $removed ->
    [0] Nothing waited.
    [one] One prompt was removed.
   *[other] { $removed } prompts were removed.
}

cli-auto-run-on = Auto-run is on.
cli-auto-run-on-dispatched = Auto-run is on; the first prompt starts now.
cli-auto-run-off = Auto-run is off. Prompts wait until it is switched on.

cli-stopped = Your server has stopped.
cli-stop-named = This only stops your own server. Leave out --server and USHER_SERVER; stop another one where it runs.
cli-stop-none = Your server is not running.
cli-stop-unnamed = Your server is only just starting. Try again in a moment.
cli-stop-refused = Your server cannot be told to stop: { $reason }.
cli-stop-slow = Your server was told to stop and is still finishing. Try again in a moment.
cli-status = usher { $version } answers at { $address } for { $user }: { $tasks ->
    [one] 1 task
   *[other] { $tasks } tasks
}, { $sessions ->
    [one] 1 session
   *[other] { $sessions } sessions
}, { $queued ->
    [one] 1 prompt waits
   *[other] { $queued } prompts wait
}.
cli-status-none = No server answers at { $address }.

# Without a command
cli-no-terminal = The chat needs a terminal. For scripts there is usher send.
cli-terminal-failed = The terminal failed: { $reason }
