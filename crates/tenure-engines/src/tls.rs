//! Certificates: an authority, and identities that it signs.
//!
//! Made by the `openssl` command, which PostgreSQL's Debian package brings along: no crate has to be built for it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place;

/// An authority of its own. Its files are removed with it.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How long certificates are valid.
const DAYS: &str = "30";

impl Certificates {
    /// A new authority.
    #[expect(clippy::new_without_default, reason = "it runs a command and writes files")]
    pub fn new() -> Self {
        let dir = place::directory("tls");
        let authority = Self { dir };
        let (cert, key) = (authority.ca(), authority.dir.join("ca.key"));
        let mut command = request("tenure test authority", &cert, &key);
        command.args(["-x509", "-days", DAYS, "-addext", "keyUsage=critical,keyCertSign"]);
        run(command);
        authority
    }

    /// The authority's certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// An identity for a server with this address, which `localhost` is another name of.
    pub fn server(&self, address: IpAddr) -> Identity {
        self.signed("server", "server", &format!("subjectAltName=IP:{address},DNS:localhost"), DAYS)
    }

    /// An identity for a server with another address.
    pub fn other_server(&self) -> Identity {
        self.signed("other", "server", "subjectAltName=DNS:elsewhere.example", DAYS)
    }

    /// An identity for the client `user`.
    pub fn client(&self, user: &str) -> Identity {
        self.signed(&format!("client-{user}"), user, "extendedKeyUsage=clientAuth", DAYS)
    }

    fn signed(&self, file: &str, subject: &str, extension: &str, days: &str) -> Identity {
        let cert = self.dir.join(format!("{file}.crt"));
        let key = self.dir.join(format!("{file}.key"));
        let mut command = request(subject, &cert, &key);
        command.args(["-x509", "-days", days, "-addext", extension]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-CA").arg(self.ca()).arg("-CAkey").arg(self.dir.join("ca.key"));
        run(command);
        Identity { cert, key }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        place::remove(&self.dir);
    }
}

fn request(subject: &str, cert: &Path, key: &Path) -> Command {
    let mut command = Command::new("openssl");
    command.args(["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command
        .args(["-subj", &format!("/CN={subject}")])
        .arg("-out")
        .arg(cert)
        .arg("-keyout")
        .arg(key);
    command
}

fn run(mut command: Command) {
    let ended = command.output().unwrap_or_else(|err| panic!("{command:?}: {err}"));
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}
