//! Certificates and keys from files in PEM format.

use std::path::Path;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tenure::{Error, ErrorKind, Result};

/// The certificates in a file, at least one.
pub(crate) fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if found.is_empty() => Err(wrong(path, "it has no certificate")),
        found => found.map_err(|err| unreadable(path, &err)),
    }
}

/// The private key in a file.
pub(crate) fn private_key(path: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|err| unreadable(path, &err))
}

fn unreadable(path: &str, why: &pem::Error) -> Error {
    wrong(path, &why.to_string())
}

/// The error of a file that cannot be used.
pub(crate) fn wrong(path: &str, why: &str) -> Error {
    Error::new(ErrorKind::Invalid, "read the certificate or key", why)
        .at(Path::new(path))
        .hint("name a file in PEM format")
}
