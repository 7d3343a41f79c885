//! The real programs that tests run against, built from the Go modules beside this crate: each only when it is asked
//! for, once per content of its module, into a cache that every clone shares and `cargo clean` does not touch.

mod build;
mod cache;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};

/// A real program of the test-bed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl and etcd, in one binary.
    Kubernetes,
    /// CoreDNS.
    Dns,
    /// cert-manager's controllers, and its CRDs.
    CertManager,
    /// MinIO.
    S3,
    /// The chain node.
    Seid,
    /// The CRDs of OpenShift's operator resources. There is no program in it.
    OpenShift,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 6] =
        [Self::Kubernetes, Self::Dns, Self::CertManager, Self::S3, Self::Seid, Self::OpenShift];

    /// Its name: the folder of its module, and what `testbed build` takes.
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

    /// How long its first build usually takes on two cores, for people who wait.
    #[must_use]
    pub fn usual_build(self) -> &'static str {
        match self {
            Self::Kubernetes => "5 to 8 minutes",
            Self::Dns => "1 minute",
            Self::CertManager => "2 minutes",
            Self::S3 => "3 to 4 minutes",
            Self::Seid => "4 to 7 minutes",
            Self::OpenShift => "10 seconds",
        }
    }

    /// The folder of its Go module.
    fn module(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.name())
    }

    /// Returns the folder with its programs, and builds them first where the cache has none for this module's content.
    pub fn ensure(self) -> Result<PathBuf> {
        cache::ensure(self)
    }

    /// The Kubernetes programs: those of `OUTRIGGER_KUBERNETES_BIN` when it is set, else our own build.
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
            format!("there is no part {name:?}; the parts are {}", known.join(", "))
        })
    }
}

/// The programs of one Kubernetes release.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    bin: PathBuf,
}

impl Kubernetes {
    /// The programs a folder must hold.
    pub const PROGRAMS: [&str; 7] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ];

    /// Existing programs; every one of them must be there, so that the lack is told here and not in the middle of a test.
    fn at(bin: PathBuf) -> Result<Self> {
        let missing: Vec<&str> =
            Self::PROGRAMS.into_iter().filter(|name| !bin.join(name).is_file()).collect();
        if missing.is_empty() {
            return Ok(Self { bin });
        }
        Err(Error::Refused(format!(
            "OUTRIGGER_KUBERNETES_BIN={} has no {}: put them there, or unset the variable to build our own",
            bin.display(),
            missing.join(", "),
        )))
    }

    /// The folder that holds them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.bin
    }

    /// Where a program is.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_lacks_programs_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in Kubernetes::PROGRAMS {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        Kubernetes::at(dir.path().to_owned()).unwrap();
        std::fs::remove_file(dir.path().join("kubelet")).unwrap();
        let error = Kubernetes::at(dir.path().to_owned()).unwrap_err().to_string();
        assert!(error.contains("has no kubelet: put them there"), "{error}");
    }

    #[test]
    fn an_unknown_part_is_answered_with_the_known_ones() {
        let error = "redis".parse::<Part>().unwrap_err();
        assert!(
            error.contains("\"redis\"")
                && error.contains("kubernetes, dns, cert-manager, s3, seid, openshift"),
            "{error}"
        );
    }

    #[test]
    fn every_part_has_its_module() {
        for part in Part::ALL {
            assert!(part.module().join("go.mod").is_file(), "{part} has no go.mod");
            assert!(part.module().join("go.sum").is_file(), "{part} has no go.sum");
        }
    }
}
