use usher_shared::vocabulary::AutoRunReason;

use super::super::fixtures::{entry, session};
use super::super::session::SessionKey;
use super::*;

fn source() -> Side {
    Side { session: session(None), reserved: 0 }
}

fn destination(auto_run: AutoRun) -> Side {
    let mut session = session(None);
    session.key = SessionKey(2);
    session.queue.auto_run = auto_run;
    Side { session, reserved: 0 }
}

fn visible() -> Vec<(EntryId, Provenance)> {
    vec![(entry().id, entry().provenance)]
}

#[test]
fn an_entry_reserved_on_either_side_keeps_everything_where_it_is() {
    let (from, to) = (source(), destination(AutoRun::On));
    let busy = |side: &Side| Side { reserved: 1, ..side.clone() };
    for (from, to) in [(busy(&from), to.clone()), (from, busy(&to))] {
        let refused = transfer(&from, visible(), &to);
        assert_eq!(refused.map(|decision| decision.reply), Err(TransferRefusal::Busy));
    }
}

#[test]
fn auto_run_of_the_destination_is_on_only_if_both_were() {
    let (cancelled, failed) =
        (AutoRun::Off(AutoRunReason::Cancelled), AutoRun::Off(AutoRunReason::Failed));
    for (from_run, to_run, expected) in [
        (AutoRun::On, AutoRun::On, AutoRun::On),
        (cancelled, AutoRun::On, cancelled),
        (AutoRun::On, failed, failed),
        (cancelled, failed, failed),
    ] {
        let mut from = source();
        from.session.queue.auto_run = from_run;
        let decision = transfer(&from, visible(), &destination(to_run)).unwrap();
        let set = decision.changes.iter().find_map(|change| match change {
            Change::SetQueue(SessionKey(2), queue) => Some(queue.auto_run),
            _ => None,
        });
        assert_eq!(set, Some(expected));
        let starts = decision.events.iter().any(|(_, event)| *event == Event::MayStart);
        assert_eq!(starts, expected == AutoRun::On);
    }
}
