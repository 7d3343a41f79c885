//! Lists as flags take them: commas split, double quotes protect, a flag that is repeated adds.

/// The values of a list flag, in their order. `None` for a quote that is opened and not closed, or stands in the middle.
pub(crate) fn split_all(given: &[String]) -> Option<Vec<String>> {
    let mut values = Vec::new();
    for line in given.iter().filter(|line| !line.is_empty()) {
        split(line, &mut values)?;
    }
    Some(values)
}

fn split(line: &str, values: &mut Vec<String>) -> Option<()> {
    let mut rest = line;
    loop {
        if let Some(mut quoted) = rest.strip_prefix('"') {
            let mut value = String::new();
            loop {
                let (before, after) = quoted.split_once('"')?;
                value.push_str(before);
                // Two quotes are one that is meant.
                match after.strip_prefix('"') {
                    Some(more) => {
                        value.push('"');
                        quoted = more;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            values.push(value);
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None if rest.is_empty() => return Some(()),
                None => return None,
            }
        } else {
            let (value, more) = match rest.split_once(',') {
                Some((value, more)) => (value, Some(more)),
                None => (rest, None),
            };
            if value.contains('"') {
                return None;
            }
            values.push(value.to_owned());
            match more {
                Some(more) => rest = more,
                None => return Some(()),
            }
        }
    }
}
