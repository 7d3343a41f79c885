//! Property tests of incremental changes and patches.

use std::collections::BTreeMap;

use chain::config::table::{self, Kind};
use chain::config::{ConfigError, Files, Intent, Mode, Patchable, patch, resolve, unknown_keys};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value as Json};

use crate::fixture::{full, host};

/// Parseable override; validation may still reject it.
fn one_override() -> impl Strategy<Value = (String, String)> {
    let fields: Vec<_> =
        table::fields().filter(|(field, _)| field.kind.overridable()).map(|(field, _)| field).collect();
    select(fields).prop_flat_map(|field| {
        let value = match field.kind {
            Kind::Bool => select(vec!["true", "no"]).prop_map(str::to_owned).boxed(),
            Kind::Int(min, max) => {
                (min.max(-2)..=max.min(100_000)).prop_map(|number| number.to_string()).boxed()
            }
            Kind::Float => (0.0..2.0_f64).prop_map(|number| number.to_string()).boxed(),
            Kind::Duration => (0..10_000_000_i64).prop_map(|micros| format!("{micros}us")).boxed(),
            Kind::List | Kind::CommaSeparated => "([a-z<>\"\\\\]{1,4}(, ?[a-z]{1,4}){0,3})?".boxed(),
            _ => "[ -\"$-~\u{e9}\u{1f980}\n\t]{0,12}".boxed(),
        };
        (Just(field.key.to_owned()), value)
    })
}

fn overrides() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::vec(one_override(), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}

fn mode() -> impl Strategy<Value = Mode> {
    select(Mode::ALL.to_vec())
}

/// Files of a mode with comments and unknown keys inserted at the given positions.
fn with_foreign_content(mode: Mode, positions: &[u8]) -> Files {
    let files = full(mode.name(), &[]).unwrap().files;
    let with_foreign_content = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (number, position) in positions.iter().enumerate() {
            let at = usize::from(*position) % lines.len();
            lines.insert(at, format!("# comment {number}"));
            lines.insert(at, format!("unknown-{number} = \"{number}\" # beside {number}"));
        }
        lines.join("\n") + "\n\n[unknown-table]\nkey = 1 # why\n"
    };
    Files { config: with_foreign_content(&files.config), app: with_foreign_content(&files.app) }
}

fn comments(text: &str) -> Vec<&str> {
    let mut comments: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('#')).map(|(_, c)| c).collect();
    comments.sort_unstable();
    comments
}

fn apply(overrides: &BTreeMap<String, String>, files: &Files) -> Result<Files, ConfigError> {
    let intent = Intent { overrides: overrides.clone(), incremental: true, ..Intent::default() };
    resolve(&intent, Some(files), &host()).map(|resolved| resolved.files)
}

/// Tree of known and unknown keys.
fn tree() -> impl Strategy<Value = Map<String, Json>> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        "[ -\"$-~]{0,8}".prop_map(Json::from),
        prop::collection::vec(0..9_i64, 0..3).prop_map(Json::from),
    ];
    let names = select(vec!["moniker", "log-level", "mempool", "p2p", "size", "laddr", "new-one", "other"]);
    let object = prop::collection::btree_map(names.clone(), leaf.clone(), 0..4).prop_map(|tree| {
        Json::Object(tree.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    });
    let sections = select(vec!["mempool", "p2p", "new-table"]);
    (
        prop::collection::btree_map(select(vec!["moniker", "log-level", "new-key"]), leaf, 0..3),
        prop::collection::btree_map(sections, object, 0..3),
    )
        .prop_map(|(flat, deep)| {
            flat.into_iter().chain(deep).map(|(name, value)| (name.to_owned(), value)).collect()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn full_intent_is_idempotent(mode in mode(), overrides in overrides()) {
        let intent = Intent { mode: mode.name().into(), overrides, ..Intent::default() };
        if let Ok(first) = resolve(&intent, None, &host()) {
            let second = resolve(&intent, Some(&first.files), &host()).unwrap();
            prop_assert_eq!(&second.files, &first.files);
            // An empty change preserves every byte.
            prop_assert_eq!(apply(&BTreeMap::new(), &first.files).unwrap(), first.files);
        }
    }

    #[test]
    fn change_keeps_unknown_keys_and_is_idempotent(
        mode in mode(), positions in prop::collection::vec(any::<u8>(), 0..6), overrides in overrides()
    ) {
        let before = with_foreign_content(mode, &positions);
        if let Ok(after) = apply(&overrides, &before) {
            prop_assert_eq!(unknown_keys(&after).unwrap(), unknown_keys(&before).unwrap());
            prop_assert_eq!(comments(&after.config), comments(&before.config));
            prop_assert_eq!(comments(&after.app), comments(&before.app));
            prop_assert_eq!(apply(&overrides, &after).unwrap(), after);
        }
    }

    #[test]
    fn patch_keeps_unknown_keys_and_is_idempotent(
        mode in mode(), positions in prop::collection::vec(any::<u8>(), 0..6), tree in tree()
    ) {
        let before = with_foreign_content(mode, &positions);
        let after = patch(Patchable::Config, &before.config, &tree).unwrap();
        let keys = |config: &str| unknown_keys(&Files { config: config.into(), app: String::new() }).unwrap();
        let (old, new) = (keys(&before.config), keys(&after));
        prop_assert!(old.iter().all(|key| new.contains(key)), "{:?} {:?}", old, new);
        let left = comments(&after);
        prop_assert!(comments(&before.config).iter().all(|comment| left.contains(comment)));
        prop_assert_eq!(patch(Patchable::Config, &after, &tree).unwrap(), after);
    }
}
