//! Append-only storage for compressed objects.

/// Byte strings in one contiguous allocation. As separate allocations they would sit between short-lived ones and keep pages from
/// being returned to the system: three times the memory in use.
#[derive(Debug, Default)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// Number of bytes that belong to freed entries.
    freed: usize,
}

/// The position of an entry.
#[derive(Debug)]
pub(super) struct Slot {
    start: usize,
    length: usize,
}

impl Arena {
    /// Returns the size in bytes, including freed entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn insert(&mut self, bytes: &[u8]) -> Slot {
        let slot = Slot { start: self.bytes.len(), length: bytes.len() };
        self.bytes.extend_from_slice(bytes);
        slot
    }

    pub(super) fn get(&self, slot: &Slot) -> &[u8] {
        self.bytes.get(slot.start..slot.start + slot.length).unwrap_or_default()
    }

    /// Marks an entry as freed. [`compact`](Self::compact) reclaims its space.
    pub(super) fn free(&mut self, slot: &Slot) {
        self.freed += slot.length;
    }

    /// Returns whether most of the space belongs to freed entries.
    pub(super) fn needs_compaction(&self) -> bool {
        self.freed * 2 > self.bytes.len()
    }

    /// Drops freed entries. `live` must yield the slot of every other entry, and is updated.
    pub(super) fn compact<'s>(&mut self, live: impl Iterator<Item = &'s mut Slot>) {
        let mut bytes = Vec::with_capacity(self.bytes.len().saturating_sub(self.freed));
        for slot in live {
            let start = bytes.len();
            bytes.extend_from_slice(self.get(slot));
            slot.start = start;
        }
        *self = Self { bytes, freed: 0 };
    }
}
