//! The edits: every field set, changed and removed, and every object removed as a whole.

use std::fmt;

use serde_json::Value;

use crate::path::Path;
use crate::schema::{Schema, sample};
use crate::variants::{KINDS, Variant, companions};

/// One edit of a node.
#[derive(Clone, Debug)]
pub struct Edit {
    pub variant: Variant,
    pub action: &'static str,
    pub path: Path,
    /// The spec after the edit.
    pub spec: Value,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.action, self.path, self.variant.name)
    }
}

/// Returns all edits of a variant. Fields that all kinds share are tested on full nodes.
pub fn all(schema: &Schema, variant: &Variant) -> Vec<Edit> {
    let is_tested = |path: &Path| {
        path.root() == variant.kind || (variant.kind == KINDS[0] && !KINDS.contains(&path.root()))
    };
    let edit =
        |action, path: &Path, spec| Edit { variant: variant.clone(), action, path: path.clone(), spec };
    let mut edits = Vec::new();
    for (path, leaf) in schema.leaves().filter(|(path, _)| is_tested(path)) {
        let mut spec = variant.spec.clone();
        let Some(current) = path.get(&variant.spec) else {
            for (companion, value) in companions(path) {
                if companion.get(&spec).is_none() {
                    schema.set(&mut spec, &companion, value);
                }
            }
            schema.set(&mut spec, path, sample(path, leaf, 0));
            edits.push(edit("setting", path, spec));
            continue;
        };
        if let Some(other) = (0..3).map(|number| sample(path, leaf, number)).find(|other| other != current) {
            path.set(&mut spec, other);
            edits.push(edit("changing", path, spec));
        }
        edits.push(edit("removing", path, without(variant, path)));
    }
    for path in schema.parents().filter(|path| is_tested(path) && path.get(&variant.spec).is_some()) {
        // The object that determines the kind cannot be removed.
        if path.0.len() > 1 || path.root() != variant.kind {
            edits.push(edit("removing", path, without(variant, path)));
        }
    }
    // Different edits may result in the same spec.
    let mut different: Vec<Edit> = Vec::new();
    for edit in edits {
        if different.iter().all(|other| other.spec != edit.spec) {
            different.push(edit);
        }
    }
    different
}

fn without(variant: &Variant, path: &Path) -> Value {
    let mut spec = variant.spec.clone();
    path.remove(&mut spec);
    spec
}
