//! How others look into a running controller: the driver calls a function with it between two turns.

use std::fmt;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::pulse::{Ages, Pulse};
use crate::runtime::controller::Controller;

/// A question to a controller, asked at a time.
pub type Ask<C> = Box<dyn FnOnce(&C, Timestamp) + Send>;

/// Reaches one driver. Clones reach the same.
pub struct Handle<C: Controller> {
    asks: mpsc::Sender<Ask<C>>,
    pulse: Pulse,
}

// === impl Handle ===

impl<C: Controller> Handle<C> {
    pub(super) fn new(asks: mpsc::Sender<Ask<C>>, pulse: Pulse) -> Self {
        Self { asks, pulse }
    }

    /// Asks the controller something. Nothing if its driver has ended.
    pub async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&C, Timestamp) -> R + Send + 'static,
    ) -> Option<R> {
        let (sender, receiver) = oneshot::channel();
        let ask: Ask<C> = Box::new(move |controller, now| {
            // Whoever asked may have gone.
            let _ = sender.send(question(controller, now));
        });
        self.asks.send(ask).await.ok()?;
        receiver.await.ok()
    }

    /// Where questions go.
    #[must_use]
    pub fn asks(&self) -> &mpsc::Sender<Ask<C>> {
        &self.asks
    }

    /// How the driver is.
    #[must_use]
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// How long things have been going on.
    #[must_use]
    pub fn stats(&self) -> Ages {
        self.pulse.ages()
    }
}

impl<C: Controller> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self {
            asks: self.asks.clone(),
            pulse: self.pulse.clone(),
        }
    }
}

impl<C: Controller> fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({:?})", self.pulse)
    }
}
