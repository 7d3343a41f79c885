//! Pages for users that are made from the table.

use std::fmt::Write as _;

use chain::config::table::{self, Default, Field};
use chain::config::{Host, Mode};

#[test]
fn the_table_of_settings_is_up_to_date() {
    let mut page = String::from(
        "# Settings of a node

What `spec.overrides` of a node, and the tasks `config-apply` and `config-reload`, can set. A setting without a line of its own for a
mode is the same in all of them. *reload*: a node that runs may be told by `config-reload`; seid reads it at its next start.
Made from the table in `crates/chain`; do not edit.

| setting | kind | default | reload | in the file |
|---|---|---|---|---|
",
    );
    for (field, place) in table::fields() {
        let place = place
            .map_or_else(|| "nowhere".to_owned(), |place| format!("{} `{}`", place.file.name(), place.path));
        let unit = if field.unit.is_empty() { String::new() } else { format!(", {}", field.unit) };
        let fixed = if field.kind.overridable() { "" } else { ", cannot be set" };
        let reload = if field.reloadable { "yes" } else { "" };
        let _ = writeln!(
            page,
            "| `{}` | {}{unit}{fixed} | {} | {reload} | {place} |",
            field.key,
            field.kind.name(),
            defaults(field),
        );
    }
    testbed::harness::generated::check("docs/reference/node-config-fields.md", &page)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn defaults(field: &Field) -> String {
    let workers = "twice the processors, 10 to 128";
    match field.default {
        Default::Moniker => return "the host's name".into(),
        Default::Workers => return format!("{workers}; full, archive: `500`"),
        Default::Pool => return "twice the processors, at most 64".into(),
        Default::Same(_) | Default::Each(_) => {}
    }
    let host = Host { name: String::new(), processors: 1 };
    let of = |mode| {
        field
            .default_in(mode, &host)
            .map_or_else(|| "not written".to_owned(), |value| format!("`{}`", value.literal(field.kind)))
    };
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for mode in Mode::ALL {
        let value = of(mode);
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, modes)) => modes.push(mode.name()),
            None => groups.push((value, vec![mode.name()])),
        }
    }
    match groups.as_slice() {
        [(value, _)] => value.clone(),
        _ => groups
            .iter()
            .map(|(value, modes)| format!("{}: {value}", modes.join(", ")))
            .collect::<Vec<_>>()
            .join("; "),
    }
}
