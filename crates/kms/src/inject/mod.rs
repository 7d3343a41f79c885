//! `outrigger kms-inject`: plugins and the reporter into a pod, from files or on a cluster.

mod args;
mod changes;
mod document;
mod live;
mod secret;

use std::path::Path;

use plan::kms::inject::{Beside, Options, Reporter, inject};
use plan::kms::plugin::{Files, Refusal};
use serde_json::Value;

pub use self::args::{Args, Form, Notation, ObjectName};
use self::document::Document;
use self::live::Cluster;
use self::secret::Found;

/// Why nothing was put into a pod.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was asked wrongly: how, and what to do.
    #[error("{0}")]
    Usage(String),
    /// The secret or the pod does not fit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A file cannot be read.
    #[error("reading {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A document is not what was expected.
    #[error("{from}: {why}")]
    Document {
        /// Where it comes from.
        from: String,
        /// What is wrong, and the fix.
        why: String,
    },
    /// There is no way to the API server.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// The API server did not do what was asked.
    #[error("{what}: {source}")]
    Api {
        /// What was asked.
        what: String,
        /// Its answer.
        source: Box<kube::Error>,
    },
    /// The API server did not answer.
    #[error("{what}: no answer within {} s", live::WITHIN.as_secs())]
    Late {
        /// What was asked.
        what: String,
    },
    /// Somebody else was faster.
    #[error("{0} has changed meanwhile: run it again")]
    Stale(String),
    /// `--check`: the pod is not as it should be.
    #[error("{from} is not as the secret says: {}", changes.join("; "))]
    WouldChange {
        /// The pod.
        from: String,
        /// What differs.
        changes: Vec<String>,
    },
}

/// What to tell a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// For standard output.
    pub output: String,
    /// For standard error: what happened to things outside.
    pub note: Option<String>,
}

/// Does what the arguments say.
pub async fn run(args: Args) -> Result<Told, Error> {
    args.check()?;
    let cluster = Cluster::new(&args);
    let mut document = match (&args.pod.filename, &args.pod.deployment, &args.pod.static_pod) {
        (Some(file), ..) => Document::read(&shown(file), &text_of(file)?)?,
        (_, Some(name), _) => cluster.deployment(name).await?,
        (_, _, Some(name)) => cluster.static_pod(name).await?,
        // One of them is required.
        _ => return Err(Error::Document { from: "the arguments".into(), why: "no pod was named".into() }),
    };
    let (content, name) = match secret::find(&args, &cluster).await? {
        Found::Secret { content, name } => (content, name),
        Found::Absent(what) => {
            let note = format!("{what} is not there: the pod is left as it is");
            return Ok(Told { output: printed(&args, &document)?, note: Some(note) });
        }
    };
    let before = document.pod().clone();
    let after = inject(&before, &content, &options(&args, &document, name))?;
    let changes = changes::between(&before, &after);
    document.set_pod(after.clone())?;
    if args.check {
        if changes.is_empty() {
            return Ok(Told { output: String::new(), note: None });
        }
        return Err(Error::WouldChange { from: document.from().to_owned(), changes });
    }
    if args.apply {
        let done = if changes.is_empty() {
            "unchanged".to_owned()
        } else {
            cluster.apply(&document, &after).await?;
            format!("changed: {}", changes.join("; "))
        };
        return Ok(Told { output: format!("{} {done}\n", document.from()), note: None });
    }
    Ok(Told { output: printed(&args, &document)?, note: None })
}

fn options(args: &Args, document: &Document, secret: String) -> Options {
    let form = args.form.unwrap_or_else(|| document.form());
    let files = match form {
        Form::Deployment => Files::Secret(secret),
        Form::Static => Files::Resources(args.disk_secret_name.clone().unwrap_or(secret)),
    };
    let reporter = Reporter {
        image: args.reporter_image.clone(),
        command: args.reporter_command.clone(),
        args: args.reporter_arg.clone(),
    };
    Options { container: args.container.clone(), files, beside: Beside::Reporter(reporter) }
}

fn printed(args: &Args, document: &Document) -> Result<String, Error> {
    // Whoever only checks, or changes what is on the cluster, has no use for the document.
    if args.check || args.apply {
        return Ok(String::new());
    }
    document.print(args.output)
}

/// The text of a file, or of standard input for `-`.
fn text_of(path: &Path) -> Result<String, Error> {
    let read = if is_standard_input(path) {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|source| Error::Read { path: shown(path), source })
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn shown(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// A document in YAML, which JSON is too.
fn parse(from: &str, text: &str) -> Result<Value, Error> {
    let wrong = |why: String| Error::Document { from: from.into(), why };
    serde_saphyr::from_str(text).map_err(|error| {
        wrong(format!("it is no single document in YAML or JSON: {}", error.to_string().replace('\n', " ")))
    })
}
