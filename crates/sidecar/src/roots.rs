//! Who is trusted to say who a server is: those whom the system names, and those that are built in. An image that holds our
//! program only names nobody, and without anybody no client can be made, not even for a server without TLS.

/// The authorities that are built in, each as DER.
pub(crate) fn built_in() -> impl Iterator<Item = &'static [u8]> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref)
}
