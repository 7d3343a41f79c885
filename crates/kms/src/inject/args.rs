//! The arguments of `kms-inject`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Error;

/// What to put where.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub(super) pod: PodArgs,
    #[command(flatten)]
    pub(super) secret: SecretArgs,
    /// With --secret: fail when it is not there
    #[arg(long)]
    pub(super) require_secret: bool,
    /// The API server's container
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver")]
    pub(super) container: String,
    /// Where plugins find their files: in those of a static pod, or in a volume of the secret; else by the kind of the pod
    #[arg(long, value_enum, value_name = "FORM")]
    pub(super) form: Option<Form>,
    /// Name of the secret in a static pod's files; else its own
    #[arg(long, value_name = "NAME")]
    pub(super) disk_secret_name: Option<String>,
    /// Image of the reporter
    #[arg(long, env = "OUTRIGGER_KMS_REPORTER_IMAGE", value_name = "IMAGE")]
    pub(super) reporter_image: String,
    /// The reporter's program and subcommand, with commas between
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', default_value = "outrigger,kms-reporter")]
    pub(super) reporter_command: Vec<String>,
    /// A further argument of the reporter; may be given again
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(super) reporter_arg: Vec<String>,
    /// Only look: end with 1 if the pod would change
    #[arg(long, conflicts_with_all = ["apply", "output"])]
    pub(super) check: bool,
    /// With --deployment: change it on the cluster, instead of printing it
    #[arg(long, conflicts_with = "output")]
    pub(super) apply: bool,
    /// How to print; else as it was read
    #[arg(long, short, value_enum, value_name = "NOTATION")]
    pub(super) output: Option<Notation>,
    /// A kubeconfig; else KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
}

impl Args {
    /// What is asked for together and makes no sense together. (Of an argument that excludes another, the parser does not see
    /// that it lacks a third.)
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.apply && self.pod.deployment.is_none() {
            return Err(Error::Usage("--apply needs --deployment: files are printed, not changed".into()));
        }
        if self.require_secret && self.secret.secret.is_none() {
            return Err(Error::Usage("--require-secret needs --secret: a file must always be there".into()));
        }
        let both = [&self.pod.filename, &self.secret.secret_file]
            .map(|file| file.as_deref() == Some(Path::new("-")));
        if both == [true, true] {
            return Err(Error::Usage("--filename and --secret-file cannot both be standard input".into()));
        }
        Ok(())
    }
}

/// Which pod.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct PodArgs {
    /// A file with a pod, something that has a template of pods, a ConfigMap with pod.yaml in it, or a bare pod spec; - is
    /// standard input
    #[arg(long, short, value_name = "FILE")]
    pub(super) filename: Option<PathBuf>,
    /// A Deployment on the cluster
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) deployment: Option<ObjectName>,
    /// A ConfigMap on the cluster that holds a static pod as pod.yaml
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) static_pod: Option<ObjectName>,
}

/// Which encryption configuration.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct SecretArgs {
    /// A file with the encryption-config secret; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// The encryption-config secret on the cluster. One that is not there leaves the pod as it is
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) secret: Option<ObjectName>,
}

/// Where plugins find their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// In the files of a static pod (`resource-dir`).
    Static,
    /// In a volume of the secret.
    Deployment,
}

/// How documents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Notation {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// An object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("it must be NAMESPACE/NAME".into()),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
