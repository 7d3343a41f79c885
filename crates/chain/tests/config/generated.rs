//! Reference page generated from the table of settings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chain::config::table::{self, DefaultValue, Field};
use chain::config::{Host, Mode};

/// Tab-separated keys and descriptions.
const DESCRIPTIONS: &str = include_str!("../data/field-descriptions.tsv");

#[test]
fn node_config_fields_page_is_up_to_date() {
    let mut page = String::from(
        "# Node configuration fields

Settings that you can change with `spec.overrides` of a node or with the sidecar tasks `config-apply` and `config-reload`:

```yaml
spec:
  overrides:
    evm.http_port: \"9545\"
    logging.level: debug
```

Unless a mode is named, the default applies to all modes (validator, full, seed, archive). Settings with *reload* `yes` can be
changed with `config-reload`; seid reads the new value when it restarts.

This page is generated from the table in `crates/chain` and `crates/chain/tests/data/field-descriptions.tsv`. Do not edit it.

| setting | description | type | default | reload | location |
|---|---|---|---|---|---|
",
    );
    let descriptions: BTreeMap<&str, &str> =
        DESCRIPTIONS.lines().filter_map(|line| line.split_once('\t')).collect();
    assert!(
        descriptions.keys().copied().eq(table::fields().map(|(field, _)| field.key)),
        "one description per field"
    );
    for (field, location) in table::fields() {
        let location = location.map_or_else(
            || "not written".to_owned(),
            |location| format!("{} `{}`", location.file.name(), location.path),
        );
        let unit = if field.unit.is_empty() { String::new() } else { format!(", {}", field.unit) };
        let read_only = if field.kind.overridable() { "" } else { ", not overridable" };
        let reload = if field.reloadable { "yes" } else { "" };
        let _ = writeln!(
            page,
            "| `{}` | {} | {}{unit}{read_only} | {} | {reload} | {location} |",
            field.key,
            descriptions[field.key],
            field.kind.name(),
            defaults(field),
        );
    }
    testbed::harness::generated::check("docs/reference/node-config-fields.md", &page)
        .unwrap_or_else(|error| panic!("{error}"));
}

fn defaults(field: &Field) -> String {
    let workers = "2 × processors, at least 10, at most 128";
    match field.default {
        DefaultValue::Moniker => return "host name".into(),
        DefaultValue::ConcurrencyWorkers => return format!("{workers}; full, archive: `500`"),
        DefaultValue::EvmWorkers => return "2 × processors, at most 64".into(),
        DefaultValue::Same(_) | DefaultValue::Each(_) => {}
    }
    let host = Host { name: String::new(), processors: 1 };
    let default_literal = |mode| {
        field
            .default_in(mode, &host)
            .map_or_else(|| "not written".to_owned(), |value| format!("`{}`", value.literal(field.kind)))
    };
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for mode in Mode::ALL {
        let value = default_literal(mode);
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
