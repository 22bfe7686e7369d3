//! Tells the recorder's threads to stop, without making them wait out their sleep.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A flag that can be waited for.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Asks all who wait, now and later, to stop.
    pub fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for the time given, or until asked to stop; tells whether it was asked.
    pub fn wait(&self, time: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.changed.wait_timeout_while(asked, time, |asked| !*asked);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }
}
