//! A [`Lock`] is a mutex that a panic does not close.
//!
//! If a thread panics while it holds a mutex of `std`, the mutex is poisoned, and each later
//! `lock()` is an error. Here a panic leaves no value half changed: a value under a lock is changed
//! in steps that cannot panic, or its reader checks it. An error for ever would turn one failed
//! request into an outage, so the poison is ignored.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::Duration;

/// A mutex that a panic does not close.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// Puts a value under a lock.
    pub const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    /// Waits until the lock is free, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock that many may read at a time, and that a panic does not close.
#[derive(Debug, Default)]
pub struct SharedLock<T>(RwLock<T>);

impl<T> SharedLock<T> {
    /// Waits until nothing writes, and reads.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the lock is free, and takes it.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a signal without a limit of time. The lock is free meanwhile.
pub fn wait_for_signal<'l, T>(signal: &Condvar, held: MutexGuard<'l, T>) -> MutexGuard<'l, T> {
    signal.wait(held).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a signal, for `time` at most. The lock is free meanwhile.
pub fn wait_with_timeout<'l, T>(
    signal: &Condvar,
    held: MutexGuard<'l, T>,
    time: Duration,
) -> MutexGuard<'l, T> {
    signal
        .wait_timeout(held, time)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_close_a_lock() {
        let lock = Lock::new(1);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                let _held = lock.lock();
                panic!("while the lock is held");
            });
            assert!(held.join().is_err());
        });
        *lock.lock() += 1;
        assert_eq!(lock.try_lock().as_deref(), Some(&2));
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
    }
}
