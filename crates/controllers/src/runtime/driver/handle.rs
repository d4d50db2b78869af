//! The handle by which other tasks query a running controller: the driver calls their function between two turns.

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::liveness::{DriverLiveness, WorkAges};
use crate::runtime::controller::Controller;

/// A function that the driver calls with its controller and the time.
pub type DriverQuery<C> = Box<dyn FnOnce(&C, Timestamp) + Send>;

/// A handle of one running driver. Clones reach the same driver.
pub struct DriverHandle<C: Controller> {
    queries: mpsc::Sender<DriverQuery<C>>,
    liveness: DriverLiveness,
}

// === impl DriverHandle ===

impl<C: Controller> DriverHandle<C> {
    pub(super) fn new(queries: mpsc::Sender<DriverQuery<C>>, liveness: DriverLiveness) -> Self {
        Self { queries, liveness }
    }

    /// Calls `question` with the controller and returns its result; `None` if the driver has ended.
    pub async fn query<R: Send + 'static>(
        &self,
        question: impl FnOnce(&C, Timestamp) -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, receiver) = oneshot::channel();
        let query: DriverQuery<C> = Box::new(move |controller, now| {
            // The caller may have stopped waiting.
            let _ = sender.send(question(controller, now));
        });
        self.queries.send(query).await.ok()?;
        receiver.await.ok()
    }

    /// How long the driver's work has been waiting.
    #[must_use]
    pub fn stats(&self) -> WorkAges {
        self.liveness.ages()
    }
}

impl<C: Controller> Clone for DriverHandle<C> {
    fn clone(&self) -> Self {
        Self {
            queries: self.queries.clone(),
            liveness: self.liveness.clone(),
        }
    }
}
