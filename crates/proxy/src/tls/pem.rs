//! Certificates and keys in PEM.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a file; at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("there is no certificate in it".into()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it cannot be read as PEM: {error}")),
    }
}

/// The key of a file.
pub(crate) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("there is no private key in it: {error}"))
}

/// Authorities of a file; at least one that can be used.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let (good, bad) = store.add_parsable_certificates(certificates(pem)?);
    if good == 0 {
        return Err(format!("none of its {bad} certificates can be used as an authority"));
    }
    Ok(store)
}
