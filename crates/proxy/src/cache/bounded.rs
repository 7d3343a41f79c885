//! A store that is bounded in entries and in bytes. When it is full, what was not used since the last look is dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::digest::{ByHalf, Digest};

/// Few enough to be swept quickly, enough that two threads seldom meet.
const SHARDS: usize = 16;

/// What an entry costs beside its value: key, time, place in the queue.
const OVERHEAD: usize = 128;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Entries at most.
    pub(crate) entries: usize,
    /// Bytes at most.
    pub(crate) bytes: usize,
}

/// A bounded store.
#[derive(Debug)]
pub(crate) struct Bounded<V> {
    shards: Vec<Mutex<Shard<V>>>,
    each: Limits,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct Shard<V> {
    entries: HashMap<Digest, Entry<V>, ByHalf>,
    /// Every key once, in the order of looks.
    queue: VecDeque<Digest>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Instant,
    size: usize,
    used: bool,
}

impl<V: Clone> Bounded<V> {
    /// An empty store.
    pub(crate) fn new(limits: Limits) -> Self {
        let shard = || Shard { entries: HashMap::default(), queue: VecDeque::new(), bytes: 0 };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            each: Limits { entries: limits.entries.div_ceil(SHARDS), bytes: limits.bytes.div_ceil(SHARDS) },
            evictions: AtomicU64::new(0),
        }
    }

    /// What is kept under a key, unless its time is over.
    pub(crate) fn get(&self, key: Digest, now: Instant) -> Option<V> {
        let mut shard = self.shard(key)?;
        let entry = shard.entries.get_mut(&key).filter(|entry| entry.until > now)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// Keeps a value of this size. One that is larger than everything may be is not kept.
    pub(crate) fn put(&self, key: Digest, value: V, size: usize, until: Instant) {
        let size = size + OVERHEAD;
        if size > self.each.bytes {
            return;
        }
        let Some(mut shard) = self.shard(key) else { return };
        let entry = Entry { value, until, size, used: false };
        shard.bytes += size;
        match shard.entries.insert(key, entry) {
            Some(old) => shard.bytes -= old.size,
            None => shard.queue.push_back(key),
        }
        while shard.entries.len() > self.each.entries || shard.bytes > self.each.bytes {
            if !shard.drop_one(key) {
                break;
            }
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops everything whose time is over.
    pub(crate) fn sweep(&self, now: Instant) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let Shard { entries, queue, bytes } = &mut *shard;
            queue.retain(|key| {
                let keep = entries.get(key).is_some_and(|entry| entry.until > now);
                if !keep && let Some(old) = entries.remove(key) {
                    *bytes -= old.size;
                }
                keep
            });
            if entries.capacity() > 64 && entries.capacity() > 4 * entries.len() {
                entries.shrink_to_fit();
                queue.shrink_to_fit();
            }
        }
    }

    /// How many entries there are, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards
            .iter()
            .map(lock)
            .fold((0, 0), |(entries, bytes), shard| (entries + shard.entries.len(), bytes + shard.bytes))
    }

    /// How many were dropped to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    fn shard(&self, key: Digest) -> Option<MutexGuard<'_, Shard<V>>> {
        let index = usize::try_from(key >> 124).unwrap_or_default() % SHARDS;
        self.shards.get(index).map(lock)
    }
}

impl<V> Shard<V> {
    /// Drops the first that was not used since it was looked at last; never `newest`. Says whether it could.
    fn drop_one(&mut self, newest: Digest) -> bool {
        // Twice around: after the first, nothing is marked as used.
        for _ in 0..2 * self.queue.len() {
            let Some(key) = self.queue.pop_front() else { return false };
            match self.entries.get_mut(&key) {
                Some(entry) if entry.used || key == newest => {
                    entry.used = false;
                    self.queue.push_back(key);
                }
                Some(_) => {
                    if let Some(old) = self.entries.remove(&key) {
                        self.bytes -= old.size;
                    }
                    return true;
                }
                None => {}
            }
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Keys that fall into one shard.
    fn key(number: u128) -> Digest {
        number
    }

    fn store(entries: usize, bytes: usize) -> Bounded<u32> {
        Bounded::new(Limits { entries: entries * SHARDS, bytes: bytes * SHARDS })
    }

    #[test]
    fn an_entry_is_there_until_its_time_is_over() {
        let (store, now) = (store(4, 10_000), Instant::now());
        store.put(key(1), 7, 0, now + Duration::from_secs(10));
        assert_eq!(store.get(key(1), now), Some(7));
        assert_eq!(store.get(key(1), now + Duration::from_secs(10)), None);
        store.put(key(1), 8, 0, now + Duration::from_secs(30));
        assert_eq!(store.get(key(1), now + Duration::from_secs(20)), Some(8));
        store.sweep(now + Duration::from_secs(60));
        assert_eq!(store.size(), (0, 0));
    }

    /// W8.
    #[test]
    fn neither_entries_nor_bytes_exceed_their_bound_and_what_is_used_stays() {
        let until = Instant::now() + Duration::from_secs(60);
        let many = store(8, 1_000_000);
        many.put(key(0), 0, 0, until);
        for number in 1..1_000 {
            assert!(many.get(key(0), Instant::now()).is_some(), "dropped at {number} although it is used");
            many.put(key(number), 1, 0, until);
            assert!(many.size().0 <= 8);
        }
        assert_eq!(many.evictions(), 992);
        let large = store(1_000, 10_000);
        for number in 0..1_000 {
            large.put(key(number), 1, 1_000, until);
            assert!(large.size().1 <= 10_000);
        }
        assert!(large.size().0 > 5, "there is room for some");
        large.put(key(5_000), 1, 20_000, until);
        assert_eq!(large.get(key(5_000), Instant::now()), None, "larger than everything may be");
    }
}
