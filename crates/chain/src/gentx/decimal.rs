//! Decimal numbers with 18 places.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const PLACES: usize = 18;
const ONE: u128 = 1_000_000_000_000_000_000;

/// A number of 18 decimal places, held as 10^18 times itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(u128);

impl Decimal {
    /// One.
    pub const ONE: Self = Self(ONE);

    /// So many hundredths.
    #[must_use]
    pub const fn percent(hundredths: u8) -> Self {
        Self(ONE / 100 * hundredths as u128)
    }

    /// The number as it is signed: a whole one.
    pub(super) fn scaled(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:0PLACES$}", self.0 / ONE, self.0 % ONE)
    }
}

/// A text that is no such number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no decimal number of at most 18 places")]
pub struct NoDecimal(String);

impl FromStr for Decimal {
    type Err = NoDecimal;

    fn from_str(text: &str) -> Result<Self, NoDecimal> {
        let read = || {
            let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(places) || places.len() > PLACES {
                return None;
            }
            let places: u128 = format!("{places:0<PLACES$}").parse().ok()?;
            whole.parse::<u128>().ok()?.checked_mul(ONE)?.checked_add(places).map(Self)
        };
        read().ok_or_else(|| NoDecimal(text.into()))
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_two_spellings() {
        let rate = Decimal::percent(10);
        assert_eq!(rate.to_string(), "0.100000000000000000");
        assert_eq!(rate.scaled(), "100000000000000000");
        assert_eq!("0.1".parse(), Ok(rate));
        assert_eq!("1".parse(), Ok(Decimal::ONE));
        for text in ["", ".5", "1.", "-1", "0.1234567890123456789", "1e3", "340282366920938463464"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }
}
