//! What every history keeps, whatever order explains it: read off the answers alone.

use crate::call::{Answer, Ask, Event, History};

/// Checks all of them.
///
/// # Errors
/// The first that is broken, and by what.
pub(crate) fn check(history: &History) -> Result<(), String> {
    let events: Vec<&Event> = history.events().collect();
    for (index, first) in events.iter().enumerate() {
        for second in events.iter().skip(index + 1) {
            for (first, second) in [(first, second), (second, first)] {
                pair(first, second)?;
            }
        }
        let told = history.told.iter().filter(|told| told.read < first.invoked);
        for told in told {
            if lease(first) == Some(told.loss.lease) && holds(first) {
                return Err(format!("after {:?}: {first:?}", told.loss));
            }
        }
        // Once a later lease has begun, no earlier one is live.
        let later = events.iter().filter(|later| has_begun(later, first) && later.is_before(first));
        for later in later {
            let mine = |begin: &&&Event| has_begun(begin, first) && lease(begin) == lease(first);
            let mine = events.iter().find(mine).filter(|mine| mine.is_before(later));
            if holds(first) && mine.is_some() {
                return Err(format!("two leases are live: {later:?}, then {first:?}"));
            }
        }
        let revision = first.queue_revision.unwrap_or_default();
        if revision > history.last.queue_revision {
            return Err(format!("the queue's revision went back after {first:?}"));
        }
    }
    Ok(())
}

/// What holds for any two events.
fn pair(first: &Event, second: &Event) -> Result<(), String> {
    let broken = |what: &str| Err(format!("{what}: {first:?}, then {second:?}"));
    let is_before = first.is_before(second);
    if let (Some(one), Some(other)) = (first.queue_revision, second.queue_revision)
        && is_before
        && one >= other
    {
        return broken("the queue's revision does not grow");
    }
    if entry(first) != entry(second) || entry(first).is_none() {
        return Ok(());
    }
    let (one, other) = (counters(first), counters(second));
    if let (Some((one, _)), Some((other, _))) = (one, other)
        && (one == other || (is_before && one > other))
    {
        return broken("a generation does not grow");
    }
    if let (Some((_, one)), Some((_, other))) = (one, other)
        && is_before
        && one > other
    {
        return broken("a revision goes back");
    }
    Ok(())
}

/// Whether a lease began with it, on the entry of the other one.
fn has_begun(begin: &Event, other: &Event) -> bool {
    matches!(begin.answer, Answer::Begun { .. }) && entry(begin) == entry(other)
}

/// Whether it shows that its lease is live.
fn holds(event: &Event) -> bool {
    match &event.call.ask {
        Ask::Renew { .. } | Ask::Save { .. } | Ask::End { .. } => {
            !matches!(event.answer, Answer::Refused(_) | Answer::Lost | Answer::Unknown(_))
        }
        Ask::Begin { .. }
        | Ask::Remove { .. }
        | Ask::Merge { .. }
        | Ask::SendNow { .. }
        | Ask::Drain
        | Ask::AutoRun { .. }
        | Ask::Admit { .. }
        | Ask::Reconnect
        | Ask::Advance { .. } => false,
    }
}

/// Which lease it is about.
fn lease(event: &Event) -> Option<u32> {
    match event.call.ask {
        Ask::Begin { .. } => Some(event.call.number),
        Ask::Renew { lease, .. } | Ask::Save { lease, .. } | Ask::End { lease, .. } => Some(lease),
        Ask::Remove { .. }
        | Ask::Merge { .. }
        | Ask::SendNow { .. }
        | Ask::Drain
        | Ask::AutoRun { .. }
        | Ask::Admit { .. }
        | Ask::Reconnect
        | Ask::Advance { .. } => None,
    }
}

/// Whose lease it is about.
fn entry(event: &Event) -> Option<u32> {
    match event.call.ask {
        Ask::Begin { entry }
        | Ask::Renew { entry, .. }
        | Ask::Save { entry, .. }
        | Ask::End { entry, .. } => Some(entry),
        Ask::Remove { .. }
        | Ask::Merge { .. }
        | Ask::SendNow { .. }
        | Ask::Drain
        | Ask::AutoRun { .. }
        | Ask::Admit { .. }
        | Ask::Reconnect
        | Ask::Advance { .. } => None,
    }
}

/// The generation of the lease and the revision of the entry.
fn counters(event: &Event) -> Option<(u64, u64)> {
    match event.answer {
        Answer::Begun { generation, revision, .. } | Answer::Renewed { generation, revision } => {
            Some((generation, revision))
        }
        _ => None,
    }
}
