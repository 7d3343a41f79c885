//! Names and links of an archive: what may stand in them. Pure.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// The parts of a name below the target. Nothing of it may lead outside: no root, no `..`.
pub(super) fn parts(name: &[u8]) -> Option<Vec<&OsStr>> {
    if name.starts_with(b"/") || name.contains(&0) {
        return None;
    }
    let mut parts = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return None,
            part => parts.push(OsStr::from_bytes(part)),
        }
    }
    Some(parts)
}

/// Whether a link in a folder so deep below the target stays inside. It may go up only at its beginning: after a name it would
/// go up from wherever that name leads, which may be another link.
pub(super) fn stays_inside(depth: usize, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return false;
    }
    let (mut up, mut named) = (0, false);
    for part in target.split(|byte| *byte == b'/') {
        match part {
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
    fn names_that_lead_outside_are_none() {
        let read = |name: &str| {
            parts(name.as_bytes()).map(|parts| {
                parts.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>().join("|")
            })
        };
        assert_eq!(read("./1/a"), Some("1|a".into()));
        assert_eq!(read(".hidden//b/"), Some(".hidden|b".into()));
        for bad in ["/etc/passwd", "../a", "a/../../b", "a/..", "..", "a\0b"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn links_that_lead_outside_are_found_also_through_other_links() {
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
