//! Real programs that tests run against, built from the Go modules in this crate on first use. The cache is keyed by the
//! content of the module, shared by all clones and not affected by `cargo clean`.

mod build;
mod cache;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};

/// A real component of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl and etcd, in one binary.
    Kubernetes,
    /// CoreDNS.
    Dns,
    /// Controllers and CRDs of cert-manager.
    CertManager,
    /// MinIO.
    S3,
    /// seid, the chain node.
    Seid,
    /// CRDs of the operator resources of OpenShift; no program.
    OpenShift,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 6] =
        [Self::Kubernetes, Self::Dns, Self::CertManager, Self::S3, Self::Seid, Self::OpenShift];

    /// Returns its name: the directory of its module and the argument of `testbed build`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Dns => "dns",
            Self::CertManager => "cert-manager",
            Self::S3 => "s3",
            Self::Seid => "seid",
            Self::OpenShift => "openshift",
        }
    }

    /// Returns the typical duration of its first build on two cores.
    #[must_use]
    pub fn typical_build_time(self) -> &'static str {
        match self {
            Self::Kubernetes => "5 to 8 minutes",
            Self::Dns => "1 minute",
            Self::CertManager => "2 minutes",
            Self::S3 => "3 to 4 minutes",
            Self::Seid => "4 to 7 minutes",
            Self::OpenShift => "10 seconds",
        }
    }

    /// Returns the directory of its Go module.
    fn module(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.name())
    }

    /// Returns the directory of the built part, building it if it is not cached.
    pub fn ensure(self) -> Result<PathBuf> {
        cache::ensure(self)
    }

    /// Returns the Kubernetes programs in `OUTRIGGER_KUBERNETES_BIN` if set, otherwise our own build.
    pub fn kubernetes() -> Result<Kubernetes> {
        match std::env::var_os("OUTRIGGER_KUBERNETES_BIN") {
            Some(dir) => Kubernetes::at(PathBuf::from(dir)),
            None => Ok(Kubernetes { bin: Self::Kubernetes.ensure()?.join("bin") }),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|part| part.name()).collect();
            format!("unknown part {name:?}: expected one of {}", known.join(", "))
        })
    }
}

/// Programs of a Kubernetes release.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    bin: PathBuf,
}

impl Kubernetes {
    /// Required programs.
    pub const PROGRAMS: [&str; 7] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ];

    /// Uses existing programs. Fails here, rather than in the middle of a test, if one is missing.
    fn at(bin: PathBuf) -> Result<Self> {
        let missing: Vec<&str> =
            Self::PROGRAMS.into_iter().filter(|name| !bin.join(name).is_file()).collect();
        if missing.is_empty() {
            return Ok(Self { bin });
        }
        Err(Error::Other(format!(
            "OUTRIGGER_KUBERNETES_BIN={} has no {}: add them, or unset the variable to build Kubernetes from source",
            bin.display(),
            missing.join(", "),
        )))
    }

    /// Returns the directory of the programs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.bin
    }

    /// Returns the path of a program.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_kubernetes_programs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in Kubernetes::PROGRAMS {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        Kubernetes::at(dir.path().to_owned()).unwrap();
        std::fs::remove_file(dir.path().join("kubelet")).unwrap();
        let error = Kubernetes::at(dir.path().to_owned()).unwrap_err().to_string();
        assert!(error.contains("has no kubelet: add them"), "{error}");
    }

    #[test]
    fn unknown_part_error_lists_known_parts() {
        let error = "redis".parse::<Part>().unwrap_err();
        assert!(
            error.contains("\"redis\"")
                && error.contains("kubernetes, dns, cert-manager, s3, seid, openshift"),
            "{error}"
        );
    }

    #[test]
    fn every_part_has_a_go_module() {
        for part in Part::ALL {
            assert!(part.module().join("go.mod").is_file(), "{part} has no go.mod");
            assert!(part.module().join("go.sum").is_file(), "{part} has no go.sum");
        }
    }
}
