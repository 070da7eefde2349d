//! TLS: whom the client trusts, who it is, and what a refused certificate means.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tenure::{Error, ErrorKind, Result};

use crate::pem::{certificates, private_key, wrong};
use crate::url::Url;

/// The configuration that a URL asks for: `ca` instead of the system's authorities, `cert` and `key` for the client.
pub(super) fn configuration(url: &Url) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match url.parameter("ca") {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|err| wrong(path, &err.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let detail = "no certificate authority is known";
        return Err(Error::new(ErrorKind::Invalid, "read certificates", detail)
            .hint("name one with ca=PATH"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|err| Error::new(ErrorKind::Unsupported, "use TLS", err.to_string()))?
        .with_root_certificates(roots);
    match (url.parameter("cert"), url.parameter("key")) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|err| wrong(cert, &err.to_string())),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            "read the URL of a store",
            "cert needs key, and key needs cert",
        )),
    }
}

/// The error of a connection that failed because a certificate was refused: no repetition helps.
pub(super) fn refused(err: &io::Error, step: &'static str, store: &str) -> Option<Error> {
    let tls = err.get_ref()?.downcast_ref::<rustls::Error>()?;
    let (detail, hint) = match tls {
        rustls::Error::InvalidCertificate(why) => (
            format!("the certificate of the server is refused: {why:?}"),
            "name the authority that signed it with ca=PATH, and a host that it is made for",
        ),
        rustls::Error::AlertReceived(why) => (
            format!("the server refuses the client: {why:?}"),
            "name a client certificate that it trusts with cert=PATH and key=PATH",
        ),
        rustls::Error::InvalidMessage(_) => (
            "the server does not speak TLS".to_owned(),
            "write etcd:// without tls=1, or start etcd with certificates",
        ),
        other => (format!("TLS failed: {other}"), "check the certificates of both sides"),
    };
    let error = Error::new(ErrorKind::Io, step, format!("{store}: {detail}"));
    Some(error.hint(hint))
}
