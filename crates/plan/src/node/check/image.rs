//! Syntax of image references, as container runtimes parse them: `[host[:port]/]path[:tag][@digest]`.

/// The longest name that registries accept, without tag and digest.
const MAX_NAME: usize = 255;

/// The longest tag.
const MAX_TAG: usize = 128;

/// Returns what is wrong with an image reference.
pub(super) fn problem(reference: &str) -> Option<&'static str> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    // A colon before the last slash belongs to the port of the host.
    let tag_start = rest.rfind(':').filter(|colon| !rest[*colon..].contains('/'));
    let (name, tag) = match tag_start {
        Some(colon) => (&rest[..colon], Some(&rest[colon + 1..])),
        None => (rest, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Some("the digest must be sha256: and 64, or sha512: and 128 lower case hexadecimal digits");
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Some(
            "a tag has letters, digits, '_', '.' and '-', starts with none of the last two, and is not empty",
        );
    }
    if name.is_empty() || name.len() > MAX_NAME {
        return Some("the name must have 1 to 255 characters");
    }
    let path = match name.split_once('/') {
        Some((host, path)) if is_host_like(host) => {
            if !is_host(host) {
                return Some("the registry must be a host name or an address, with an optional port");
            }
            path
        }
        _ => name,
    };
    let is_valid = path.split('/').all(is_path_component);
    (!is_valid)
        .then_some("path components have lower case letters and digits, separated by '.', '_', '__' or '-'")
}

fn is_digest(digest: &str) -> bool {
    let (hex, length) = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    tag.len() <= MAX_TAG
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

/// Returns whether the first component of a name can only be a host.
fn is_host_like(component: &str) -> bool {
    component == "localhost"
        || component.contains(['.', ':'])
        || component.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", rest),
        Some(_) => return false,
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    is_port && name.split('.').all(is_label)
}

fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    let bytes = component.as_bytes();
    let is_separator = |separator: &[u8]| {
        matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
    };
    let has_word_ends =
        bytes.first().copied().is_some_and(is_word) && bytes.last().copied().is_some_and(is_word);
    has_word_ends
        && bytes.split(|byte| is_word(*byte)).filter(|separator| !separator.is_empty()).all(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_the_distribution_grammar_are_accepted() {
        let digest = format!("sha256:{}", "a0".repeat(32));
        for reference in [
            "sei:0".to_owned(),
            "busybox".into(),
            "test.com:80/repo".into(),
            "test:5000/repo:tag".into(),
            format!("test:5000/repo@{digest}"),
            format!("test:5000/repo:tag@{digest}"),
            format!("repo@sha512:{}", "a0".repeat(64)),
            "localhost/repo_v1.2__3---x/seid:v6.3.0".into(),
            "[2001:db8::1]:5000/repo".into(),
            "xn--n3h.com/myimage:xn--n3h.com".into(),
            "123456789012.dkr.ecr.eu-central-1.amazonaws.com/sei/sei-chain:v6.3.0-rc1".into(),
            "repo:_tag.With-All_9".into(),
        ] {
            assert_eq!(problem(&reference), None, "{reference}");
        }
    }

    #[test]
    fn invalid_references_are_rejected_with_the_part_that_is_wrong() {
        for (reference, part) in [
            ("", "name"),
            (":tag", "name"),
            ("repo:", "tag"),
            ("repo:-tag", "tag"),
            ("repo:a b", "tag"),
            ("repo@sha256:abc", "digest"),
            ("repo@", "digest"),
            ("Uppercase:tag", "path"),
            ("test.com/Uppercase/seid", "path"),
            ("a//b", "path"),
            ("aa/asdf$$^/aa", "path"),
            ("repo..x", "path"),
            ("-repo", "path"),
            ("bad_host.com:80/repo", "registry"),
            ("test:port/repo", "registry"),
            ("[fe80::g]/repo", "registry"),
            ("sei chain:v1", "path"),
        ] {
            let found = problem(reference).unwrap_or_default();
            assert!(found.contains(part), "{reference}: {found:?}");
        }
    }
}
