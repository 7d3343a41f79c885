//! Platform settings of operators in tests and benchmarks.

/// Environment variables with the platform settings.
pub const PLATFORM: [(&str, &str); 20] = [
    ("SEI_NODEPOOL_NAME", "sei-node"),
    ("SEI_NODEPOOL_ARCHIVE", "sei-archive"),
    ("SEI_TOLERATION_KEY", "sei.io/workload"),
    ("SEI_SERVICE_ACCOUNT", "seid-node"),
    ("SEI_STORAGE_CLASS_PERF", "fast"),
    ("SEI_STORAGE_CLASS_DEFAULT", "fast"),
    ("SEI_STORAGE_CLASS_ARCHIVE", "large"),
    ("SEI_STORAGE_SIZE_DEFAULT", "10Gi"),
    ("SEI_STORAGE_SIZE_ARCHIVE", "40Gi"),
    ("SEI_RESOURCE_CPU_DEFAULT", "4"),
    ("SEI_RESOURCE_MEM_DEFAULT", "32Gi"),
    ("SEI_RESOURCE_CPU_ARCHIVE", "48"),
    ("SEI_RESOURCE_MEM_ARCHIVE", "448Gi"),
    ("SEI_SNAPSHOT_BUCKET", "snapshots"),
    ("SEI_SNAPSHOT_REGION", "here"),
    ("SEI_GENESIS_BUCKET", "genesis"),
    ("SEI_GENESIS_REGION", "here"),
    ("SEI_SIDECAR_IMAGE", "images.example/sidecar:v1"),
    ("SEI_KUBE_RBAC_PROXY_IMAGE", "images.example/proxy:v1"),
    ("SEI_COSMOS_EXPORTER_IMAGE", "images.example/exporter:v1"),
];
