//! Reading what may be damaged: a panic of the reader becomes an error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};

thread_local! {
    /// Whether this thread reads something that may be damaged.
    static READING: Cell<bool> = const { Cell::new(false) };
}
/// How many threads do.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// How the names of polars' own threads begin.
const POOLS: [&str; 2] = ["polars", "async-executor"];

/// Runs what reads a file of unknown content. The reader of Parquet panics on some damaged files instead of failing;
/// the user gets one sentence either way, and no message of the panic.
///
/// # Errors
/// As `read`, or it panicked.
pub fn unharmed<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    mute_panics_of_readers();
    let before = READING.replace(true);
    READERS.fetch_add(1, Ordering::SeqCst);
    // What `read` has changed is thrown away with its error.
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    READERS.fetch_sub(1, Ordering::SeqCst);
    READING.set(before);
    result.unwrap_or_else(|_| bail!("its content cannot be decoded"))
}

fn mute_panics_of_readers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            let in_pool = thread.name().is_some_and(|name| POOLS.iter().any(|pool| name.starts_with(pool)));
            let reading = READING.get() || in_pool && READERS.load(Ordering::SeqCst) > 0;
            if !reading {
                others(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_a_value_stays_one() {
        assert_eq!(unharmed(|| Ok(1)).unwrap(), 1);
        let lengths: [usize; 0] = [];
        let error = unharmed(|| Ok(lengths[std::hint::black_box(3)])).unwrap_err();
        assert!(error.to_string().contains("cannot be decoded"), "{error}");
        assert!(!READING.get());
    }
}
