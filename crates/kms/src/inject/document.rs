//! A Kubernetes document with a pod spec: where the spec is, and the format of the text.

use serde_json::Value;

use super::{DocumentFormat, Error, PodForm, parse_yaml};

/// ConfigMap key under which operators store a static pod.
const POD_KEY: &str = "pod.yaml";

/// A document with a pod spec.
#[derive(Clone, Debug)]
pub(super) struct Document {
    source: String,
    value: Value,
    format: DocumentFormat,
    location: PodLocation,
    pod: Value,
}

/// Where the pod spec is.
#[derive(Clone, Debug)]
enum PodLocation {
    /// At this JSON pointer.
    Pointer(&'static str),
    /// In a pod that is serialized as text in a ConfigMap.
    ConfigMap { pod: Value, format: DocumentFormat },
}

/// Kinds with a pod spec, and its JSON pointer.
const KINDS: [(&str, &str); 6] = [
    ("Pod", "/spec"),
    ("Deployment", "/spec/template/spec"),
    ("DaemonSet", "/spec/template/spec"),
    ("StatefulSet", "/spec/template/spec"),
    ("ReplicaSet", "/spec/template/spec"),
    ("Job", "/spec/template/spec"),
];

impl Document {
    /// Parses a document. `source` names it in errors.
    pub(super) fn parse(source: &str, text: &str) -> Result<Self, Error> {
        Self::from_value(source, parse_yaml(source, text)?, detect_format(text))
    }

    /// Wraps a parsed document.
    pub(super) fn from_value(source: &str, value: Value, format: DocumentFormat) -> Result<Self, Error> {
        let invalid = |why: &str| Error::Document { from: source.into(), why: why.into() };
        let (location, pod) = match value["kind"].as_str() {
            Some("ConfigMap") => {
                let text = value["data"][POD_KEY].as_str().ok_or_else(|| {
                    invalid("the ConfigMap has no pod.yaml: expected a ConfigMap with a static pod")
                })?;
                let pod = parse_yaml(&format!("pod.yaml in {source}"), text)?;
                let spec = pod["spec"].clone();
                (PodLocation::ConfigMap { pod, format: detect_format(text) }, spec)
            }
            Some(kind) => {
                let pointer = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, pointer)| *pointer);
                let pointer = pointer.ok_or_else(|| {
                    let known: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
                    invalid(&format!("a {kind} has no pod spec: expected {} or ConfigMap", known.join(", ")))
                })?;
                let spec = value.pointer(pointer).cloned().unwrap_or_default();
                (PodLocation::Pointer(pointer), spec)
            }
            None => (PodLocation::Pointer(""), value.clone()),
        };
        if !pod.is_object() {
            return Err(invalid("no pod spec found"));
        }
        Ok(Self { source: source.into(), value, format, location, pod })
    }

    /// Returns the name of the document for messages.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the pod spec.
    pub(super) fn pod(&self) -> &Value {
        &self.pod
    }

    /// Returns the complete document.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the default form for the document's kind.
    pub(super) fn form(&self) -> PodForm {
        match self.location {
            PodLocation::Pointer("/spec/template/spec") => PodForm::Deployment,
            _ => PodForm::Static,
        }
    }

    /// Replaces the pod spec.
    pub(super) fn set_pod(&mut self, spec: Value) -> Result<(), Error> {
        self.pod = spec.clone();
        match &mut self.location {
            PodLocation::Pointer(pointer) => {
                if let Some(old) = self.value.pointer_mut(pointer) {
                    *old = spec;
                }
            }
            PodLocation::ConfigMap { pod, format } => {
                // Unchanged text keeps its formatting.
                if pod["spec"] != spec {
                    pod["spec"] = spec;
                    self.value["data"][POD_KEY] = Value::String(serialize(pod, *format)?);
                }
            }
        }
        Ok(())
    }

    /// Serializes the document, by default in the format it was read in.
    pub(super) fn serialize(&self, format: Option<DocumentFormat>) -> Result<String, Error> {
        serialize(&self.value, format.unwrap_or(self.format))
    }
}

fn detect_format(text: &str) -> DocumentFormat {
    if text.trim_start().starts_with('{') { DocumentFormat::Json } else { DocumentFormat::Yaml }
}

fn serialize(value: &Value, format: DocumentFormat) -> Result<String, Error> {
    let failed = |why: String| Error::Document { from: "serializing the result".into(), why };
    match format {
        DocumentFormat::Yaml => serde_saphyr::to_string(value).map_err(|error| failed(error.to_string())),
        DocumentFormat::Json => {
            let text = serde_json::to_string_pretty(value).map_err(|error| failed(error.to_string()))?;
            Ok(format!("{text}\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pod_spec_is_found_in_every_supported_kind() {
        let spec = json!({ "containers": [] });
        for (kind, pointer) in KINDS {
            let mut value = json!({ "kind": kind, "spec": {} });
            if pointer == "/spec" {
                value["spec"] = spec.clone();
            } else {
                value["spec"]["template"]["spec"] = spec.clone();
            }
            let mut document = Document::parse("a file", &value.to_string()).unwrap();
            assert_eq!(document.pod(), &spec, "{kind}");
            document.set_pod(json!({ "changed": true })).unwrap();
            assert_eq!(document.value.pointer(pointer), Some(&json!({ "changed": true })), "{kind}");
        }
        let bare = Document::parse("a file", "containers: []\n").unwrap();
        assert_eq!(bare.pod(), &spec);
        assert_eq!(bare.serialize(None).unwrap(), "containers: []\n");
        assert_eq!(bare.serialize(Some(DocumentFormat::Json)).unwrap(), "{\n  \"containers\": []\n}\n");
    }

    #[test]
    fn unchanged_static_pod_text_is_not_rewritten() {
        let text = "{\"kind\":\"Pod\",\n   \"spec\":{\"containers\":[]}}";
        let value = json!({ "kind": "ConfigMap", "data": { "pod.yaml": text, "other": "x" } });
        let mut document = Document::from_value("cm", value.clone(), DocumentFormat::Yaml).unwrap();
        document.set_pod(document.pod().clone()).unwrap();
        assert_eq!(document.value, value);
        document.set_pod(json!({ "containers": [1] })).unwrap();
        let written = document.value["data"]["pod.yaml"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(written).unwrap(),
            json!({ "kind": "Pod", "spec": { "containers": [1] } })
        );
        assert_eq!(document.value["data"]["other"], "x");
    }

    #[test]
    fn document_without_pod_spec_is_rejected() {
        for (text, expected) in [
            ("kind: Service", "a Service has no pod spec: expected Pod,"),
            ("kind: ConfigMap", "has no pod.yaml"),
            ("kind: Deployment", "no pod spec found"),
            ("just text", "no pod spec found"),
            ("a: [", "not a single YAML or JSON document"),
            ("a: 1\n---\nb: 2\n", "not a single YAML or JSON document"),
            ("", ""),
        ] {
            let error = Document::parse("a file", text).unwrap_err().to_string();
            assert!(error.starts_with("a file: ") && error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
