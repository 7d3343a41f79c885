//! Certificates of one cluster: its authority, the servers' and every user's. Nothing in the test-bed skips a check.

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

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8).
    pub key: String,
}

/// What can be wrong with a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It was valid long ago.
    Expired,
    /// It is a server's.
    ForServers,
    /// Its subject names nobody.
    Nameless,
}

/// Whom a server certificate is for.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    /// DNS names.
    pub dns: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// The authority's certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's private key, in PEM: for the controller that signs requests.
    #[must_use]
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A client certificate; Kubernetes reads the user and the group from its subject. One group at most: the subject
    /// that the certificate library writes holds each kind of name once.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        self.issue(user, group, &ServerNames::default(), vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// A server certificate.
    pub fn server(&self, name: &str, names: &ServerNames) -> Result<Identity> {
        self.issue(name, None, names, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// A certificate of a server that is also a client: etcd's JSON gateway calls etcd itself with it.
    pub fn peer(&self, name: &str, names: &ServerNames) -> Result<Identity> {
        self.issue(
            name,
            None,
            names,
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    /// A client certificate that is not as it should be.
    pub fn flawed_client(&self, user: &str, flaw: Flaw) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name =
            if flaw == Flaw::Nameless { DistinguishedName::new() } else { subject(user, None) };
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match flaw {
            Flaw::ForServers => ExtendedKeyUsagePurpose::ServerAuth,
            _ => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        if flaw == Flaw::Expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        if flaw == Flaw::Nameless {
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
    /// Writes `NAME.crt` and `NAME.key` into a folder and returns both paths.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
        let certificate = folder.join(format!("{name}.crt"));
        let key = folder.join(format!("{name}.key"));
        write_public(&certificate, &self.certificate)?;
        write_secret(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// A key pair that signs service-account tokens: private and public part, in PEM.
pub(crate) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a file that everybody may read.
pub(crate) fn write_public(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).context(|| format!("writing {}", path.display()))
}

/// Writes a file that only its owner may read. It appears whole or not at all: tests that run at the same time write the same
/// kubeconfig, and a reader in between would see half of it.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let half = path.with_extension(format!("{}-{number}", std::process::id()));
    write_public(&half, text)?;
    fs::set_permissions(&half, fs::Permissions::from_mode(0o600))
        .context(|| format!("setting the mode of {}", half.display()))?;
    fs::rename(&half, path).context(|| format!("writing {}", path.display()))
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}
