# What people read when a server refuses something. One message per error code; the name is
# "error-" and the code with dashes. `.bare` is used when the server sent no details.

error-bad-request = The server did not understand this client. Update usher so that both have the same version.
error-validation = { $field ->
    [content] The prompt cannot be sent: it is too long, or it holds a character that is not allowed.
    [workspace_dir] The server cannot use this directory. Start usher in a directory that exists there.
    [agent] The server has no agent of this name. Choose one that is configured there.
    [title] The title cannot be used. Choose a shorter one.
   *[other] The server refused the value of “{ $field }”. Correct it and try again.
}
    .bare = The server refused a value of this request. Correct it and try again.
error-unknown-action = This server is older than your usher and cannot do that. Update the server.
error-unauthorized = The server does not accept your token, or got none. Set USHER_TOKEN to the right one and start usher again.
error-protocol-unsupported = This server speaks another protocol version. Update usher or the server.
error-forbidden = You are not allowed to do that here.
error-not-found = That is not there any more.
error-rate-limited = Too many requests at once. Try again in { $seconds ->
    [one] one second
   *[other] { $seconds } seconds
}.
    .bare = Too many requests at once. Try again in a moment.
error-shutting-down = The server is stopping. Try again in { $seconds ->
    [one] one second
   *[other] { $seconds } seconds
}.
    .bare = The server is stopping. Try again in a moment.
error-internal = The server had a fault of its own. Try again; its log says more.
error-queue-full = The queue is full ({ $queue_size } of { $max }). Wait for a turn to end, or remove an entry.
    .bare = The queue is full. Wait for a turn to end, or remove an entry.
error-queue-id-conflict = This prompt was already sent with other text. Send it as a new prompt.
error-queue-session-unavailable = This session takes no prompts any more. Open another session; your text is kept.
error-queue-admission-unavailable = The server cannot store prompts right now. Try again in { $seconds ->
    [one] one second
   *[other] { $seconds } seconds
}; check its disk if this stays.
    .bare = The server cannot store prompts right now. Try again in a moment; check its disk if this stays.
error-attachment-unavailable = An attachment is not on the server any more. Attach it again.
error-reference-invalid = Something this prompt points at is not there. Remove the reference or correct it.
error-plan-comment-conflict = A plan comment was changed or used in the meantime. Look at the plan and try again.
error-entry-not-found = This entry is not in the queue any more.
error-edit-conflict = Somebody is editing this entry. Try again when they are done.
error-operation-conflict = This change was already saved with other text. Save it as a new change.
error-revision-conflict = This entry was changed in the meantime. Look at it and try again.
error-merge-disabled = Merging is switched off on this server.
error-no-merge-target = There is no entry above to merge into.
error-merge-overflow = Together these entries would be too large. Leave them apart.
error-queue-changed = The queue was changed in the meantime. Look at it and try again.
error-queue-empty = Nothing waits in the queue.
error-undo-expired = What was removed cannot be brought back any more.
error-send-now-conflict = A turn is being stopped or replaced right now. Try again when it has ended.
error-send-now-overflow = Together these prompts would be too large. Send them one by one.
error-turn-changed = That turn is over or was dealt with already.
error-session-busy = A turn is running. Stop it first, or wait for its end.
error-session-not-promptable = The agent waits for an answer. Answer its question first.
error-permission-closed = This question was answered already, or its turn is over.
