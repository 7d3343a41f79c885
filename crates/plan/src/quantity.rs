//! Kubernetes quantities: comparison, and the canonical form of the API server.

/// Nano units in one: the precision of the API server.
const NANOS: i128 = 1_000_000_000;

/// Nano units in one milli unit: the precision of stored container and volume resources.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// Decimal suffixes, with their power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Binary suffixes, in the order of their powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A quantity in nano units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// The notation of a quantity. The canonical form keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// With a decimal suffix, such as `5M`.
    Decimal,
    /// With a decimal exponent, such as `5e6`.
    Exponent,
    /// With a binary suffix, such as `5Mi`.
    Binary,
}

impl Quantity {
    /// Parses a quantity. It is rounded up to nano units, as by the API server.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_nanos(text).map(|(nanos, _)| Self(nanos))
    }
}

/// Returns the canonical form in which the API server stores a quantity. Any other form reads back differently than it
/// was written, and would be mistaken for drift. Returns nothing if the quantity is malformed, or if the API server
/// would store another number (it has no suffix beyond `E`).
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    let (nanos, notation) = parse_nanos(text)?;
    let millis = divide_away_from_zero(nanos, NANOS_PER_MILLI);
    if millis == 0 {
        return Some("0".into());
    }
    // A binary suffix takes no fraction, and numbers below 1024 need no suffix.
    if notation == Notation::Binary && millis % 1000 == 0 && millis.abs() >= 1024 * 1000 {
        let (number, times) = remove_factors(millis / 1000, 1024);
        let suffix = times.checked_sub(1).map_or(Some(&""), |index| BINARY.get(index))?;
        return Some(format!("{number}{suffix}"));
    }
    let (number, times) = remove_factors(millis, 1000);
    let exponent = 3 * i32::try_from(times).ok()? - 3;
    match notation {
        Notation::Exponent if exponent == 0 => Some(number.to_string()),
        Notation::Exponent => Some(format!("{number}e{exponent}")),
        Notation::Decimal | Notation::Binary => {
            let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
            Some(format!("{number}{suffix}"))
        }
    }
}

/// Parses a quantity into nano units and its notation.
fn parse_nanos(text: &str) -> Option<(i128, Notation)> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let suffix_at = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(suffix_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // `split_once` leaves a second point in the fraction.
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let fraction = i32::try_from(fraction.len()).ok()?;
    let (nanos, notation) = if let Some(index) = BINARY.iter().position(|binary| *binary == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(index).ok()? + 1)?;
        let nanos = scale(digits.checked_mul(factor)?, 9 - fraction)?;
        (nanos.min(i128::from(i64::MAX) * NANOS), Notation::Binary)
    } else if let Some((_, power)) = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        (scale(digits, 9 + power - fraction)?, Notation::Decimal)
    } else {
        let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (scale(digits, power.checked_add(9)?.checked_sub(fraction)?)?, Notation::Exponent)
    };
    Some((if negative { -nanos } else { nanos }, notation))
}

/// Multiplies a number by a power of ten, rounding away from zero.
fn scale(number: i128, power: i32) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(factor) if power >= 0 => number.checked_mul(factor),
        Some(factor) => Some(divide_away_from_zero(number, factor)),
        // Smaller than one nano unit.
        None if power < 0 => Some(1),
        None => None,
    }
}

fn divide_away_from_zero(number: i128, by: i128) -> i128 {
    number / by + if number % by == 0 { 0 } else { number.signum() }
}

/// Removes all factors of a kind from a number, and counts them.
fn remove_factors(mut number: i128, factor: i128) -> (i128, usize) {
    let mut times = 0;
    while number != 0 && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_by_value() {
        let ascending = [
            "-1Ei", "-1", "-1m", "0", "1n", "1u", "999u", "1m", "0.5", "1", "1.5", "999", "1k", "1Ki", "1e4",
            "1M", "1Mi", "1e+7", "1G", "1Gi", "1T", "1Ti", "1P", "1Pi", "1E", "1Ei", "1e21",
        ];
        for pair in ascending.windows(2) {
            assert!(Quantity::parse(pair[0]).unwrap() < Quantity::parse(pair[1]).unwrap(), "{pair:?}");
        }
        for (one, same) in [
            ("1", "1000m"),
            ("1", "1.000"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("5e-1", "500m"),
            ("+1", "1."),
            (".5", "0.5"),
            ("0.1n", "1n"),
            ("1e-40", "1n"),
            ("-0.1n", "-1n"),
            ("0", "-0Ei"),
            ("8Ei", "16Ei"),
        ] {
            assert_eq!(Quantity::parse(one).unwrap(), Quantity::parse(same).unwrap(), "{one} {same}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "",
            " ",
            "-",
            ".",
            "+.",
            "Ki",
            "m",
            "1 Gi",
            " 1",
            "1gi",
            "1KI",
            "1K",
            "1i",
            "1e",
            "1e1.5",
            "1e3Ki",
            "--1",
            "1.2.3",
            "1,5",
            "0x10",
            "NaN",
            "1e99999999999",
            "1e40",
            "1e2147483647",
            "1_000",
            "١",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
            assert_eq!(canonical(text), None, "{text:?}");
        }
    }

    #[test]
    fn canonical_form_keeps_value_and_is_stable() {
        for text in
            ["0.5", "1.5Gi", "1024Mi", "1000m", "1.1Ki", "100Ki", "1e3", "12e7", "-2048", "-2Ki", "1E", "7Ei"]
        {
            let once = canonical(text).unwrap();
            assert_eq!(Quantity::parse(&once), Quantity::parse(text), "{text}");
            assert_eq!(canonical(&once).as_deref(), Some(once.as_str()), "{text}");
        }
        assert_eq!(canonical("1000E"), None, "the API server would store it as 1");
    }
}
