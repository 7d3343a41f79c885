//! Token amounts.

use std::fmt;

/// Error returned for an invalid amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    /// Malformed.
    #[error(
        "invalid amount {0:?}: expected <number><denom>, for example 1000usei; separate several with commas"
    )]
    Syntax(String),
    /// Does not fit into 128 bits.
    #[error("amount {0:?} exceeds the maximum of {max}", max = u128::MAX)]
    Overflow(String),
    /// A denomination is listed duplicate.
    #[error("duplicate denomination {0}; list it once with the total amount")]
    Duplicate(String),
    /// Zero or several amounts where exactly one is required.
    #[error("invalid amount {0:?}: expected exactly one non-zero amount, for example 1000usei")]
    NotSingle(String),
}

/// Amount of one token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coin {
    /// Denomination, such as `usei`.
    pub denomination: String,
    /// Amount. The default genesis balance is 10^21, which does not fit into 64 bits.
    pub amount: u128,
}

impl fmt::Display for Coin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.amount, self.denomination)
    }
}

/// Amounts of several tokens, sorted by denomination. seid panics if they are not sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coins(Vec<Coin>);

impl Coins {
    /// Parses comma-separated amounts. Fractions are truncated; zero amounts are dropped.
    pub fn parse(text: &str) -> Result<Self, CoinError> {
        let mut coins = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            coins.push(parse_coin(part.trim())?);
        }
        coins.retain(|coin| coin.amount > 0);
        coins.sort();
        let duplicate = coins.windows(2).find(|pair| pair[0].denomination == pair[1].denomination);
        match duplicate {
            Some(pair) => Err(CoinError::Duplicate(pair[0].denomination.clone())),
            None => Ok(Self(coins)),
        }
    }

    /// Returns the amounts, sorted by denomination.
    #[must_use]
    pub fn as_slice(&self) -> &[Coin] {
        &self.0
    }

    /// Returns the amount of one denomination, 0 if absent.
    #[must_use]
    pub fn amount_of(&self, denomination: &str) -> u128 {
        self.0.iter().find(|coin| coin.denomination == denomination).map_or(0, |coin| coin.amount)
    }

    /// Reports whether every amount in `other` is covered.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|coin| self.amount_of(&coin.denomination) >= coin.amount)
    }
}

impl Coin {
    /// Parses exactly one non-zero amount.
    pub fn parse(text: &str) -> Result<Self, CoinError> {
        match Coins::parse(text)?.0.as_slice() {
            [coin] => Ok(coin.clone()),
            _ => Err(CoinError::NotSingle(text.into())),
        }
    }
}

fn parse_coin(text: &str) -> Result<Coin, CoinError> {
    let invalid = || CoinError::Syntax(text.into());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
    let (number, denomination) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let denomination = denomination.trim_start();
    if number.is_empty() || fraction.is_empty() || fraction.contains('.') || !is_denomination(denomination) {
        return Err(invalid());
    }
    let overflow = |_| CoinError::Overflow(text.into());
    let amount = if whole.is_empty() { 0 } else { whole.parse().map_err(overflow)? };
    Ok(Coin { denomination: denomination.into(), amount })
}

/// Reports whether `text` is a valid denomination.
pub(crate) fn is_denomination(text: &str) -> bool {
    let bytes = text.as_bytes();
    let valid_start = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    let valid_chars = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/' || *byte == b'-');
    valid_start && valid_chars && (3..=128).contains(&bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_are_parsed_like_seid() {
        let normalize = |text: &str| {
            let coins = Coins::parse(text).unwrap();
            coins.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(normalize("10.9usei"), "10usei");
        assert_eq!(normalize("2 usei, 1uatom"), "1uatom,2usei");
        assert_eq!(normalize(".5usei"), "");
        assert_eq!(normalize(""), "");
        assert_eq!(normalize("0usei,7uatom"), "7uatom");
        let default = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";
        assert_eq!(
            normalize(default),
            "1000000000000000000000uatom,1000000000000000000000usei,1000000000000000000000uusdc"
        );
    }

    #[test]
    fn invalid_coins_are_rejected() {
        for text in ["usei", "10", "1.usei", "1.2.3usei", "10 u", "-1usei", "10us_ei", "1usei,", "1e3 usei x"]
        {
            assert!(matches!(Coins::parse(text), Err(CoinError::Syntax(_))), "{text}");
        }
        assert_eq!(Coins::parse("1usei,2usei"), Err(CoinError::Duplicate("usei".into())));
        assert!(matches!(Coins::parse(&format!("{}usei", "9".repeat(40))), Err(CoinError::Overflow(_))));
        assert!(matches!(Coin::parse("1usei,2uatom"), Err(CoinError::NotSingle(_))));
        assert!(matches!(Coin::parse("0usei"), Err(CoinError::NotSingle(_))));
    }
}
