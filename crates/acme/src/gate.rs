//! The gate of orders: closed while another server may be ordering the same certificates.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use tokio::sync::Notify;

/// The gate. Open at first.
#[derive(Clone, Default)]
pub(super) struct Gate(Rc<State>);

#[derive(Default)]
struct State {
    is_closed: Cell<bool>,
    /// Number of orders in progress.
    orders: Cell<usize>,
    changed: Notify,
}

/// An order in progress.
pub(super) struct Order(Gate);

impl Gate {
    /// Waits until the gate is open, and counts an order in.
    pub(super) async fn enter(&self) -> Order {
        self.wait_until(|state| !state.is_closed.get()).await;
        self.0.orders.set(self.0.orders.get() + 1);
        Order(self.clone())
    }

    /// Lets no further order begin.
    pub(super) fn close(&self) {
        self.0.is_closed.set(true);
    }

    /// Lets orders begin again.
    pub(super) fn open(&self) {
        self.0.is_closed.set(false);
        self.0.changed.notify_waiters();
    }

    /// Waits until no order is in progress.
    pub(super) async fn idle(&self) {
        self.wait_until(|state| state.orders.get() == 0).await;
    }

    async fn wait_until(&self, is_met: impl Fn(&State) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before the check, so that no change is missed.
            changed.as_mut().enable();
            if is_met(&self.0) {
                return;
            }
            poll_fn(|cx| changed.as_mut().poll(cx)).await;
        }
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let state = &self.0.0;
        state.orders.set(state.orders.get().saturating_sub(1));
        state.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        let mut future = std::pin::pin!(future);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_ready()
    }

    #[test]
    fn a_closed_gate_lets_orders_end_and_none_begin() {
        let gate = Gate::default();
        assert!(is_ready(gate.idle()));
        let mut entered = None;
        assert!(is_ready(async { entered = Some(gate.enter().await) }));
        gate.close();
        assert!(!is_ready(gate.idle()) && !is_ready(async { drop(gate.enter().await) }));
        drop(entered);
        assert!(is_ready(gate.idle()) && !is_ready(async { drop(gate.enter().await) }));
        gate.open();
        assert!(is_ready(async { drop(gate.enter().await) }));
    }
}
