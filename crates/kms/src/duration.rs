//! Durations as flags take them.

use std::time::Duration;

/// A duration as Go programs take it: `90s`, `1m30s`, `500ms`. It must be longer than nothing.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration: use one like 500ms, 90s or 1m30s");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
        let (number, after) = rest.split_at(digits);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let number: u64 = number.parse().map_err(|_| refused())?;
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(refused()),
        };
        let part = number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(refused)?;
        total = total.checked_add(part).ok_or_else(refused)?;
        rest = after;
    }
    if total.is_zero() { Err(refused()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, milliseconds) in [("500ms", 500), ("90s", 90_000), ("1m30s", 90_000), ("2h", 7_200_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)));
        }
        for text in ["", "0s", "5", "s", "-1s", "1d", "1s ", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
