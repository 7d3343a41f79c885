//! Ledger times: fixed-width text, so that text order is time order.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// A time with nanoseconds as stored in the ledger: `2026-05-18T10:00:05.100000000Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredTime(String);

impl StoredTime {
    /// Parses the time of a row in any form. Older versions trim trailing zeros, which breaks text order.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Timestamp>().ok().map(Self::from)
    }

    /// Returns the stored text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text for clients: without trailing zeros.
    #[must_use]
    pub fn for_clients(&self) -> String {
        let digits = self.0.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{digits}Z")
    }
}

/// The Unix epoch: stands for times that cannot be parsed.
impl Default for StoredTime {
    fn default() -> Self {
        Timestamp::UNIX_EPOCH.into()
    }
}

impl From<Timestamp> for StoredTime {
    fn from(time: Timestamp) -> Self {
        Self(time.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string())
    }
}

impl fmt::Display for StoredTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A strictly increasing clock: a submission time identifies one execution.
#[derive(Debug)]
pub(super) struct Clock {
    last: Timestamp,
}

impl Clock {
    /// Creates a clock whose times are all after those in the ledger, so that a system clock set back does not reorder tasks.
    pub(super) fn after(newest: Option<&StoredTime>) -> Self {
        let newest = newest.and_then(|time| time.0.parse().ok());
        Self { last: newest.unwrap_or(Timestamp::UNIX_EPOCH) }
    }

    pub(super) fn now(&mut self) -> StoredTime {
        self.tick(Timestamp::now())
    }

    fn tick(&mut self, now: Timestamp) -> StoredTime {
        let next = Timestamp::from_nanosecond(self.last.as_nanosecond() + 1).unwrap_or(self.last);
        self.last = now.max(next);
        self.last.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_times_sort_as_text_in_time_order() {
        let (whole, tenth) = ("2026-05-18T10:00:05Z", "2026-05-18T10:00:05.1Z");
        assert!(whole > tenth, "trimmed times do not sort as text");
        let (whole, tenth) = (StoredTime::parse(whole).unwrap(), StoredTime::parse(tenth).unwrap());
        assert!(whole < tenth);
        assert_eq!(tenth.as_str(), "2026-05-18T10:00:05.100000000Z");
        assert_eq!(
            (whole.for_clients().as_str(), tenth.for_clients().as_str()),
            ("2026-05-18T10:00:05Z", "2026-05-18T10:00:05.1Z")
        );
        assert_eq!(StoredTime::parse("2026-05-18T12:00:05.1+02:00").as_ref(), Some(&tenth));
        assert_eq!(StoredTime::parse("yesterday"), None);
    }

    #[test]
    fn clock_is_strictly_increasing() {
        let at: Timestamp = "2026-05-18T10:00:05Z".parse().unwrap();
        let mut clock = Clock::after(Some(&at.into()));
        let (first, second) = (clock.tick(at), clock.tick(Timestamp::UNIX_EPOCH));
        assert_eq!(first.as_str(), "2026-05-18T10:00:05.000000001Z");
        assert_eq!(second.as_str(), "2026-05-18T10:00:05.000000002Z");
    }
}
