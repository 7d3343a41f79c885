//! Times of the ledger: text of fixed width, so that the order of the text is the order of time.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// A time to the nanosecond, as it stands in the ledger: `2026-05-18T10:00:05.100000000Z`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(String);

impl Moment {
    /// The time that a row holds, in whichever form. Older programs cut zeros off the end, which breaks the order of text.
    pub fn read(text: &str) -> Option<Self> {
        text.parse::<Timestamp>().ok().map(Self::from)
    }

    /// The text of the ledger.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text that clients get: without zeros at the end.
    #[must_use]
    pub fn for_clients(&self) -> String {
        let digits = self.0.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        format!("{digits}Z")
    }
}

/// The beginning of time: what stands for a time that cannot be read.
impl Default for Moment {
    fn default() -> Self {
        Timestamp::UNIX_EPOCH.into()
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Tells the time, and never the same twice: a time of submission names one execution.
#[derive(Debug)]
pub(super) struct Clock {
    last: Timestamp,
}

impl Clock {
    /// A clock whose times all are after those that a ledger holds already, so that a machine whose time was set back changes
    /// no order.
    pub(super) fn after(newest: Option<&Moment>) -> Self {
        let newest = newest.and_then(|moment| moment.0.parse().ok());
        Self { last: newest.unwrap_or(Timestamp::UNIX_EPOCH) }
    }

    pub(super) fn now(&mut self) -> Moment {
        self.tick(Timestamp::now())
    }

    fn tick(&mut self, now: Timestamp) -> Moment {
        let next = Timestamp::from_nanosecond(self.last.as_nanosecond() + 1).unwrap_or(self.last);
        self.last = now.max(next);
        self.last.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S18.
    #[test]
    fn s18_times_sort_as_text_whatever_form_they_were_written_in() {
        let (whole, tenth) = ("2026-05-18T10:00:05Z", "2026-05-18T10:00:05.1Z");
        assert!(whole > tenth, "the form of older programs does not sort");
        let (whole, tenth) = (Moment::read(whole).unwrap(), Moment::read(tenth).unwrap());
        assert!(whole < tenth);
        assert_eq!(tenth.as_str(), "2026-05-18T10:00:05.100000000Z");
        assert_eq!(
            (whole.for_clients().as_str(), tenth.for_clients().as_str()),
            ("2026-05-18T10:00:05Z", "2026-05-18T10:00:05.1Z")
        );
        assert_eq!(Moment::read("2026-05-18T12:00:05.1+02:00").as_ref(), Some(&tenth));
        assert_eq!(Moment::read("yesterday"), None);
    }

    #[test]
    fn no_time_is_told_twice_and_none_goes_back() {
        let at: Timestamp = "2026-05-18T10:00:05Z".parse().unwrap();
        let mut clock = Clock::after(Some(&at.into()));
        let (first, second) = (clock.tick(at), clock.tick(Timestamp::UNIX_EPOCH));
        assert_eq!(first.as_str(), "2026-05-18T10:00:05.000000001Z");
        assert_eq!(second.as_str(), "2026-05-18T10:00:05.000000002Z");
    }
}
