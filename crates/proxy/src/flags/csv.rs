//! List flags: comma-separated, with double quotes; repeated flags add up.

/// Parses the values of a list flag; `None` for a quote that is not closed or not at the start of a value.
pub(crate) fn parse_list(flag_values: &[String]) -> Option<Vec<String>> {
    let mut values = Vec::new();
    for line in flag_values.iter().filter(|line| !line.is_empty()) {
        parse_line(line, &mut values)?;
    }
    Some(values)
}

fn parse_line(line: &str, values: &mut Vec<String>) -> Option<()> {
    let mut rest = line;
    loop {
        if let Some(mut quoted) = rest.strip_prefix('"') {
            let mut value = String::new();
            loop {
                let (before, after) = quoted.split_once('"')?;
                value.push_str(before);
                // A doubled quote stands for one.
                match after.strip_prefix('"') {
                    Some(remaining) => {
                        value.push('"');
                        quoted = remaining;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            values.push(value);
            match rest.strip_prefix(',') {
                Some(remaining) => rest = remaining,
                None if rest.is_empty() => return Some(()),
                None => return None,
            }
        } else {
            let (value, remaining) = match rest.split_once(',') {
                Some((value, remaining)) => (value, Some(remaining)),
                None => (rest, None),
            };
            if value.contains('"') {
                return None;
            }
            values.push(value.to_owned());
            match remaining {
                Some(remaining) => rest = remaining,
                None => return Some(()),
            }
        }
    }
}
