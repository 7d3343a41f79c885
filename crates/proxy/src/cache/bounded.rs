//! A sharded cache bounded in entries and bytes. When it is full, it evicts the entries that were not used
//! since the last eviction scan (CLOCK).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use super::digest::{BuildDigestHasher, Digest};
use runtime::sync::lock;

/// Few enough to sweep quickly, enough that two threads rarely contend.
const SHARDS: usize = 16;

/// Bytes per entry in addition to its value: key, expiry, queue slot.
const OVERHEAD: usize = 128;

/// Bounds of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of entries.
    pub(crate) entries: usize,
    /// Maximum size in bytes.
    pub(crate) bytes: usize,
}

/// A cache bounded in entries and bytes.
#[derive(Debug)]
pub(crate) struct BoundedCache<V> {
    shards: Vec<Mutex<Shard<V>>>,
    per_shard: Limits,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct Shard<V> {
    entries: HashMap<Digest, Entry<V>, BuildDigestHasher>,
    /// Every key once, in eviction order.
    queue: VecDeque<Digest>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    expires_at: Instant,
    size: usize,
    used: bool,
}

impl<V: Clone> BoundedCache<V> {
    /// Creates an empty cache.
    pub(crate) fn new(limits: Limits) -> Self {
        let shard = || Shard { entries: HashMap::default(), queue: VecDeque::new(), bytes: 0 };
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            per_shard: Limits {
                entries: limits.entries.div_ceil(SHARDS),
                bytes: limits.bytes.div_ceil(SHARDS),
            },
            evictions: AtomicU64::new(0),
        }
    }

    /// Returns the value of a key, unless it has expired.
    pub(crate) fn get(&self, key: Digest, now: Instant) -> Option<V> {
        let mut shard = self.shard(key)?;
        let entry = shard.entries.get_mut(&key).filter(|entry| entry.expires_at > now)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// Inserts a value of `size` bytes. A value larger than a whole shard is not cached.
    pub(crate) fn insert(&self, key: Digest, value: V, size: usize, expires_at: Instant) {
        let size = size + OVERHEAD;
        if size > self.per_shard.bytes {
            return;
        }
        let Some(mut shard) = self.shard(key) else { return };
        let entry = Entry { value, expires_at, size, used: false };
        shard.bytes += size;
        match shard.entries.insert(key, entry) {
            Some(old) => shard.bytes -= old.size,
            None => shard.queue.push_back(key),
        }
        while shard.entries.len() > self.per_shard.entries || shard.bytes > self.per_shard.bytes {
            if !shard.evict_one(key) {
                break;
            }
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes expired entries.
    pub(crate) fn sweep(&self, now: Instant) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let Shard { entries, queue, bytes } = &mut *shard;
            queue.retain(|key| {
                let keep = entries.get(key).is_some_and(|entry| entry.expires_at > now);
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

    /// Returns the number of entries and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards
            .iter()
            .map(lock)
            .fold((0, 0), |(entries, bytes), shard| (entries + shard.entries.len(), bytes + shard.bytes))
    }

    /// Returns how many entries were evicted to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    fn shard(&self, key: Digest) -> Option<MutexGuard<'_, Shard<V>>> {
        let index = usize::try_from(key >> 124).unwrap_or_default() % SHARDS;
        self.shards.get(index).map(lock)
    }
}

impl<V> Shard<V> {
    /// Evicts the first entry not used since the previous scan, but never `newest`. Returns whether an entry
    /// was evicted.
    fn evict_one(&mut self, newest: Digest) -> bool {
        // Two rounds: after the first one, no entry is marked as used.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Keys that fall into the same shard.
    fn key(number: u128) -> Digest {
        number
    }

    fn cache(entries: usize, bytes: usize) -> BoundedCache<u32> {
        BoundedCache::new(Limits { entries: entries * SHARDS, bytes: bytes * SHARDS })
    }

    #[test]
    fn entries_expire() {
        let (cache, now) = (cache(4, 10_000), Instant::now());
        cache.insert(key(1), 7, 0, now + Duration::from_secs(10));
        assert_eq!(cache.get(key(1), now), Some(7));
        assert_eq!(cache.get(key(1), now + Duration::from_secs(10)), None);
        cache.insert(key(1), 8, 0, now + Duration::from_secs(30));
        assert_eq!(cache.get(key(1), now + Duration::from_secs(20)), Some(8));
        cache.sweep(now + Duration::from_secs(60));
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn bounds_hold_and_used_entries_stay() {
        let expires_at = Instant::now() + Duration::from_secs(60);
        let many = cache(8, 1_000_000);
        many.insert(key(0), 0, 0, expires_at);
        for number in 1..1_000 {
            assert!(many.get(key(0), Instant::now()).is_some(), "evicted at {number} although it is in use");
            many.insert(key(number), 1, 0, expires_at);
            assert!(many.size().0 <= 8);
        }
        assert_eq!(many.evictions(), 992);
        let large = cache(1_000, 10_000);
        for number in 0..1_000 {
            large.insert(key(number), 1, 1_000, expires_at);
            assert!(large.size().1 <= 10_000);
        }
        assert!(large.size().0 > 5, "some entries fit");
        large.insert(key(5_000), 1, 20_000, expires_at);
        assert_eq!(large.get(key(5_000), Instant::now()), None, "larger than a shard");
    }
}
