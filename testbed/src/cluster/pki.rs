//! Certificates of one cluster: CA, server and user certificates. Nothing in the testbed skips certificate verification.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

use crate::error::{IoContext, Result};

/// A certificate authority (CA).
#[derive(Debug)]
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

/// A defect of a client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Expired.
    Expired,
    /// Extended key usage is server authentication only.
    ServerOnly,
    /// Subject has no common name.
    NoCommonName,
}

/// Subject alternative names of a server certificate.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
}

impl CertificateAuthority {
    /// Creates a CA.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Returns the CA certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the private key of the CA, in PEM: for the controller that signs CertificateSigningRequests.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a client certificate; Kubernetes reads user and group from its subject. At most one group, because rcgen
    /// writes each attribute of a subject once.
    pub fn issue_client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        self.issue(user, group, &ServerNames::default(), vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// Issues a server certificate.
    pub fn issue_server(&self, name: &str, names: &ServerNames) -> Result<Identity> {
        self.issue(name, None, names, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// Issues a certificate for server and client authentication: etcd's JSON gateway calls etcd with it.
    pub fn issue_peer(&self, name: &str, names: &ServerNames) -> Result<Identity> {
        self.issue(
            name,
            None,
            names,
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    /// Issues a defective client certificate.
    pub fn issue_flawed_client(&self, user: &str, flaw: Flaw) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name =
            if flaw == Flaw::NoCommonName { DistinguishedName::new() } else { subject(user, None) };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match flaw {
            Flaw::ServerOnly => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        if flaw == Flaw::Expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        if flaw == Flaw::NoCommonName {
            params.distinguished_name.push(DnType::OrganizationName, "a group without a user");
        }
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    fn issue(
        &self,
        name: &str,
        group: Option<&str>,
        names: &ServerNames,
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.dns.clone())?;
        params.subject_alt_names.extend(names.addresses.iter().copied().map(SanType::IpAddress));
        params.distinguished_name = subject(name, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` to a directory and returns both paths.
    pub fn write(&self, dir: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let certificate = dir.join(format!("{name}.crt"));
        let key = dir.join(format!("{name}.key"));
        write_public(&certificate, &self.certificate)?;
        write_secret(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// Creates a key pair for signing ServiceAccount tokens: private and public key, in PEM.
pub(crate) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a world-readable file.
pub(crate) fn write_public(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).context(|| format!("writing {}", path.display()))
}

/// Writes a file readable by its owner only, atomically: concurrent tests write the same kubeconfig, and a reader must
/// not see a partial file.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}", std::process::id()));
    write_public(&temporary, text)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))
        .context(|| format!("setting the mode of {}", temporary.display()))?;
    fs::rename(&temporary, path).context(|| format!("writing {}", path.display()))
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}
