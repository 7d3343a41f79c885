//! Edits: every leaf set, changed and taken away, and every part taken away as a whole.

use std::fmt;

use serde_json::Value;

use crate::path::Path;
use crate::schema::{Schema, sample};
use crate::specimen::{KINDS, Specimen, companions};

/// One edit of one node.
#[derive(Clone, Debug)]
pub struct Edit {
    pub specimen: Specimen,
    pub what: &'static str,
    pub path: Path,
    /// The spec after it.
    pub spec: Value,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {}", self.what, self.path, self.specimen.name)
    }
}

/// Every edit of a specimen. Leaves that all kinds have are tried on full nodes.
pub fn all(schema: &Schema, specimen: &Specimen) -> Vec<Edit> {
    let root = |path: &Path| {
        path.root() == specimen.kind || (specimen.kind == KINDS[0] && !KINDS.contains(&path.root()))
    };
    let edit = |what, path: &Path, spec| Edit { specimen: specimen.clone(), what, path: path.clone(), spec };
    let mut edits = Vec::new();
    for (path, leaf) in schema.leaves().filter(|(path, _)| root(path)) {
        let mut spec = specimen.spec.clone();
        let Some(there) = path.get(&specimen.spec) else {
            for (beside, value) in companions(path) {
                if beside.get(&spec).is_none() {
                    schema.set(&mut spec, &beside, value);
                }
            }
            schema.set(&mut spec, path, sample(path, leaf, 0));
            edits.push(edit("setting", path, spec));
            continue;
        };
        if let Some(other) = (0..3).map(|number| sample(path, leaf, number)).find(|other| other != there) {
            path.set(&mut spec, other);
            edits.push(edit("changing", path, spec));
        }
        edits.push(edit("removing", path, without(specimen, path)));
    }
    for path in schema.parents().filter(|path| root(path) && path.get(&specimen.spec).is_some()) {
        // The part that says the kind cannot go, and one with nothing in it says nothing.
        if path.0.len() > 1 || path.root() != specimen.kind {
            edits.push(edit("removing", path, without(specimen, path)));
        }
    }
    // Taking away the only thing in a part that is then empty is not the same as taking away the part; the same spec twice is.
    let mut different: Vec<Edit> = Vec::new();
    for edit in edits {
        if different.iter().all(|other| other.spec != edit.spec) {
            different.push(edit);
        }
    }
    different
}

fn without(specimen: &Specimen, path: &Path) -> Value {
    let mut spec = specimen.spec.clone();
    path.remove(&mut spec);
    spec
}
