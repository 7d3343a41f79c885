//! The self-signed certificate used when none is configured.

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

/// Host name of the machine; in a pod, the pod name.
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Generates a certificate for this host. Returns certificate and key in PEM.
pub(crate) fn generate() -> Result<(String, String), rcgen::Error> {
    let host = std::fs::read_to_string(HOSTNAME_FILE).unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut subject = DistinguishedName::new();
    // Common names are limited to 64 characters.
    let short: String = host.chars().take(48).collect();
    subject.push(DnType::CommonName, format!("{short}@{now}"));
    params.distinguished_name = subject;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // An ECDSA key: generating an RSA key takes seconds on a throttled pod.
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
