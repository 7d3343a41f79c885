//! The sidecar's command line. The variables that begin with `SEI_` are those of the program that it stands in for.

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

/// The node that it stands beside.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The node")]
pub(super) struct NodeArgs {
    /// The node's home
    #[arg(long, env = "SEI_HOME", value_name = "FOLDER", default_value = "/sei")]
    pub(super) home: String,
    /// The chain
    #[arg(long, env = "SEI_CHAIN_ID", value_name = "NAME")]
    pub(super) chain_id: Option<String>,
    /// The bucket of genesis files, or a folder as file:///FOLDER
    #[arg(long, env = "SEI_GENESIS_BUCKET", value_name = "BUCKET")]
    pub(super) genesis_bucket: Option<String>,
    /// The region of that bucket
    #[arg(long, env = "SEI_GENESIS_REGION", value_name = "REGION")]
    pub(super) genesis_region: Option<String>,
    /// The bucket of snapshots, or a folder as file:///FOLDER
    #[arg(long, env = "SEI_SNAPSHOT_BUCKET", value_name = "BUCKET")]
    pub(super) snapshot_bucket: Option<String>,
    /// The region of that bucket
    #[arg(long, env = "SEI_SNAPSHOT_REGION", value_name = "REGION")]
    pub(super) snapshot_region: Option<String>,
    /// The node's RPC
    #[arg(long, env = "OUTRIGGER_NODE_RPC", value_name = "URL", default_value = "http://localhost:26657")]
    pub(super) node_rpc: String,
}

/// How it is reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The API")]
pub(super) struct ApiArgs {
    /// The port of the API
    #[arg(long, env = "SEI_SIDECAR_PORT", value_name = "PORT", default_value = "7777")]
    pub(super) port: String,
    /// Who may call: unauthenticated (anybody who reaches it), or trusted-header (only a proxy on the same host that names the
    /// caller in X-Remote-User)
    #[arg(long, env = "SEI_SIDECAR_AUTHN_MODE", value_name = "MODE", default_value = "unauthenticated")]
    pub(super) authn_mode: String,
}

/// How tasks are done.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Tasks")]
pub(super) struct TaskArgs {
    /// Time between two uploads of snapshots; 0 or less for the default
    #[arg(
        long,
        env = "SEI_SNAPSHOT_UPLOAD_INTERVAL",
        value_name = "DURATION",
        default_value = "168h",
        allow_hyphen_values = true
    )]
    pub(super) snapshot_upload_interval: String,
    /// How long one upload of a snapshot may take
    #[arg(long, env = "SEI_SNAPSHOT_UPLOAD_TIMEOUT", value_name = "DURATION", default_value = "2h")]
    pub(super) snapshot_upload_timeout: String,
    /// How many GiB an archive may unpack to
    #[arg(long, env = "OUTRIGGER_SNAPSHOT_MAX_GIB", value_name = "GIB", default_value = "4096")]
    pub(super) snapshot_max_gib: String,
    /// How many tasks may be under way
    #[arg(long, env = "OUTRIGGER_MAX_TASKS", value_name = "COUNT", default_value = "256")]
    pub(super) max_tasks: String,
    /// How many of them may work at once; those that only wait do not count
    #[arg(long, env = "OUTRIGGER_MAX_WORKING_TASKS", value_name = "COUNT", default_value = "16")]
    pub(super) max_working_tasks: String,
    /// How long tasks are kept after their end
    #[arg(long, env = "OUTRIGGER_KEEP_TASKS_FOR", value_name = "DURATION", default_value = "720h")]
    pub(super) keep_tasks_for: String,
    /// A keyring of upstream: test, file or os. Signing is not part of this build, so it is only checked, and never opened
    #[arg(long, env = "SEI_KEYRING_BACKEND", value_name = "BACKEND")]
    pub(super) keyring_backend: Option<String>,
}

/// How this process lives.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "This process")]
pub(super) struct ProcessArgs {
    /// What is logged: a level, or levels by module, like info,hyper=debug
    #[arg(long, env = "OUTRIGGER_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// How log lines look: json or pretty
    #[arg(long, env = "OUTRIGGER_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: String,
}
