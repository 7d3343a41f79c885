//! Amounts of tokens.

use std::fmt;

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    /// It is not written as one.
    #[error("{0:?} is no amount; write it as 1000usei, several with commas")]
    Syntax(String),
    /// More than anybody can hold.
    #[error("{0:?} is more than {max}", max = u128::MAX)]
    TooMuch(String),
    /// One denomination is there twice.
    #[error("{0} is there twice; add the amounts")]
    Twice(String),
    /// One amount was asked for.
    #[error("{0:?} is not one amount; write it as 1000usei")]
    NotOne(String),
}

/// An amount of one token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coin {
    /// The token.
    pub denomination: String,
    /// How many. The controllers' default is 10^21, which 64 bits cannot hold.
    pub amount: u128,
}

impl fmt::Display for Coin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.amount, self.denomination)
    }
}

/// Amounts of several tokens, in the order of their denominations: seid panics at another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coins(Vec<Coin>);

impl Coins {
    /// Reads amounts between commas. What is below one is cut off; what is nothing is left out.
    pub fn parse(text: &str) -> Result<Self, CoinError> {
        let mut coins = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            coins.push(coin(part.trim())?);
        }
        coins.retain(|coin| coin.amount > 0);
        coins.sort();
        let twice = coins.windows(2).find(|pair| pair[0].denomination == pair[1].denomination);
        match twice {
            Some(pair) => Err(CoinError::Twice(pair[0].denomination.clone())),
            None => Ok(Self(coins)),
        }
    }

    /// Each amount.
    #[must_use]
    pub fn as_slice(&self) -> &[Coin] {
        &self.0
    }

    /// How many there are of a token.
    #[must_use]
    pub fn of(&self, denomination: &str) -> u128 {
        self.0.iter().find(|coin| coin.denomination == denomination).map_or(0, |coin| coin.amount)
    }

    /// Whether there is at least as much of everything as in another.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|coin| self.of(&coin.denomination) >= coin.amount)
    }
}

impl Coin {
    /// Reads exactly one amount.
    pub fn parse(text: &str) -> Result<Self, CoinError> {
        match Coins::parse(text)?.0.as_slice() {
            [coin] => Ok(coin.clone()),
            _ => Err(CoinError::NotOne(text.into())),
        }
    }
}

fn coin(text: &str) -> Result<Coin, CoinError> {
    let wrong = || CoinError::Syntax(text.into());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, denomination) = text.split_at(end);
    let (whole, places) = number.split_once('.').unwrap_or((number, "0"));
    let denomination = denomination.trim_start();
    if number.is_empty() || places.is_empty() || places.contains('.') || !is_denomination(denomination) {
        return Err(wrong());
    }
    let too_much = |_| CoinError::TooMuch(text.into());
    let amount = if whole.is_empty() { 0 } else { whole.parse().map_err(too_much)? };
    Ok(Coin { denomination: denomination.into(), amount })
}

/// Whether a text names a token.
pub(crate) fn is_denomination(text: &str) -> bool {
    let bytes = text.as_bytes();
    let first = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    let rest = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/' || *byte == b'-');
    first && rest && (3..=128).contains(&bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_seid_does() {
        let read = |text: &str| {
            let coins = Coins::parse(text).unwrap();
            coins.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(read("10.9usei"), "10usei");
        assert_eq!(read("2 usei, 1uatom"), "1uatom,2usei");
        assert_eq!(read(".5usei"), "");
        assert_eq!(read(""), "");
        assert_eq!(read("0usei,7uatom"), "7uatom");
        let default = "1000000000000000000000usei,1000000000000000000000uusdc,1000000000000000000000uatom";
        assert_eq!(
            read(default),
            "1000000000000000000000uatom,1000000000000000000000usei,1000000000000000000000uusdc"
        );
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["usei", "10", "1.usei", "1.2.3usei", "10 u", "-1usei", "10us_ei", "1usei,", "1e3 usei x"]
        {
            assert!(matches!(Coins::parse(text), Err(CoinError::Syntax(_))), "{text}");
        }
        assert_eq!(Coins::parse("1usei,2usei"), Err(CoinError::Twice("usei".into())));
        assert!(matches!(Coins::parse(&format!("{}usei", "9".repeat(40))), Err(CoinError::TooMuch(_))));
        assert!(matches!(Coin::parse("1usei,2uatom"), Err(CoinError::NotOne(_))));
        assert!(matches!(Coin::parse("0usei"), Err(CoinError::NotOne(_))));
    }
}
