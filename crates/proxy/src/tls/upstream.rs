//! Client-side TLS for the upstream.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;

/// Creates the configuration from PEM files: CA certificates, and optionally a client certificate and its
/// key.
pub(crate) fn config(ca_pem: &[u8], key_pair: Option<(&[u8], &[u8])>) -> Result<ClientConfig, String> {
    let roots = super::pem::root_store(ca_pem)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match key_pair {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            // Rejects a key that does not match.
            super::server::certified_key(certificate, key)?;
            builder
                .with_client_auth_cert(super::pem::certificates(certificate)?, super::pem::key(key)?)
                .map_err(|error| format!("unusable client certificate: {error}"))?
        }
    };
    Ok(config)
}

/// Creates the configuration from the system's CA certificates, with HTTP/2 offered by ALPN.
pub(crate) fn system_config(bundles: &[&str]) -> Result<ClientConfig, String> {
    let found = bundles.iter().find_map(|path| std::fs::read(path).ok());
    let pem = found.ok_or_else(|| "not set, and no system CA certificates found".to_owned())?;
    let mut config = config(&pem, None)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Locations of CA bundles on common systems.
pub(crate) const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
