//! Golden files: all objects of every kind of node, and the objects that every optional field changes.

use serde::Deserialize;
use serde_json::Value;

use crate::{cases, node};

/// A case, and the case that it is based on.
#[derive(Deserialize)]
struct Row {
    name: String,
    base: Option<String>,
}

fn rows() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

#[test]
fn rendered_objects_match_golden_files() {
    for row in rows() {
        let path = format!("crates/plan/tests/render/golden/{}.yaml", row.name);
        testbed::harness::generated::check(&path, &golden(&row)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_golden_file_has_a_case() {
    let names: Vec<String> = rows().into_iter().map(|row| format!("{}.yaml", row.name)).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/render/golden");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name}");
    }
}

fn golden(row: &Row) -> String {
    let objects = objects_of(&row.name);
    let (title, base) = match &row.base {
        None => ("# All rendered objects.\n".to_owned(), Vec::new()),
        Some(base) => (format!("# Objects that differ from {base}.yaml.\n"), objects_of(base)),
    };
    let kinds = |objects: &[Value]| -> Vec<Value> { objects.iter().map(|one| one["kind"].clone()).collect() };
    let remaining = kinds(&objects);
    let removed = kinds(&base).into_iter().filter(|kind| !remaining.contains(kind));
    let removed = removed.map(|kind| format!("# No {}.\n", kind.as_str().unwrap_or_default()));
    let changed = objects.iter().filter(|object| !base.contains(object));
    let changed = changed.map(|object| format!("---\n{}", serde_saphyr::to_string(object).unwrap()));
    [title].into_iter().chain(removed).chain(changed).collect()
}

fn objects_of(case: &str) -> Vec<Value> {
    let node = node(case);
    let mut objects = cases::own_objects(&node);
    objects.extend(cases::bootstrap_objects(&node));
    objects
}
