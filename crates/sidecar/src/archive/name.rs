//! Validation of entry names and link targets. Pure functions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Splits an entry name into components. Returns `None` for names that could leave the target: absolute paths and `..`.
pub(super) fn components(name: &[u8]) -> Option<Vec<&OsStr>> {
    if name.starts_with(b"/") || name.contains(&0) {
        return None;
    }
    let mut components = Vec::new();
    for component in name.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            component => components.push(OsStr::from_bytes(component)),
        }
    }
    Some(components)
}

/// Returns whether a link at this depth below the target stays inside. `..` is allowed only at the beginning: after a name it
/// would be relative to wherever that name leads, which may be another link.
pub(super) fn stays_inside(depth: usize, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return false;
    }
    let (mut up, mut named) = (0, false);
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if named => return false,
            b".." => up += 1,
            _ => named = true,
        }
    }
    up <= depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_target_are_rejected() {
        let read = |name: &str| {
            components(name.as_bytes()).map(|components| {
                components
                    .iter()
                    .map(|component| component.to_string_lossy().into_owned())
                    .collect::<Vec<_>>()
                    .join("|")
            })
        };
        assert_eq!(read("./1/a"), Some("1|a".into()));
        assert_eq!(read(".hidden//b/"), Some(".hidden|b".into()));
        for bad in ["/etc/passwd", "../a", "a/../../b", "a/..", "..", "a\0b"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn links_outside_the_target_are_rejected() {
        for (depth, target) in [(0, "a"), (1, "../a"), (2, "../../a/b"), (2, "./../b")] {
            assert!(stays_inside(depth, target.as_bytes()), "{depth} {target}");
        }
        for (depth, target) in
            [(0, "/etc"), (0, ".."), (1, "../../a"), (2, "a/../b"), (3, "l/../../.."), (0, "")]
        {
            assert!(!stays_inside(depth, target.as_bytes()), "{depth} {target}");
        }
    }
}
