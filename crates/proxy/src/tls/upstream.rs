//! How the upstream is trusted.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;

/// The configuration, from authorities and perhaps a pair of our own, each as its file has it.
pub(crate) fn config(authorities: &[u8], pair: Option<(&[u8], &[u8])>) -> Result<ClientConfig, String> {
    let roots = super::pem::authorities(authorities)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match pair {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            // Refuses pairs that do not fit together.
            super::server::pair(certificate, key)?;
            builder
                .with_client_auth_cert(super::pem::certificates(certificate)?, super::pem::key(key)?)
                .map_err(|error| format!("the client certificate cannot be used: {error}"))?
        }
    };
    Ok(config)
}

/// The configuration for an upstream that the system's authorities vouch for. HTTP/2 is spoken if it wants to.
pub(crate) fn of_system(bundles: &[&str]) -> Result<ClientConfig, String> {
    let found = bundles.iter().find_map(|path| std::fs::read(path).ok());
    let pem =
        found.ok_or_else(|| "there are no authorities on this system: set --upstream-ca-file".to_owned())?;
    let mut config = config(&pem, None)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Where systems keep their authorities.
pub(crate) const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
