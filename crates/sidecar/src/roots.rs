//! Bundled root CA certificates. The sidecar image contains no system CA bundle, and without any root certificate the HTTP clients
//! cannot be built, not even for plain HTTP servers.

/// Returns the bundled root certificates as DER. They are trusted in addition to those of the system.
pub(crate) fn bundled() -> impl Iterator<Item = &'static [u8]> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref)
}
