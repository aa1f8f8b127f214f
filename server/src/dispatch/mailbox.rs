//! What a runner is to do. A session has one open turn, so the newest order of each kind is the
//! only one that still means anything: nothing waits in line and nothing is ever refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use usher_shared::id::TurnId;

use crate::domain::event::TurnStart;

/// What the dispatcher tells a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Run this reserved turn.
    Run(Box<TurnStart>),
    /// Stop this turn.
    Stop(TurnId),
    /// Write what was shown, and end: the server stops. The next start settles an open turn.
    Quit,
}

/// The orders of one runner, seen from both sides.
#[derive(Clone, Default)]
pub(super) struct Mailbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Orders>,
    wake: Notify,
}

#[derive(Default)]
struct Orders {
    run: Option<Box<TurnStart>>,
    stop: Option<TurnId>,
    quit: bool,
    /// The runner is gone.
    closed: bool,
}

impl Mailbox {
    /// Makes the mailbox of a runner that is not there.
    pub(super) fn gone() -> Self {
        let mailbox = Self::default();
        mailbox.close();
        mailbox
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an order. An older one of its kind is of a turn that is over.
    ///
    /// # Errors
    /// The order, if the runner is gone.
    pub(super) fn post(&self, order: Order) -> Result<(), Order> {
        let mut orders = self.lock();
        if orders.closed {
            return Err(order);
        }
        match order {
            Order::Run(start) => orders.run = Some(start),
            Order::Stop(turn) => orders.stop = Some(turn),
            Order::Quit => orders.quit = true,
        }
        drop(orders);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Waits for the next order. Cancel safe.
    pub(super) async fn next(&self) -> Order {
        loop {
            let woken = self.shared.wake.notified();
            if let Some(order) = self.take() {
                return order;
            }
            woken.await;
        }
    }

    /// A stop comes first: of a turn that runs, or of one that is over and needs none. Behind the
    /// order to quit nothing comes any more.
    fn take(&self) -> Option<Order> {
        let mut orders = self.lock();
        if orders.quit {
            return Some(Order::Quit);
        }
        if let Some(turn) = orders.stop.take() {
            return Some(Order::Stop(turn));
        }
        orders.run.take().map(Order::Run)
    }

    /// Closes the mailbox: the runner is gone.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Closes the mailbox if nothing is in it; tells whether it did.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut orders = self.lock();
        orders.closed = orders.run.is_none() && orders.stop.is_none();
        orders.closed
    }

    /// Tells whether the runner is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use usher_shared::id::{IncarnationId, SessionId};
    use uuid::Uuid;

    use super::*;
    use crate::domain::enclosed::Enclosed;
    use crate::domain::message::RunOptions;

    fn run(n: u128) -> Order {
        Order::Run(Box::new(TurnStart {
            session_id: SessionId::from_uuid(Uuid::nil()),
            incarnation_id: IncarnationId::from_uuid(Uuid::nil()),
            turn_id: TurnId::from_uuid(Uuid::from_u128(n)),
            agent: "demo".to_owned(),
            workspace_dir: None,
            text: Arc::from("x"),
            enclosed: Enclosed::default(),
            run: RunOptions::default(),
        }))
    }

    fn stop(n: u128) -> Order {
        Order::Stop(TurnId::from_uuid(Uuid::from_u128(n)))
    }

    #[tokio::test]
    async fn however_many_turns_came_and_went_the_newest_is_run() {
        let mailbox = Mailbox::default();
        for n in 0..1_000 {
            mailbox.post(run(n)).unwrap();
            mailbox.post(stop(n)).unwrap();
        }
        mailbox.post(run(1_000)).unwrap();
        assert_eq!(mailbox.next().await, stop(999));
        assert_eq!(mailbox.next().await, run(1_000));
        assert!(mailbox.close_if_empty());
    }

    #[test]
    fn a_mailbox_with_an_order_does_not_close_and_a_closed_one_takes_none() {
        let mailbox = Mailbox::default();
        mailbox.post(run(1)).unwrap();
        assert!(!mailbox.close_if_empty());
        let empty = Mailbox::default();
        assert!(empty.close_if_empty());
        assert_eq!(empty.post(run(2)), Err(run(2)));
    }
}
