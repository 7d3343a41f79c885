//! Texts that are kept for long, one behind the other.

/// Texts in one piece of memory. In pieces of their own they would lie among those that come and go while a fleet is set up, and
/// keep the pages around them from being given back: three times the memory that is used.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    texts: Vec<u8>,
    /// Bytes of texts that nobody wants any more.
    cleared: usize,
}

/// Where a text is.
#[derive(Debug)]
pub(super) struct Place {
    start: usize,
    length: usize,
}

impl Shelf {
    /// Bytes of all texts, and of those that nobody wants any more.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn put(&mut self, text: &[u8]) -> Place {
        let place = Place { start: self.texts.len(), length: text.len() };
        self.texts.extend_from_slice(text);
        place
    }

    pub(super) fn at(&self, place: &Place) -> &[u8] {
        self.texts.get(place.start..place.start + place.length).unwrap_or_default()
    }

    /// Nobody wants a text any more.
    pub(super) fn clear(&mut self, place: &Place) {
        self.cleared += place.length;
    }

    /// Whether most of it is of texts that nobody wants.
    pub(super) fn is_half_empty(&self) -> bool {
        self.cleared * 2 > self.texts.len()
    }

    /// Moves the texts that are wanted together, which are those at all of these places.
    pub(super) fn tidy<'p>(&mut self, wanted: impl Iterator<Item = &'p mut Place>) {
        let mut texts = Vec::with_capacity(self.texts.len().saturating_sub(self.cleared));
        for place in wanted {
            let start = texts.len();
            texts.extend_from_slice(self.at(place));
            place.start = start;
        }
        *self = Self { texts, cleared: 0 };
    }
}
