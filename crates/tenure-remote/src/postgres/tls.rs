//! TLS as libpq's `sslmode` names it.
//!
//! | mode | |
//! |---|---|
//! | `disable` | no TLS |
//! | `prefer` (the default) | TLS if the server has it; its certificate is not checked |
//! | `require` | TLS; the certificate is checked only if `sslrootcert` is given, as in `verify-ca` |
//! | `verify-ca` | the certificate is signed by one of `sslrootcert` |
//! | `verify-full` | and is that of the host |

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tenure::{Error, ErrorKind, Result};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::pem::{certificates, private_key};
use crate::url::Url;

/// How much of a certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Issuer,
    Host,
}

/// What a URL says about TLS.
pub(super) fn of(url: &Url) -> Result<(SslMode, MakeRustlsConnect)> {
    let root = url.parameter("sslrootcert");
    let (mode, check) = match url.parameter("sslmode") {
        Some("disable") => (SslMode::Disable, Check::Nothing),
        None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
        Some("require") if root.is_none() => (SslMode::Require, Check::Nothing),
        Some("require" | "verify-ca") => (SslMode::Require, Check::Issuer),
        Some("verify-full") => (SslMode::Require, Check::Host),
        Some(_) => {
            let detail = "`sslmode` is none of disable, prefer, require, verify-ca, verify-full";
            return Err(Error::new(ErrorKind::Invalid, "read the URL of a store", detail));
        }
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|err| wrong(&err.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(provider, check, root)?));
    let config = match (url.parameter("sslcert"), url.parameter("sslkey")) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|err| wrong(&err.to_string()))?,
        (None, None) => builder.with_no_client_auth(),
        _ => return Err(wrong("sslcert and sslkey go together")),
    };
    Ok((mode, MakeRustlsConnect::new(config)))
}

fn wrong(detail: &str) -> Error {
    Error::new(ErrorKind::Invalid, "set up TLS", detail)
}

/// Checks as much of the server's certificate as was asked for, and always that the server has its key.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    check: Check,
    web: Option<Arc<WebPkiServerVerifier>>,
}

impl Verifier {
    fn new(provider: Arc<CryptoProvider>, check: Check, root: Option<&str>) -> Result<Self> {
        if check == Check::Nothing {
            return Ok(Self { provider, check, web: None });
        }
        let trusted = match root {
            Some("system") => rustls_native_certs::load_native_certs().certs,
            Some(path) => certificates(path)?,
            None => {
                let detail = "verify-ca and verify-full need the certificate of the issuer";
                return Err(wrong(detail).hint("add sslrootcert=PATH or sslrootcert=system"));
            }
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(trusted);
        let web = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone())
            .build()
            .map_err(|err| wrong(&err.to_string()))?;
        Ok(Self { provider, check, web: Some(web) })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(web) = &self.web else { return Ok(ServerCertVerified::assertion()) };
        let verified = web.verify_server_cert(certificate, chain, host, ocsp, now);
        let is_other_name = matches!(
            verified,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        );
        if self.check == Check::Issuer && is_other_name {
            return Ok(ServerCertVerified::assertion()); // The name is checked last.
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
