//! `outrigger kms-inject`: adds plugins and the reporter to a pod, in files or in the cluster.

mod args;
mod changes;
mod cluster;
mod document;
mod secret;

use std::path::Path;

use plan::kms::inject::{InjectOptions, Reporter, SocketConsumer, inject};
use plan::kms::plugin::{InvalidKmsConfig, PluginFiles};
use serde_json::Value;

pub use self::args::{Args, DocumentFormat, ObjectName, PodForm};
use self::cluster::Cluster;
use self::document::Document;
use self::secret::SecretLookup;

/// Why nothing was injected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// The Secret or the pod cannot be used.
    #[error(transparent)]
    Refused(#[from] InvalidKmsConfig),
    /// A file cannot be read.
    #[error("reading {path}: {source}")]
    Read {
        /// Path of the file.
        path: String,
        /// I/O error.
        source: std::io::Error,
    },
    /// A document is invalid.
    #[error("{from}: {why}")]
    Document {
        /// File or object that the document comes from.
        from: String,
        /// What is invalid, and the fix.
        why: String,
    },
    /// No API client could be created.
    #[error(transparent)]
    Access(#[from] runtime::client::Error),
    /// The API server returned an error.
    #[error("{what}: {source}")]
    Api {
        /// The request.
        what: String,
        /// Its error.
        source: Box<kube::Error>,
    },
    /// The API server did not respond in time.
    #[error("{what}: no response within {} s", cluster::REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// The request.
        what: String,
    },
    /// The Deployment was changed concurrently.
    #[error("{0} was changed concurrently: run the command again")]
    Stale(String),
    /// `--check` found that the pod is out of sync.
    #[error("{from} is out of sync with the Secret: {}", changes.join("; "))]
    WouldChange {
        /// File or object of the pod.
        from: String,
        /// Differences.
        changes: Vec<String>,
    },
}

/// What to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectOutput {
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub note: Option<String>,
}

/// Runs `kms-inject`.
pub async fn run(args: Args) -> Result<InjectOutput, Error> {
    args.validate()?;
    let cluster = Cluster::new(&args);
    let mut document = match (&args.pod.filename, &args.pod.deployment, &args.pod.static_pod) {
        (Some(file), ..) => Document::parse(&display_path(file), &read_input(file)?)?,
        (_, Some(name), _) => cluster.deployment(name).await?,
        (_, _, Some(name)) => cluster.static_pod(name).await?,
        // clap requires one of them.
        _ => return Err(Error::Usage("--filename, --deployment or --static-pod is required".into())),
    };
    let (content, name) = match secret::find(&args, &cluster).await? {
        SecretLookup::Found { content, name } => (content, name),
        SecretLookup::NotFound(what) => {
            let note = format!("{what} not found: the pod is unchanged");
            return Ok(InjectOutput { output: render(&args, &document)?, note: Some(note) });
        }
    };
    let before = document.pod().clone();
    let after = inject(&before, &content, &options(&args, &document, name))?;
    let changes = changes::list_changes(&before, &after);
    document.set_pod(after.clone())?;
    if args.check {
        if changes.is_empty() {
            return Ok(InjectOutput { output: String::new(), note: None });
        }
        return Err(Error::WouldChange { from: document.source().to_owned(), changes });
    }
    if args.apply {
        let result = if changes.is_empty() {
            "unchanged".to_owned()
        } else {
            cluster.update(&document, &after).await?;
            format!("changed: {}", changes.join("; "))
        };
        return Ok(InjectOutput { output: format!("{} {result}\n", document.source()), note: None });
    }
    Ok(InjectOutput { output: render(&args, &document)?, note: None })
}

fn options(args: &Args, document: &Document, secret: String) -> InjectOptions {
    let form = args.form.unwrap_or_else(|| document.form());
    let files = match form {
        PodForm::Deployment => PluginFiles::Secret(secret),
        PodForm::Static => PluginFiles::Resources(args.disk_secret_name.clone().unwrap_or(secret)),
    };
    let reporter = Reporter {
        image: args.reporter_image.clone(),
        command: args.reporter_command.clone(),
        args: args.reporter_arg.clone(),
    };
    InjectOptions { container: args.container.clone(), files, consumer: SocketConsumer::Reporter(reporter) }
}

/// Returns the text of the document, or nothing with `--check` and `--apply`.
fn render(args: &Args, document: &Document) -> Result<String, Error> {
    if args.check || args.apply {
        return Ok(String::new());
    }
    document.serialize(args.output)
}

/// Reads a file, or standard input for `-`.
fn read_input(path: &Path) -> Result<String, Error> {
    let text = if is_standard_input(path) {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| Error::Read { path: display_path(path), source })
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn display_path(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Parses a YAML document. JSON is YAML, too.
fn parse_yaml(source: &str, text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str(text).map_err(|error| {
        let why = format!("not a single YAML or JSON document: {}", error.to_string().replace('\n', " "));
        Error::Document { from: source.into(), why }
    })
}
