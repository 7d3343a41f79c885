//! The hash of all desired objects.

use std::collections::BTreeMap;

use plan::render;
use serde_json::Value;

use crate::{cases, node};

fn is_claim(object: &Value) -> bool {
    object["kind"] == "PersistentVolumeClaim"
}

#[test]
fn desired_hash_changes_only_with_rendered_objects() {
    let platform = cases::platform();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for case in cases::all() {
        let (node, same) = (self::node(&case.name), self::node(&case.name));
        let hash = render::desired_hash(&node, &platform);
        assert_eq!(hash, render::desired_hash(&same, &platform));
        assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
        // The claim is resized without a plan.
        let own: Vec<_> = cases::own_objects(&node).into_iter().filter(|one| !is_claim(one)).collect();
        let rendered = format!("{own:?}{:?}", cases::bootstrap_objects(&node));
        let before = known.insert(hash, rendered.clone());
        assert!(before.is_none_or(|before| before == rendered), "{}", case.name);
    }
    let node = node("full");
    let mut other = cases::platform();
    other.exporter_image = "images.example/exporter:v4".into();
    assert_ne!(render::desired_hash(&node, &platform), render::desired_hash(&node, &other));
    let mut annotated = node.clone();
    annotated.metadata.annotations = Some([("note".into(), "text".into())].into());
    assert_eq!(render::desired_hash(&node, &platform), render::desired_hash(&annotated, &platform));
}
