//! Decimal numbers with 18 decimal fraction, like the SDK's `Dec`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const PLACES: usize = 18;
const ONE: u128 = 1_000_000_000_000_000_000;

/// Decimal number, stored multiplied by 10^18.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decimal(u128);

impl Decimal {
    /// One.
    pub const ONE: Self = Self(ONE);

    /// Creates a number from a percentage.
    #[must_use]
    pub const fn from_percent(percent: u8) -> Self {
        Self(ONE / 100 * percent as u128)
    }

    /// Returns the scaled integer, the protobuf encoding.
    pub(super) fn scaled(self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:0PLACES$}", self.0 / ONE, self.0 % ONE)
    }
}

/// Error returned for a malformed decimal number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid decimal number {0:?}: expected at most 18 decimal fraction")]
pub struct InvalidDecimal(String);

impl FromStr for Decimal {
    type Err = InvalidDecimal;

    fn from_str(text: &str) -> Result<Self, InvalidDecimal> {
        let parse = || {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(fraction) || fraction.len() > PLACES {
                return None;
            }
            let fraction: u128 = format!("{fraction:0<PLACES$}").parse().ok()?;
            whole.parse::<u128>().ok()?.checked_mul(ONE)?.checked_add(fraction).map(Self)
        };
        parse().ok_or_else(|| InvalidDecimal(text.into()))
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
    fn decimal_round_trips_and_rejects_malformed_text() {
        let rate = Decimal::from_percent(10);
        assert_eq!(rate.to_string(), "0.100000000000000000");
        assert_eq!(rate.scaled(), "100000000000000000");
        assert_eq!("0.1".parse(), Ok(rate));
        assert_eq!("1".parse(), Ok(Decimal::ONE));
        for text in ["", ".5", "1.", "-1", "0.1234567890123456789", "1e3", "340282366920938463464"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }
}
