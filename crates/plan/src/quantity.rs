//! Quantities of Kubernetes: as numbers that can be compared, and in the form in which the API server keeps them.

/// Billionths of one: the finest that the API server tells apart.
const NANOS: i128 = 1_000_000_000;

/// Billionths of a thousandth: the finest that the API server keeps of a container's or a volume's resources.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// Decimal suffixes, with their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Binary suffixes, in the order of their powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The size of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// How a quantity was written, which is how it is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// With a suffix of ten, such as `5M`.
    Decimal,
    /// With an exponent of ten, such as `5e6`.
    Exponent,
    /// With a suffix of two, such as `5Mi`.
    Binary,
}

impl Quantity {
    /// Reads a quantity. What is finer than a billionth counts as the next one, as for the API server.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        read(text).map(|(nanos, _)| Self(nanos))
    }
}

/// The form in which the API server keeps a quantity of resources. Whoever writes another one reads back something else than
/// was written, and takes that for somebody's change. Nothing for what is no quantity, and for what the API server keeps as
/// another number (it has no suffix beyond `E`).
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    let (nanos, notation) = read(text)?;
    let millis = divided_away_from_zero(nanos, NANOS_PER_MILLI);
    if millis == 0 {
        return Some("0".into());
    }
    // Binary suffixes have no fractions, and none is needed for less than the first of them.
    if notation == Notation::Binary && millis % 1000 == 0 && millis.abs() >= 1024 * 1000 {
        let (number, times) = without_factors(millis / 1000, 1024);
        let suffix = times.checked_sub(1).map_or(Some(&""), |index| BINARY.get(index))?;
        return Some(format!("{number}{suffix}"));
    }
    let (number, times) = without_factors(millis, 1000);
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

/// The billionths in a quantity, and how it is written.
fn read(text: &str) -> Option<(i128, Notation)> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let suffix_at = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(suffix_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A second point is in the fraction.
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let fraction = i32::try_from(fraction.len()).ok()?;
    let (nanos, notation) = if let Some(index) = BINARY.iter().position(|binary| *binary == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(index).ok()? + 1)?;
        let nanos = scaled(digits.checked_mul(factor)?, 9 - fraction)?;
        (nanos.min(i128::from(i64::MAX) * NANOS), Notation::Binary)
    } else if let Some((_, power)) = DECIMAL.iter().find(|(decimal, _)| *decimal == suffix) {
        (scaled(digits, 9 + power - fraction)?, Notation::Decimal)
    } else {
        let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        (scaled(digits, power.checked_add(9)?.checked_sub(fraction)?)?, Notation::Exponent)
    };
    Some((if negative { -nanos } else { nanos }, notation))
}

/// A number times a power of ten; what is left of a whole counts as one.
fn scaled(number: i128, power: i32) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(factor) if power >= 0 => number.checked_mul(factor),
        Some(factor) => Some(divided_away_from_zero(number, factor)),
        // So small that one billionth is more.
        None if power < 0 => Some(1),
        None => None,
    }
}

fn divided_away_from_zero(number: i128, by: i128) -> i128 {
    number / by + if number % by == 0 { 0 } else { number.signum() }
}

/// A number without all factors of a kind, and how many there were.
fn without_factors(mut number: i128, factor: i128) -> (i128, usize) {
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
        let rising = [
            "-1Ei", "-1", "-1m", "0", "1n", "1u", "999u", "1m", "0.5", "1", "1.5", "999", "1k", "1Ki", "1e4",
            "1M", "1Mi", "1e+7", "1G", "1Gi", "1T", "1Ti", "1P", "1Pi", "1E", "1Ei", "1e21",
        ];
        for pair in rising.windows(2) {
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
    fn what_is_no_quantity_is_refused() {
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
    fn the_canonical_form_has_the_same_value_and_is_its_own() {
        for text in
            ["0.5", "1.5Gi", "1024Mi", "1000m", "1.1Ki", "100Ki", "1e3", "12e7", "-2048", "-2Ki", "1E", "7Ei"]
        {
            let once = canonical(text).unwrap();
            assert_eq!(Quantity::parse(&once), Quantity::parse(text), "{text}");
            assert_eq!(canonical(&once).as_deref(), Some(once.as_str()), "{text}");
        }
        assert_eq!(canonical("1000E"), None, "the API server would keep it as 1");
    }
}
