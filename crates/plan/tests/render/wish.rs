//! What is wanted now, in one hash.

use std::collections::BTreeMap;

use plan::render;

use crate::{cases, node};

#[test]
fn the_wish_changes_with_whatever_is_rendered_and_with_nothing_else() {
    let platform = cases::platform();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for case in cases::all() {
        let (node, same) = (self::node(&case.name), self::node(&case.name));
        let wish = render::wish(&node, &platform);
        assert_eq!(wish, render::wish(&same, &platform));
        assert!(wish.len() == 16 && wish.bytes().all(|byte| byte.is_ascii_hexdigit()), "{wish}");
        let rendered = format!("{:?}{:?}", cases::own_objects(&node), cases::bootstrap_objects(&node));
        let before = seen.insert(wish, rendered.clone());
        assert!(before.is_none_or(|before| before == rendered), "{}", case.name);
    }
    let node = node("full");
    let mut other = cases::platform();
    other.exporter_image = "images.example/exporter:v4".into();
    assert_ne!(render::wish(&node, &platform), render::wish(&node, &other));
    let mut noted = node.clone();
    noted.metadata.annotations = Some([("note".into(), "of a person".into())].into());
    assert_eq!(render::wish(&node, &platform), render::wish(&noted, &platform));
}
