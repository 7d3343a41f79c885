//! A document with a pod in it: which part of it the pod is, and how it was written.

use serde_json::Value;

use super::{Error, Form, Notation, parse};

/// The key of a ConfigMap under which an operator keeps a static pod.
const POD_KEY: &str = "pod.yaml";

/// A document with a pod in it.
#[derive(Clone, Debug)]
pub(super) struct Document {
    from: String,
    whole: Value,
    notation: Notation,
    place: Place,
    pod: Value,
}

/// Where the pod's spec is.
#[derive(Clone, Debug)]
enum Place {
    /// At this JSON pointer.
    At(&'static str),
    /// In text in the document, which is a pod.
    InText { pod: Value, notation: Notation },
}

/// Kinds that have a pod in them, and where.
const KINDS: [(&str, &str); 6] = [
    ("Pod", "/spec"),
    ("Deployment", "/spec/template/spec"),
    ("DaemonSet", "/spec/template/spec"),
    ("StatefulSet", "/spec/template/spec"),
    ("ReplicaSet", "/spec/template/spec"),
    ("Job", "/spec/template/spec"),
];

impl Document {
    /// Reads a document. `from` names it.
    pub(super) fn read(from: &str, text: &str) -> Result<Self, Error> {
        Self::of(from, parse(from, text)?, notation_of(text))
    }

    /// A document that was read already.
    pub(super) fn of(from: &str, whole: Value, notation: Notation) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Document { from: from.into(), why: why.into() };
        let (place, pod) = match whole["kind"].as_str() {
            Some("ConfigMap") => {
                let text = whole["data"][POD_KEY].as_str().ok_or_else(|| {
                    wrong("the ConfigMap has no pod.yaml: name one that an operator keeps a static pod in")
                })?;
                let pod = parse(&format!("pod.yaml in {from}"), text)?;
                let spec = pod["spec"].clone();
                (Place::InText { pod, notation: notation_of(text) }, spec)
            }
            Some(kind) => {
                let place = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, place)| *place);
                let place = place.ok_or_else(|| {
                    let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
                    wrong(&format!("a {kind} has no pod in it: give a {} or ConfigMap", known.join(", ")))
                })?;
                let spec = whole.pointer(place).cloned().unwrap_or_default();
                (Place::At(place), spec)
            }
            None => (Place::At(""), whole.clone()),
        };
        if !pod.is_object() {
            return Err(wrong("there is no spec of a pod in it: give a whole one"));
        }
        Ok(Self { from: from.into(), whole, notation, place, pod })
    }

    /// What it is called.
    pub(super) fn from(&self) -> &str {
        &self.from
    }

    /// The pod's spec.
    pub(super) fn pod(&self) -> &Value {
        &self.pod
    }

    /// The whole.
    pub(super) fn whole(&self) -> &Value {
        &self.whole
    }

    /// The form that pods of its kind have.
    pub(super) fn form(&self) -> Form {
        match self.place {
            Place::At("/spec/template/spec") => Form::Deployment,
            _ => Form::Static,
        }
    }

    /// Replaces the pod's spec.
    pub(super) fn set_pod(&mut self, spec: Value) -> Result<(), Error> {
        self.pod = spec.clone();
        match &mut self.place {
            Place::At(place) => {
                if let Some(old) = self.whole.pointer_mut(place) {
                    *old = spec;
                }
            }
            Place::InText { pod, notation } => {
                // Text that says the same is not written anew.
                if pod["spec"] != spec {
                    pod["spec"] = spec;
                    self.whole["data"][POD_KEY] = Value::String(text_of(pod, *notation)?);
                }
            }
        }
        Ok(())
    }

    /// Its text.
    pub(super) fn print(&self, notation: Option<Notation>) -> Result<String, Error> {
        text_of(&self.whole, notation.unwrap_or(self.notation))
    }
}

fn notation_of(text: &str) -> Notation {
    if text.trim_start().starts_with('{') { Notation::Json } else { Notation::Yaml }
}

fn text_of(value: &Value, notation: Notation) -> Result<String, Error> {
    let wrong = |why: String| Error::Document { from: "the result".into(), why };
    match notation {
        Notation::Yaml => serde_saphyr::to_string(value).map_err(|error| wrong(error.to_string())),
        Notation::Json => {
            let text = serde_json::to_string_pretty(value).map_err(|error| wrong(error.to_string()))?;
            Ok(format!("{text}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_pod_is_found_in_every_kind_that_has_one() {
        let spec = json!({ "containers": [] });
        for (kind, place) in KINDS {
            let mut whole = json!({ "kind": kind, "spec": {} });
            if place == "/spec" {
                whole["spec"] = spec.clone();
            } else {
                whole["spec"]["template"]["spec"] = spec.clone();
            }
            let mut document = Document::read("a file", &whole.to_string()).unwrap();
            assert_eq!(document.pod(), &spec, "{kind}");
            document.set_pod(json!({ "changed": true })).unwrap();
            assert_eq!(document.whole.pointer(place), Some(&json!({ "changed": true })), "{kind}");
        }
        let bare = Document::read("a file", "containers: []\n").unwrap();
        assert_eq!(bare.pod(), &spec);
        assert_eq!(bare.print(None).unwrap(), "containers: []\n");
        assert_eq!(bare.print(Some(Notation::Json)).unwrap(), "{\n  \"containers\": []\n}\n");
    }

    #[test]
    fn a_static_pod_in_a_config_map_is_rewritten_only_if_it_changes() {
        let text = "{\"kind\":\"Pod\",\n   \"spec\":{\"containers\":[]}}";
        let whole = json!({ "kind": "ConfigMap", "data": { "pod.yaml": text, "other": "x" } });
        let mut document = Document::of("cm", whole.clone(), Notation::Yaml).unwrap();
        document.set_pod(document.pod().clone()).unwrap();
        assert_eq!(document.whole, whole);
        document.set_pod(json!({ "containers": [1] })).unwrap();
        let written = document.whole["data"]["pod.yaml"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(written).unwrap(),
            json!({ "kind": "Pod", "spec": { "containers": [1] } })
        );
        assert_eq!(document.whole["data"]["other"], "x");
    }

    #[test]
    fn what_has_no_pod_is_refused() {
        for (text, said) in [
            ("kind: Service", "a Service has no pod in it: give a Pod,"),
            ("kind: ConfigMap", "has no pod.yaml"),
            ("kind: Deployment", "no spec of a pod"),
            ("just text", "no spec of a pod"),
            ("a: [", "no single document in YAML or JSON"),
            ("a: 1\n---\nb: 2\n", "no single document in YAML or JSON"),
            ("", ""),
        ] {
            let said_now = Document::read("a file", text).unwrap_err().to_string();
            assert!(said_now.starts_with("a file: ") && said_now.contains(said), "{text:?}: {said_now}");
            assert!(!said_now.contains('\n'), "{said_now}");
        }
    }
}
