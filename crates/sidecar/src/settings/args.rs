//! Command-line flags. The `SEI_*` variables are those of upstream's `seictl serve`.

/// Settings of the sidecar.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) node: NodeArgs,
    #[command(flatten)]
    pub(super) api: ApiArgs,
    #[command(flatten)]
    pub(super) tasks: TaskArgs,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
}

/// The node the sidecar serves.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Node")]
pub(super) struct NodeArgs {
    /// Home directory of the node
    #[arg(long, env = "SEI_HOME", value_name = "DIR", default_value = "/sei")]
    pub(super) home: String,
    /// Chain ID
    #[arg(long, env = "SEI_CHAIN_ID", value_name = "ID")]
    pub(super) chain_id: Option<String>,
    /// S3 bucket for genesis files, or a local directory as file:///DIR
    #[arg(long, env = "SEI_GENESIS_BUCKET", value_name = "BUCKET")]
    pub(super) genesis_bucket: Option<String>,
    /// Region of the genesis bucket
    #[arg(long, env = "SEI_GENESIS_REGION", value_name = "REGION")]
    pub(super) genesis_region: Option<String>,
    /// S3 bucket for snapshots, or a local directory as file:///DIR
    #[arg(long, env = "SEI_SNAPSHOT_BUCKET", value_name = "BUCKET")]
    pub(super) snapshot_bucket: Option<String>,
    /// Region of the snapshot bucket
    #[arg(long, env = "SEI_SNAPSHOT_REGION", value_name = "REGION")]
    pub(super) snapshot_region: Option<String>,
    /// URL of the node's RPC
    #[arg(long, env = "OUTRIGGER_NODE_RPC", value_name = "URL", default_value = "http://localhost:26657")]
    pub(super) node_rpc: String,
    /// Control directory of seid, through which its start script stops it. If unset, seid is stopped by signals, which requires
    /// that its container shares the process namespace
    #[arg(long, env = "OUTRIGGER_SEID_CONTROL_DIR", value_name = "DIR")]
    pub(super) seid_control_dir: Option<String>,
    /// Directory that no other container mounts, and that survives restarts of the sidecar. It records which unfinished tasks the
    /// sidecar has accepted; a restart resumes no others, because whoever can write to the home can add tasks to the ledger. If unset,
    /// a restart resumes all unfinished tasks of the ledger
    #[arg(long, env = "OUTRIGGER_SIDECAR_PRIVATE_DIR", value_name = "DIR")]
    pub(super) private_dir: Option<String>,
    /// Whether the node publishes snapshots. If it does, a snapshot-upload task of the ledger is resumed also if the sidecar of another
    /// pod has accepted it
    #[arg(long, env = "OUTRIGGER_PUBLISH_SNAPSHOTS", value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    pub(super) publish_snapshots: String,
    /// S3 bucket for exported block results, or a local directory as file:///DIR. If unset, nothing can be exported
    #[arg(long, env = "SEI_RESULT_EXPORT_BUCKET", value_name = "BUCKET")]
    pub(super) result_export_bucket: Option<String>,
    /// Region of the bucket for exported block results
    #[arg(long, env = "SEI_RESULT_EXPORT_REGION", value_name = "REGION")]
    pub(super) result_export_region: Option<String>,
    /// Key prefix of exported block results
    #[arg(long, env = "SEI_RESULT_EXPORT_PREFIX", value_name = "PREFIX")]
    pub(super) result_export_prefix: Option<String>,
}

/// The HTTP API.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "API")]
pub(super) struct ApiArgs {
    /// Port of the API
    #[arg(long, env = "SEI_SIDECAR_PORT", value_name = "PORT", default_value = "7777")]
    pub(super) port: String,
    /// Where the API listens: unix:PATH, or tcp:ADDRESS:PORT with a loopback address. If unset, on the port on 127.0.0.1. With
    /// unix:PATH, the port on 127.0.0.1 serves only GET /v0/healthz
    #[arg(long, env = "OUTRIGGER_SIDECAR_LISTEN", value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
    /// Authentication mode: trusted-header expects a proxy to set the authenticated user in X-Remote-User; unauthenticated accepts
    /// every client. Clients on other hosts cannot connect in either mode
    #[arg(long, env = "SEI_SIDECAR_AUTHN_MODE", value_name = "MODE", default_value = "trusted-header")]
    pub(super) authn_mode: String,
}

/// Task limits.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Tasks")]
pub(super) struct TaskArgs {
    /// Interval between snapshot uploads; 0 or less means the default
    #[arg(
        long,
        env = "SEI_SNAPSHOT_UPLOAD_INTERVAL",
        value_name = "DURATION",
        default_value = "168h",
        allow_hyphen_values = true
    )]
    pub(super) snapshot_upload_interval: String,
    /// Timeout of one snapshot upload
    #[arg(long, env = "SEI_SNAPSHOT_UPLOAD_TIMEOUT", value_name = "DURATION", default_value = "2h")]
    pub(super) snapshot_upload_timeout: String,
    /// Maximum unpacked size of a snapshot archive in GiB
    #[arg(long, env = "OUTRIGGER_SNAPSHOT_MAX_GIB", value_name = "GIB", default_value = "4096")]
    pub(super) snapshot_max_gib: String,
    /// Maximum number of tasks in progress; further submissions get 503
    #[arg(long, env = "OUTRIGGER_MAX_TASKS", value_name = "COUNT", default_value = "256")]
    pub(super) max_tasks: String,
    /// Maximum number of tasks that work at the same time; tasks that only wait do not count
    #[arg(long, env = "OUTRIGGER_MAX_WORKING_TASKS", value_name = "COUNT", default_value = "16")]
    pub(super) max_working_tasks: String,
    /// How long finished tasks are kept
    #[arg(long, env = "OUTRIGGER_KEEP_TASKS_FOR", value_name = "DURATION", default_value = "720h")]
    pub(super) keep_tasks_for: String,
    /// Keyring backend of upstream: test, file or os. Validated for compatibility only; the keyring is never opened because signing is
    /// not supported
    #[arg(long, env = "SEI_KEYRING_BACKEND", value_name = "BACKEND")]
    pub(super) keyring_backend: Option<String>,
}

/// Logging.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub(super) struct ProcessArgs {
    /// Log level, or levels by module, for example info,hyper=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// Log format: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}
