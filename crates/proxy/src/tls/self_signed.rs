//! The certificate of a proxy that was given none.

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};

/// Where Linux says the machine's name, which in a pod is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// A certificate for this host and its key, both in PEM.
pub(crate) fn make() -> Result<(String, String), rcgen::Error> {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut subject = DistinguishedName::new();
    // Longer names are not allowed in certificates.
    let short: String = host.chars().take(48).collect();
    subject.push(DnType::CommonName, format!("{short}@{now}"));
    params.distinguished_name = subject;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // An elliptic key: an RSA key takes seconds on a throttled pod.
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
