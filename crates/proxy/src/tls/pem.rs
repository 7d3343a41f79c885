//! PEM files.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Parses all certificates of a file; at least one is required.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("no certificate found".into()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("invalid PEM: {error}")),
    }
}

/// Parses the private key of a file.
pub(crate) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("no private key found: {error}"))
}

/// Parses the CA certificates of a file; at least one must be usable.
pub(crate) fn root_store(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let (usable, unusable) = store.add_parsable_certificates(certificates(pem)?);
    if usable == 0 {
        return Err(format!("none of {unusable} certificates is usable as a CA"));
    }
    Ok(store)
}
