//! Locks that ignore poisoning.
//!
//! A panic while a lock is held does not leave our data half-written: every critical section is a few assignments. Passing the
//! poison on would turn one failed reconcile into a process that panics forever.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex, whether or not a thread panicked while holding it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a [`RwLock`] for reading, whether or not a thread panicked while holding it.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a [`RwLock`] for writing, whether or not a thread panicked while holding it.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panic_while_holding<G>(acquire: impl FnOnce() -> G + Send) {
        std::thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _guard = acquire();
                panic!("poison the lock");
            });
            assert!(panicked.join().is_err());
        });
    }

    #[test]
    fn poisoned_mutex_can_still_be_locked() {
        let mutex = Mutex::new(1);
        panic_while_holding(|| mutex.lock().unwrap());
        assert!(mutex.is_poisoned());
        *lock(&mutex) += 1;
        assert_eq!(*lock(&mutex), 2);
    }

    #[test]
    fn poisoned_rwlock_can_still_be_read_and_written() {
        let shared = RwLock::new(1);
        panic_while_holding(|| shared.write().unwrap());
        assert!(shared.is_poisoned());
        *write(&shared) += 1;
        assert_eq!(*read(&shared), 2);
    }
}
