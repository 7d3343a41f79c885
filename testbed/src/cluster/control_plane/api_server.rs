//! kube-apiserver of a control plane.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::encryption::{self, KmsProvider};
use super::etcd;
use crate::cluster::address;
use crate::cluster::parts::Kubernetes;
use crate::cluster::pki::{self, CertificateAuthority, ServerNames};
use crate::cluster::site::Site;
use crate::error::Result;
use crate::process::{Process, Program};

/// Free in every site, because each has its own network namespace.
const PORT: u16 = 6443;

/// Logs every request once, when its response starts, without bodies. Only bodies of SubjectAccessReviews are logged: tests
/// need their attributes, and they contain no secrets.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources:
  - group: authorization.k8s.io
    resources: [subjectaccessreviews]
- level: Metadata
";

/// Flags and files of kube-apiserver, for starting and restarting it.
#[derive(Debug)]
pub(super) struct ApiServer {
    flags: Vec<String>,
    address: IpAddr,
    dir: PathBuf,
    audit_log: PathBuf,
}

impl ApiServer {
    /// Writes the files and assembles the flags.
    pub(super) fn prepare(
        site: &Site,
        ca: &CertificateAuthority,
        front_proxy_ca: &CertificateAuthority,
        kms: Option<KmsProvider>,
        more_flags: Vec<String>,
    ) -> Result<Self> {
        let dir = site.dir().join("control-plane");
        let address = IpAddr::from(site.addresses().control_plane());
        let file = |name: &str| dir.join(name).display().to_string();
        pki::write_public(Path::new(&file("ca.crt")), ca.pem())?;
        pki::write_secret(Path::new(&file("ca.key")), &ca.key())?;
        pki::write_public(Path::new(&file("front-proxy-ca.crt")), front_proxy_ca.pem())?;
        let names = ServerNames {
            dns: ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
                .into_iter()
                .map(String::from)
                .chain([String::from("kubernetes.default.svc.cluster.local")])
                .collect(),
            addresses: vec![address, IpAddr::from([127, 0, 0, 1]), address::API_SERVICE.into()],
        };
        ca.issue_server("kube-apiserver", &names)?.write(&dir, "kube-apiserver")?;
        ca.issue_client("kube-apiserver-etcd-client", None)?.write(&dir, "etcd-client")?;
        ca.issue_client("kube-apiserver-kubelet-client", Some("system:masters"))?
            .write(&dir, "kubelet-client")?;
        front_proxy_ca.issue_client("front-proxy-client", None)?.write(&dir, "front-proxy-client")?;
        let (token_key, token_public_key) = pki::token_keys()?;
        pki::write_secret(Path::new(&file("service-accounts.key")), &token_key)?;
        pki::write_public(Path::new(&file("service-accounts.pub")), &token_public_key)?;
        pki::write_public(Path::new(&file("audit-policy.yaml")), AUDIT_POLICY)?;
        let audit_log = site.logs().join("audit.log");

        let mut flags: Vec<String> = [
            ("etcd-servers", etcd::url(site)),
            ("etcd-cafile", file("ca.crt")),
            ("etcd-certfile", file("etcd-client.crt")),
            ("etcd-keyfile", file("etcd-client.key")),
            ("bind-address", address.to_string()),
            ("advertise-address", address.to_string()),
            ("secure-port", PORT.to_string()),
            ("tls-cert-file", file("kube-apiserver.crt")),
            ("tls-private-key-file", file("kube-apiserver.key")),
            ("client-ca-file", file("ca.crt")),
            ("authorization-mode", "Node,RBAC".into()),
            ("anonymous-auth", "true".into()),
            ("service-cluster-ip-range", address::SERVICE_RANGE.into()),
            ("service-account-issuer", "https://kubernetes.default.svc.cluster.local".into()),
            ("service-account-key-file", file("service-accounts.pub")),
            ("service-account-signing-key-file", file("service-accounts.key")),
            ("kubelet-preferred-address-types", "InternalIP".into()),
            ("kubelet-certificate-authority", file("ca.crt")),
            ("kubelet-client-certificate", file("kubelet-client.crt")),
            ("kubelet-client-key", file("kubelet-client.key")),
            ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
            ("requestheader-allowed-names", "front-proxy-client".into()),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("requestheader-group-headers", "X-Remote-Group".into()),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
            ("proxy-client-cert-file", file("front-proxy-client.crt")),
            ("proxy-client-key-file", file("front-proxy-client.key")),
            ("audit-policy-file", file("audit-policy.yaml")),
            ("audit-log-path", audit_log.display().to_string()),
            // In MiB. Rotation would lose requests that tests count.
            ("audit-log-maxsize", "100000".into()),
            ("allow-privileged", "true".into()),
            ("profiling", "false".into()),
        ]
        .into_iter()
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
        if let Some(provider) = kms {
            let path = file("encryption.json");
            pki::write_secret(Path::new(&path), &encryption::configuration(&provider).to_string())?;
            flags.push(format!("--encryption-provider-config={path}"));
        }
        flags.extend(more_flags);
        Ok(Self { flags, address, dir, audit_log })
    }

    /// Starts kube-apiserver.
    pub(super) fn start(&self, site: &Site, kubernetes: &Kubernetes) -> Result<Process> {
        Program::new("kube-apiserver", kubernetes.program("kube-apiserver"))
            .args(&self.flags)
            .in_netns(site.netns())
            .start(site)
    }

    /// Returns its command line.
    pub(super) fn command(&self, kubernetes: &Kubernetes) -> Vec<String> {
        let program = kubernetes.program("kube-apiserver").display().to_string();
        std::iter::once(program).chain(self.flags.iter().cloned()).collect()
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}:{PORT}", self.address)
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.audit_log.clone()
    }

    pub(super) fn token_key(&self) -> PathBuf {
        self.dir.join("service-accounts.key")
    }

    pub(super) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(super) fn ca_key_file(&self) -> PathBuf {
        self.dir.join("ca.key")
    }
}
