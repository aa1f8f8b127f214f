# The text of the screen. Every name begins with "tui-".

tui-name = usher
tui-you = you
tui-untitled = untitled
tui-too-small = This window is too small for usher. Make it at least 40 columns wide and 10 rows high.

## The header

tui-header-session = usher  { $session }
tui-header-task-and-session = usher  { $task } { $dot } { $session }
tui-header-agent = { $agent } { $dot }{ " " }
tui-link-connecting = { $sign } connecting
tui-link-online = { $sign } online
tui-link-round-trip = { $sign } { $millis } ms
tui-link-offline = { $sign } offline, trying again
tui-link-refused = { $sign } refused

## The conversation

tui-welcome =
    Welcome. This is a session with { $agent }.

    Type a prompt and press Enter.
    Type more while it answers: they queue, in order, exactly once.

    { $queue } shows the queue: remove, pause, clear.
    { $help } shows all keys.

    Close this terminal whenever you like: the queue keeps running, and usher brings you back.
tui-opening = Opening the session …
tui-waiting-for-server = Waiting for the server. You can already write.
tui-refused = The server does not accept this client.
tui-more-below = more below { $key }
tui-message-cut = The rest of this message is too long to show here.
tui-resent = This prompt was run again.
tui-dropped = This prompt was dropped.
tui-tool-runs = { $sign } running { $tool }
tui-tool-silent = { $sign } ran { $tool }
tui-tool-one-line = { $sign } ran { $tool }: { $line }
tui-tool-lines = { $sign } ran { $tool } ({ $count ->
    [one] one line
   *[other] { $count } lines
})
tui-notice-turn-failed = The turn failed.
tui-notice-start-failed = The agent could not be started. The prompt is still in the queue.
tui-notice-model-unavailable = The agent does not have the model that this prompt asks for. It was not sent to it.
tui-notice-plan-mode-unavailable = The agent has no plan mode, which this prompt asks for. It was not sent to it.
tui-notice-turn-cancelled = The turn was stopped.
tui-notice-turn-interrupted = The server stopped while this turn ran.
tui-notice-turn-uncertain = The server stopped before it knew whether the agent had this prompt. It may have been run.
tui-notice-turn-refused = The agent refused.
tui-notice-turn-cut-short = The agent stopped at a limit of its own. The answer may be incomplete.
tui-notice-session-reset = The session was reset. The agent remembers nothing of what is above.

## The turn

tui-turn-starts = starting { $time }
tui-turn-runs = running { $time }
tui-turn-asks = waiting for you { $time }
tui-turn-stops = stopping { $time }
tui-nothing-to-stop = Nothing was running any more.

## The agent's question

tui-permission-title = { $agent } asks
tui-permission-call = { $tool }: { $title }
tui-permission-behind = { $count ->
    [one] one prompt waits behind this
   *[other] { $count } prompts wait behind this
}
tui-permission-show-all = whole call
tui-permission-answered = Your answer is on its way.
tui-permission-aside = { $key } to answer

## The queue

tui-queue-count = queue { $count }
tui-queue-count-of = queue { $count }/{ $max }
tui-queue-empty = Nothing waits in the queue.
tui-removed = Removed “{ $prompt }”. { $key } in the queue brings it back.
tui-cleared = { $count ->
    [one] One prompt was removed. { $key } in the queue brings it back.
   *[other] { $count } prompts were removed. { $key } in the queue brings them back.
}
tui-restored = { $count ->
    [one] One prompt is back in the queue.
   *[other] { $count } prompts are back in the queue.
}
tui-nothing-to-restore = You removed nothing here that could be brought back.
tui-queue-hidden = { $count } more
tui-queue-edit = { $key } queue
tui-queue-resume = { $key }, { $resume } resume
tui-queue-resume-narrow = { $key } { $resume } resume
tui-queue-key = { $key }
tui-queue-stub = This prompt is too long to show here.
tui-queue-editing = { $sign } { $name } is editing
tui-queue-files = { $count ->
    [one] 1 file
   *[other] { $count } files
}
tui-auto-run-on = auto-run on
tui-auto-run-head-editing = auto-run on, the first is being edited
tui-auto-run-head-held = auto-run on, the first is held for its editor
tui-auto-run-off = auto-run off
tui-auto-run-off-cancelled = auto-run off: a turn was stopped
tui-auto-run-off-failed = auto-run off: a turn failed
tui-auto-run-off-refused = auto-run off: the agent refused
tui-auto-run-off-interrupted = auto-run off: the server was stopped
tui-auto-run-off-uncertain = auto-run off: a prompt is uncertain

## Sessions

tui-sessions = Sessions

## The composer

tui-composer-hint = Write a prompt
tui-pasted = [pasted: { $lines ->
    [one] { $characters } characters
   *[other] { $characters } characters, { $lines } lines
}]
tui-prompt-too-long = This prompt is longer than { $kib } KiB and cannot be sent. Shorten it.
tui-prompt-nul = This prompt holds a NUL character (^@) and cannot be sent. Remove it.
tui-no-session-yet = No session is open yet. Your text stays here.

## Prompts on their way

