//! Reads an object whose keys are told apart without regard to case, and remembers keys that nobody knows.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Where in the file something stands, and what was found unknown so far.
#[derive(Clone, Debug)]
pub(super) struct Place<'u> {
    pub(super) path: String,
    pub(super) warnings: &'u RefCell<Vec<String>>,
}

impl Place<'_> {
    pub(super) fn below(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, warnings: self.warnings }
    }

    /// A key without effect is nearly always one that was meant to have one: a `group` for `apiGroup` denies everybody.
    fn unknown(&self, key: &str, known: &[&str], hint: Option<&str>) {
        let likely = hint.or_else(|| nearest(key, known));
        let meant = likely
            .map_or_else(|| format!("known are {}", known.join(", ")), |key| format!("did you mean {key}?"));
        let place = self.below(key).path;
        self.warnings.borrow_mut().push(format!("{place} is no known key and has no effect: {meant}"));
    }
}

/// An object of the file.
pub(super) trait Record: Default {
    /// Its keys.
    const KNOWN: &'static [&'static str];

    /// The key that somebody means who writes another program's.
    fn hint(_unknown: &str) -> Option<&'static str> {
        None
    }

    /// Takes the value of a key, which is one of the known ones.
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        place: &Place<'_>,
    ) -> Result<(), A::Error>;
}

/// Reads a record; null is none.
pub(super) struct Object<'p, 'u, R>(pub(super) &'p Place<'u>, pub(super) PhantomData<R>);

impl<'p, 'u, R> Object<'p, 'u, R> {
    pub(super) fn at(place: &'p Place<'u>) -> Self {
        Self(place, PhantomData)
    }
}

impl<'de, R: Record> DeserializeSeed<'de> for Object<'_, '_, R> {
    type Value = Option<R>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, R: Record> Visitor<'de> for Object<'_, '_, R> {
    type Value = Option<R>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {}", R::KNOWN.join(", "))
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut record = R::default();
        while let Some(key) = map.next_key::<String>()? {
            match R::KNOWN.iter().find(|known| known.eq_ignore_ascii_case(&key)) {
                Some(known) => record.take(known, &mut map, &self.0.below(known))?,
                None => {
                    self.0.unknown(&key, R::KNOWN, R::hint(&key));
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(record))
    }
}

/// Reads a list of records.
pub(super) struct List<'p, 'u, R>(pub(super) &'p Place<'u>, pub(super) PhantomData<R>);

impl<'de, R: Record> DeserializeSeed<'de> for List<'_, '_, R> {
    type Value = Vec<R>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, R: Record> Visitor<'de> for List<'_, '_, R> {
    type Value = Vec<R>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut records = Vec::new();
        loop {
            let place =
                Place { path: format!("{}[{}]", self.0.path, records.len()), warnings: self.0.warnings };
            match seq.next_element_seed(Object::<R>::at(&place))? {
                Some(record) => records.push(record.unwrap_or_default()),
                None => return Ok(records),
            }
        }
    }
}

/// The known key that is spelled nearly like another: one that holds it or is held by it, or differs by two letters at most.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let key = key.to_ascii_lowercase();
    let holds = |known: &&&str| {
        let known = known.to_ascii_lowercase();
        key.len() > 3 && (known.ends_with(&key) || key.ends_with(&known) || known.starts_with(&key))
    };
    let near = |known: &&&str| distance(&key, &known.to_ascii_lowercase()) <= 2;
    known.iter().find(near).or_else(|| known.iter().find(holds)).copied()
}

/// How many letters differ, are missing or are too many.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut above = i;
        let mut last = i + 1;
        if let Some(first) = row.first_mut() {
            *first = last;
        }
        for (to, cell) in right.iter().zip(row.iter_mut().skip(1)) {
            let changed = above + usize::from(from != *to);
            above = *cell;
            last = changed.min(last + 1).min(above + 1);
            *cell = last;
        }
    }
    row.last().copied().unwrap_or_default()
}
