//! Durations as Go programs take them.

use std::time::Duration;

/// Units, with their nanoseconds. Those that others begin with come later.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// Reads `30s`, `1m30s`, `1.5h`, `300ms`, `0`. What is negative is no time: zero.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no duration: use one like 500ms, 30s or 1m30s");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(refused());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refused)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| refused())?;
        let unit_ends = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        let (_, factor) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(refused)?;
        nanoseconds += number * factor;
        rest = after;
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    // As long as Go's can be: 292 years.
    Duration::try_from_secs_f64(nanoseconds / 1e9)
        .ok()
        .filter(|time| time.as_secs() < 9_223_372_036)
        .ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("0", 0),
            ("-5s", 0),
            ("+2s", 2_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "30", "s", "1d", "one", "1s2", "-", "9999999h1s9999999999h", ".s", " 1s"] {
            assert!(parse(text).is_err_and(|error| error.contains("use one like")), "{text}");
        }
    }
}