tui-not-accepted-text-below = Not accepted: { $reason } Your text is below.
tui-returned-text-below = This prompt was never sent: usher ended before it could. Your text is below.
tui-queue-full-paused = The queue is full ({ $count }) and auto-run is off. { $key }, then { $resume } resumes it; or remove an entry there.
tui-delivery-waiting = Waiting for a connection; it will be sent once:
tui-delivery-behind = Waiting behind the one before:
tui-delivery-sending = Sending:
tui-delivery-checking = The reply got lost; looking whether the server has it:
tui-delivery-rejected = Not accepted: { $reason }
tui-delivery-returned = Never sent: usher ended before it could, some time ago.
tui-delivery-uncertain = Delivery uncertain: the server may have it.
tui-do-check = { $key } check and resend safely
tui-do-send-as-new = { $key } send as new (may run twice)
tui-do-send-again = { $key } send it again
tui-do-take-back = { $key } take it back
tui-do-run-again = { $key } run it again
tui-do-drop = { $key } drop it
tui-cannot-check = This server cannot say whether it has the prompt.

## Questions and notices

tui-ask-stop = Press { $key } again to stop the turn.
tui-ask-clear = { $count ->
    [one] Press { $key } again to remove the prompt that waits.
   *[other] Press { $key } again to remove all { $count } prompts that wait.
}
tui-ask-leave = Press { $key } again to leave. The queue keeps running.
tui-ask-leave-undelivered = { $count ->
    [one] One prompt is not delivered yet. It is kept: usher goes on with it when it is started again.
   *[other] { $count } prompts are not delivered yet. They are kept: usher goes on with them when it is started again.
} Press { $key } again to leave.
tui-ask-leave-unprotected = { $count ->
    [one] One prompt is not delivered and would be lost.
   *[other] { $count } prompts are not delivered and would be lost.
} Press { $key } again to leave.
tui-unprotected = This prompt could not be written to disk first. It is sent all the same; if usher is killed before the answer, nobody looks for it.
tui-other-session-offline = There is no connection. Another session can be opened when it is back.
tui-dropped-here = Dropped. ↑ in the empty composer brings its text back.
tui-dropped-here-uncertain = Dropped here; if the server has it, it runs there. ↑ in the empty composer brings its text back.
tui-undecided-elsewhere = { $count ->
    [one] A prompt in another session was not delivered. { $key } shows where (!).
   *[other] { $count } prompts in other sessions were not delivered. { $key } shows where (!).
}
tui-call-not-sent = There is no connection; nothing was changed.
tui-call-lost = The reply got lost. Look whether it happened before you try again.
tui-reply-unreadable = The server answered something this client cannot read. Update usher.
tui-draining = The server is stopping. This client connects again by itself.

## Hints

tui-hint-send = send
tui-hint-queue-it = queue
tui-hint-stop = stop turn
tui-hint-queue = queue
tui-hint-newline = newline
tui-hint-sessions = sessions
tui-hint-help = keys
tui-hint-chat = back
tui-hint-remove = remove
tui-hint-restore = undo
tui-hint-pause = pause
tui-hint-resume = resume
tui-hint-clear = clear
tui-hint-select = and Down select
tui-hint-whole-call = whole call
tui-hint-open = open
tui-hint-new = new
tui-hint-more = more

## Keys

tui-help-chat = While you write
tui-help-everywhere = Everywhere
tui-help-queue = In the queue
tui-help-permission = When the agent asks
tui-help-sessions = In the list of sessions
tui-key-submit = send the prompt; it queues while a turn runs
tui-key-newline = new line (also Ctrl+J)
tui-key-stop = stop the turn (asks first), or one step back
tui-key-clear = clear the text; on no text: leave (asks first)
tui-key-undo = undo (also Ctrl+_)
tui-key-leave = leave, when there is no text
tui-key-history = up in the text, then to earlier prompts
tui-key-word-left = one word left
tui-key-word-right = one word right
tui-key-line-start = start of the line
tui-key-line-end = end of the line
tui-key-cut-to-line-end = cut to the end of the line
tui-key-cut-to-line-start = cut to the start of the line
tui-key-cut-word = cut the word before
tui-key-cut-word-right = cut the word after
tui-key-paste = paste what was cut
tui-key-select = select the one above
tui-key-select-below = select the one below
tui-key-remove = remove the selected prompt
tui-key-restore = bring back what you removed last (also Alt+U)
tui-key-auto-run = auto-run on or off
tui-key-clear-queue = remove all prompts (asks first)
tui-key-back = back
tui-key-show-all = show the whole call
tui-key-allow-once = allow it once
tui-key-allow-always = always allow this
tui-key-reject-once = reject it
tui-key-reject-always = always reject this
tui-key-other-answer = another answer, by its number
tui-key-open = open the selected session
tui-key-new-session = new session in this directory
tui-key-queue = to the queue and back
tui-key-sessions = list of sessions
tui-key-answer = back to the agent's question
tui-key-again = check and resend, or run again
tui-key-send-as-new = send as new
tui-key-drop = drop the marked prompt
tui-key-page-up = a page up
tui-key-page-down = a page down
tui-key-row-up = a row up
tui-key-row-down = a row down
tui-key-to-start = to the start
tui-key-to-end = to the end
tui-key-help = this list
tui-key-redraw = draw the screen anew
tui-key-suspend = suspend; the shell's fg brings it back
