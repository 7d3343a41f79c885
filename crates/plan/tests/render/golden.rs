//! Golden files: every kind of node in full, and of every optional part those objects that it changes.

use serde::Deserialize;
use serde_json::Value;

use crate::{cases, node};

/// A case, and the one that it is a change of.
#[derive(Deserialize)]
struct Row {
    name: String,
    base: Option<String>,
}

fn rows() -> Vec<Row> {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

#[test]
fn rendered_objects_are_as_they_were() {
    for row in rows() {
        let path = format!("crates/plan/tests/render/golden/{}.yaml", row.name);
        testbed::harness::generated::check(&path, &golden(&row)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn no_golden_file_is_left_of_a_case_that_is_gone() {
    let names: Vec<String> = rows().into_iter().map(|row| format!("{}.yaml", row.name)).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/render/golden");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name}");
    }
}

fn golden(row: &Row) -> String {
    let now = objects(&row.name);
    let (title, before) = match &row.base {
        None => ("# Everything that is rendered.\n".to_owned(), Vec::new()),
        Some(base) => (format!("# What differs from {base}.yaml.\n"), objects(base)),
    };
    let kinds = |objects: &[Value]| -> Vec<Value> { objects.iter().map(|one| one["kind"].clone()).collect() };
    let left = kinds(&now);
    let gone = kinds(&before).into_iter().filter(|kind| !left.contains(kind));
    let gone = gone.map(|kind| format!("# No {}.\n", kind.as_str().unwrap_or_default()));
    let new = now.iter().filter(|object| !before.contains(object));
    let new = new.map(|object| format!("---\n{}", serde_saphyr::to_string(object).unwrap()));
    [title].into_iter().chain(gone).chain(new).collect()
}

fn objects(case: &str) -> Vec<Value> {
    let node = node(case);
    let mut objects = cases::own_objects(&node);
    objects.extend(cases::bootstrap_objects(&node));
    objects
}
