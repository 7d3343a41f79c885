//! Deserializes configuration objects: keys are case-insensitive, and unknown keys cause warnings.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A position in the file, and the warnings collected so far.
#[derive(Clone, Debug)]
pub(super) struct Location<'u> {
    pub(super) path: String,
    pub(super) warnings: &'u RefCell<Vec<String>>,
}

impl Location<'_> {
    fn child(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { path, warnings: self.warnings }
    }

    /// Warns about an unknown key, which is almost always a misspelled one: `group` instead of `apiGroup`
    /// denies every request.
    fn warn_unknown_key(&self, key: &str, known: &[&str], suggestion: Option<&str>) {
        let advice = suggestion.or_else(|| closest_key(key, known)).map_or_else(
            || format!("expected one of {}", known.join(", ")),
            |key| format!("did you mean {key}?"),
        );
        let path = self.child(key).path;
        self.warnings.borrow_mut().push(format!("{path} is an unknown key and has no effect: {advice}"));
    }
}

/// An object of the configuration file.
pub(super) trait ConfigObject: Default {
    /// The known keys.
    const KEYS: &'static [&'static str];

    /// Returns the key to suggest for a key that is common in other Kubernetes objects.
    fn suggest(_unknown: &str) -> Option<&'static str> {
        None
    }

    /// Reads the value of a field, whose key is one of [`KEYS`](Self::KEYS).
    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error>;
}

/// A field of an object. Null stands for the default value.
pub(super) struct Field<'f, A> {
    pub(super) key: &'static str,
    map: &'f mut A,
    location: Location<'f>,
}

impl<'de, A: MapAccess<'de>> Field<'_, A> {
    /// Reads a scalar or a list of scalars.
    pub(super) fn value<T: Default + Deserialize<'de>>(self) -> Result<T, A::Error> {
        Ok(self.map.next_value::<Option<T>>()?.unwrap_or_default())
    }

    /// Reads an object.
    pub(super) fn object<O: ConfigObject>(self) -> Result<Option<O>, A::Error> {
        self.map.next_value_seed(object(&self.location))
    }

    /// Reads a list of objects.
    pub(super) fn list<O: ConfigObject>(self) -> Result<Vec<O>, A::Error> {
        let list = Nullable(ListSeed(&self.location, PhantomData));
        Ok(self.map.next_value_seed(list)?.unwrap_or_default())
    }
}

/// Deserializes null as `None`, and anything else with the inner seed.
pub(super) struct Nullable<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Nullable<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Nullable<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

/// Deserializes an object or null.
pub(super) fn object<'l, 'u, O>(location: &'l Location<'u>) -> Nullable<ObjectSeed<'l, 'u, O>> {
    Nullable(ObjectSeed(location, PhantomData))
}

/// Deserializes an object.
pub(super) struct ObjectSeed<'l, 'u, O>(&'l Location<'u>, PhantomData<O>);

impl<'de, O: ConfigObject> DeserializeSeed<'de> for ObjectSeed<'_, '_, O> {
    type Value = O;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, O: ConfigObject> Visitor<'de> for ObjectSeed<'_, '_, O> {
    type Value = O;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {}", O::KEYS.join(", "))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = O::default();
        while let Some(key) = map.next_key::<String>()? {
            match O::KEYS.iter().find(|known| known.eq_ignore_ascii_case(&key)) {
                Some(key) => {
                    object.read(Field { key, map: &mut map, location: self.0.child(key) })?;
                }
                None => {
                    self.0.warn_unknown_key(&key, O::KEYS, O::suggest(&key));
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(object)
    }
}

/// Deserializes a list of objects.
struct ListSeed<'l, 'u, O>(&'l Location<'u>, PhantomData<O>);

impl<'de, O: ConfigObject> DeserializeSeed<'de> for ListSeed<'_, '_, O> {
    type Value = Vec<O>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, O: ConfigObject> Visitor<'de> for ListSeed<'_, '_, O> {
    type Value = Vec<O>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        loop {
            let path = format!("{}[{}]", self.0.path, objects.len());
            let location = Location { path, warnings: self.0.warnings };
            match seq.next_element_seed(object(&location))? {
                Some(element) => objects.push(element.unwrap_or_default()),
                None => return Ok(objects),
            }
        }
    }
}

/// Returns the known key most similar to an unknown one: at most two edits apart, or one containing the other.
fn closest_key<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let key = key.to_ascii_lowercase();
    let overlaps = |known: &&&str| {
        let known = known.to_ascii_lowercase();
        key.len() > 3 && (known.ends_with(&key) || key.ends_with(&known) || known.starts_with(&key))
    };
    let is_near = |known: &&&str| edit_distance(&key, &known.to_ascii_lowercase()) <= 2;
    known.iter().find(is_near).or_else(|| known.iter().find(overlaps)).copied()
}

/// Returns the Levenshtein distance.
fn edit_distance(left: &str, right: &str) -> usize {
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
