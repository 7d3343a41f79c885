//! Go durations in nanoseconds, as used by existing manifests and by the configuration files of seid.

/// Nanoseconds in a microsecond.
const MICROSECOND: i64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: i64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds in a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Nanoseconds in an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// Parses a signed duration such as `1h30m` or `1.5ms`, or a bare `0`.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanoseconds, after) = parse_term(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Parses the first term. Returns it with the rest of the text.
fn parse_term(text: &str) -> Option<(i128, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (unit, rest) =
        rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    let unit = i128::from(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    });
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Truncated like in Go: more digits do not change the nanoseconds.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some((whole.checked_mul(unit)?.checked_add(part * unit / scale)?, rest))
}

/// Formats nanoseconds: below a second in one unit, otherwise as hours, minutes and seconds like `1h0m0s`.
#[must_use]
pub fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    let (second, minute) = (SECOND.unsigned_abs(), MINUTE.unsigned_abs());
    if total == 0 {
        return "0s".into();
    }
    if total < second {
        let (unit, name) = match total {
            t if t < MICROSECOND.unsigned_abs() => (1, "ns"),
            t if t < MILLISECOND.unsigned_abs() => (MICROSECOND.unsigned_abs(), "µs"),
            _ => (MILLISECOND.unsigned_abs(), "ms"),
        };
        return format!("{sign}{}{name}", decimal(total, unit));
    }
    let seconds = decimal(total % minute, second);
    let minutes = total / minute;
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Formats a number in units, without trailing zeros.
fn decimal(total: u64, unit: u64) -> String {
    let (whole, part) = (total / unit, total % unit);
    if part == 0 {
        return whole.to_string();
    }
    let places = unit.ilog10() as usize;
    format!("{whole}.{part:0places$}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_follows_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+0", 0),
            ("0s", 0),
            ("100ms", 100 * MILLISECOND),
            ("1.5h", 90 * MINUTE),
            ("1h30m", 90 * MINUTE),
            ("-5s", -5 * SECOND),
            ("1500us", 1_500_000),
            ("1µs", 1_000),
            (".5s", SECOND / 2),
            ("1.s", SECOND),
            ("2562047h47m16.854775807s", i64::MAX),
            ("0.3333333333333333333h", 20 * MINUTE - 1),
        ] {
            assert_eq!(parse(text), Some(nanoseconds), "{text}");
        }
        for text in
            ["", "10", "1d", " 1s", "1s ", "s", ".s", "-", "1h-1m", "2562047h47m16.854775808s", "1e3s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn format_follows_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (1_500_000, "1.5ms"),
            (100 * MILLISECOND, "100ms"),
            (2 * SECOND, "2s"),
            (MINUTE, "1m0s"),
            (168 * HOUR, "168h0m0s"),
            (90 * MINUTE, "1h30m0s"),
            (-5 * SECOND, "-5s"),
            (SECOND + 1, "1.000000001s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(nanoseconds), text);
        }
    }
}
