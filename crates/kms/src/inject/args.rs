//! Arguments of `kms-inject`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Error;

/// Arguments of `kms-inject`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub(super) pod: PodArgs,
    #[command(flatten)]
    pub(super) secret: SecretArgs,
    /// With --secret: fail if the Secret does not exist
    #[arg(long)]
    pub(super) require_secret: bool,
    /// Name of the API server's container
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver")]
    pub(super) container: String,
    /// How plugins get their files: from the static pod's resource directory, or from a volume of the Secret; defaults by the kind of the pod
    #[arg(long, value_enum, value_name = "FORM")]
    pub(super) form: Option<PodForm>,
    /// Name of the Secret in the static pod's resource directory; defaults to the name of the Secret
    #[arg(long, value_name = "NAME")]
    pub(super) disk_secret_name: Option<String>,
    /// Image of the reporter
    #[arg(long, env = "OUTRIGGER_KMS_REPORTER_IMAGE", value_name = "IMAGE")]
    pub(super) reporter_image: String,
    /// Program and subcommand of the reporter, comma-separated
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', default_value = "outrigger,kms-reporter")]
    pub(super) reporter_command: Vec<String>,
    /// Additional argument of the reporter; repeatable
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(super) reporter_arg: Vec<String>,
    /// Change nothing; exit with 1 if the pod is out of sync
    #[arg(long, conflicts_with_all = ["apply", "output"])]
    pub(super) check: bool,
    /// With --deployment: update it in the cluster instead of printing it
    #[arg(long, conflicts_with = "output")]
    pub(super) apply: bool,
    /// Output format; defaults to the format of the input
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    pub(super) output: Option<DocumentFormat>,
    /// Path to a kubeconfig; defaults to KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; defaults to its current context
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
}

impl Args {
    /// Rejects combinations that clap cannot: `requires` is not enforced for an argument that conflicts with another one.
    pub(super) fn validate(&self) -> Result<(), Error> {
        if self.apply && self.pod.deployment.is_none() {
            return Err(Error::Usage("--apply requires --deployment".into()));
        }
        if self.require_secret && self.secret.secret.is_none() {
            return Err(Error::Usage("--require-secret requires --secret".into()));
        }
        let both = [&self.pod.filename, &self.secret.secret_file]
            .map(|file| file.as_deref() == Some(Path::new("-")));
        if both == [true, true] {
            return Err(Error::Usage("--filename and --secret-file cannot both be standard input".into()));
        }
        Ok(())
    }
}

/// Source of the pod.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct PodArgs {
    /// File with a Pod, a workload with a pod template, a ConfigMap with a pod.yaml, or a bare pod spec; - for standard
    /// input
    #[arg(long, short, value_name = "FILE")]
    pub(super) filename: Option<PathBuf>,
    /// Deployment in the cluster
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) deployment: Option<ObjectName>,
    /// ConfigMap in the cluster with a static pod as pod.yaml
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) static_pod: Option<ObjectName>,
}

/// Source of the encryption configuration.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct SecretArgs {
    /// File with the encryption-config Secret; - for standard input
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// The encryption-config Secret in the cluster. If it does not exist, the pod is not changed
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) secret: Option<ObjectName>,
}

/// How plugins get their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PodForm {
    /// From the static pod's `resource-dir` volume
    Static,
    /// From a volume of the Secret
    Deployment,
}

/// Format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DocumentFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("expected NAMESPACE/NAME".into()),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
