//! The URL of a store: parsed once, for every engine.
//!
//! `postgres://user:password@host:port,host2/database?schema=NAME` and `etcd://a:2379,b:2379/prefix?ttl=5s`.
//!
//! # Invariants
//!
//! 1. The password is in a [`Secret`]. Neither `Debug` nor an error nor [`Url::redacted`] shows it, and no error quotes
//!    the part of a URL that it stands in, also if the URL cannot be parsed.
//! 2. Every parameter is known to the scheme and occurs once.

use std::fmt;
use std::time::Duration;

use tenure::{Error, ErrorKind, Result, Wait};

/// How long a session lives without a renewal, if the URL does not say it.
const TTL: Duration = Duration::from_secs(10);
/// The shortest time to live of a session: etcd grants no shorter one.
const TTL_MIN: Duration = Duration::from_secs(2);

const POSTGRES: &[&str] = &[
    "schema",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "failover",
    "ttl",
    "connect_timeout",
    "target_session_attrs",
];
const ETCD: &[&str] = &["tls", "ca", "cert", "key", "ttl", "timeout"];

/// Which engine a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `postgres://` or `postgresql://`.
    Postgres,
    /// `etcd://`, or `etcds://`, which sets the parameter `tls`.
    Etcd,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Etcd => 2379,
        }
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => POSTGRES,
            Self::Etcd => ETCD,
        }
    }
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Text that is not to be printed.
    #[cfg(feature = "etcd")]
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the server only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, without the brackets of IPv6; a path is that of a socket's directory.
    pub name: String,
    /// The port, or the usual one.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", encoded(&self.name), self.port)
        }
    }
}

/// A store's URL.
#[derive(Debug, Clone)]
pub struct Url {
    /// The engine.
    pub scheme: Scheme,
    /// Who connects.
    pub user: Option<String>,
    /// With which password.
    pub password: Option<Secret>,
    /// The servers, at least one, in the order in which they are tried.
    pub hosts: Vec<Host>,
    /// What is behind the hosts, without the slashes around it: a database, or a prefix.
    pub path: String,
    /// How long the session of a process lives without a renewal.
    pub ttl: Duration,
    parameters: Vec<(String, String)>,
    redacted: String,
}

impl Url {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            invalid("a store is named by a URL")
                .hint("write postgres://HOST/DATABASE or etcd://HOST:2379/PREFIX")
        })?;
        let (scheme, is_tls) = match scheme {
            "postgres" | "postgresql" => (Scheme::Postgres, false),
            "etcd" => (Scheme::Etcd, false),
            "etcds" => (Scheme::Etcd, true),
            other => {
                let shown = tenure::embed::printable(&other.chars().take(32).collect::<String>());
                return Err(invalid(format!("`{shown}` is not a kind of store"))
                    .hint("use postgres://, etcd:// or etcds://"));
            }
        };
        if rest.contains('#') {
            return Err(unencoded("it has a `#`"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') || query.contains('@') {
            return Err(unencoded("it has an `@` after the hosts"));
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            None => (String::new(), String::new()),
        };
        let hosts = hosts.split(',').map(|host| parse_host(host, scheme));
        let path = decoded(path.trim_matches('/'))?;
        let mut url = Self {
            scheme,
            user: Some(user).filter(|user| !user.is_empty()),
            password: Some(Secret(password)).filter(|password| !password.0.is_empty()),
            hosts: hosts.collect::<Result<_>>()?,
            path,
            ttl: TTL,
            parameters: parse_parameters(query, scheme)?,
            redacted: String::new(),
        };
        if is_tls {
            url.set_tls()?;
        }
        url.redacted = url.without_password();
        if let Some(ttl) = url.duration("ttl")? {
            if ttl < TTL_MIN {
                return Err(invalid(format!("`ttl` is shorter than {TTL_MIN:?}")));
            }
            url.ttl = ttl;
        }
        Ok(url)
    }

    /// The URL for people: without the password.
    pub fn redacted(&self) -> &str {
        &self.redacted
    }

    /// The value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        debug_assert!(self.scheme.parameters().contains(&name), "{name} is refused by parse");
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that is a time, as `10s` or `500ms`.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>> {
        let Some(value) = self.parameter(name) else { return Ok(None) };
        match value.parse() {
            Ok(Wait::For(time)) => Ok(Some(time)),
            _ => Err(invalid(format!("`{name}` is not a duration: write {name}=10s"))),
        }
    }

    /// The value of a parameter that is `1` or `0`; `false` without it.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.parameter(name) {
            Some("1" | "true") => Ok(true),
            None | Some("0" | "false") => Ok(false),
            Some(_) => Err(invalid(format!("`{name}` is neither 1 nor 0"))),
        }
    }

    fn set_tls(&mut self) -> Result<()> {
        match self.parameter("tls") {
            None => self.parameters.push(("tls".to_owned(), "1".to_owned())),
            Some(_) if self.flag("tls")? => {}
            Some(_) => return Err(invalid("`etcds://` contradicts tls=0")),
        }
        Ok(())
    }

    fn without_password(&self) -> String {
        let mut shown = format!("{}://", self.scheme.name());
        if let Some(user) = &self.user {
            shown += &encoded(user);
            shown += if self.password.is_some() { ":***@" } else { "@" };
        }
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        shown += &hosts.join(",");
        if !self.path.is_empty() {
            shown += "/";
            shown += &encoded(&self.path).replace("%2F", "/");
        }
        for (place, (name, value)) in self.parameters.iter().enumerate() {
            shown += if place == 0 { "?" } else { "&" };
            shown += name;
            shown += "=";
            shown += &encoded(value).replace("%2F", "/");
        }
        shown
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted)
    }
}

fn invalid(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, "read the URL of a store", detail)
}

/// A password that was not encoded may be in any part of such a URL: no part of it is shown.
fn unencoded(detail: &str) -> Error {
    invalid(detail)
        .hint("write / ? # @ : % in a user, a password or a path as %2F %3F %23 %40 %3A %25")
}

fn parse_host(text: &str, scheme: Scheme) -> Result<Host> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => (address, port.strip_prefix(':').unwrap_or(port)),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let name = decoded(name)?;
    if name.is_empty() {
        return Err(invalid("it names no host").hint("write SCHEME://HOST/NAME"));
    }
    let port = match port {
        "" => scheme.port(),
        port => port.parse().map_err(|_| unencoded("a port is not a number below 65536"))?,
    };
    Ok(Host { name, port })
}

fn parse_parameters(query: &str, scheme: Scheme) -> Result<Vec<(String, String)>> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(name) = scheme.parameters().iter().find(|known| **known == name) else {
            let shown = tenure::embed::printable(&name.chars().take(32).collect::<String>());
            let known = scheme.parameters().join(", ");
            return Err(invalid(format!("`{shown}` is not a parameter of {}://", scheme.name()))
                .hint(format!("known ones are {known}")));
        };
        if parameters.iter().any(|(known, _)| known == name) {
            return Err(invalid(format!("`{name}` occurs twice")));
        }
        parameters.push(((*name).to_owned(), decoded(value)?));
    }
    Ok(parameters)
}

/// Text without percent-encoding. Control characters are refused: they would reach a terminal or split a request.
fn decoded(text: &str) -> Result<String> {
    let wrong = || unencoded("a `%` is not followed by two hexadecimal digits of UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = behind;
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    if text.chars().any(char::is_control) {
        return Err(invalid("it has a control character"));
    }
    Ok(text)
}

/// Text with percent-encoding where a URL needs it.
fn encoded(text: &str) -> String {
    use fmt::Write as _;
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '~') {
            shown.push(letter);
            continue;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(shown, "%{byte:02X}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn refused(text: &str) -> String {
        Url::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn a_url_is_read_in_parts() {
        let url =
            parsed("postgres://me:p%40ss@db1,db2:6432,[::1]:7/app?schema=s&ttl=3s&sslmode=require");
        assert_eq!(url.scheme, Scheme::Postgres);
        assert_eq!(url.user.as_deref(), Some("me"));
        assert_eq!(url.password.as_ref().map(Secret::expose), Some("p@ss"));
        let hosts: Vec<_> = url.hosts.iter().map(|host| (host.name.as_str(), host.port)).collect();
        assert_eq!(hosts, [("db1", 5432), ("db2", 6432), ("::1", 7)]);
        assert_eq!((url.path.as_str(), url.ttl), ("app", Duration::from_secs(3)));
        assert_eq!(url.parameter("schema"), Some("s"));
        assert_eq!(
            url.redacted(),
            "postgres://me:***@db1:5432,db2:6432,[::1]:7/app?schema=s&ttl=3s&sslmode=require"
        );
    }

    #[test]
    fn the_scheme_may_ask_for_tls() {
        let url = parsed("etcds://a,b:1/some/prefix/?ca=/etc/ca.pem");
        assert!(url.flag("tls").expect("a flag"));
        assert_eq!((url.path.as_str(), url.ttl), ("some/prefix", TTL));
        assert_eq!(url.redacted(), "etcd://a:2379,b:1/some/prefix?ca=/etc/ca.pem&tls=1");
        assert!(!parsed("etcd://a").flag("tls").expect("a flag"));
        assert!(refused("etcds://a?tls=0").contains("contradicts"));
        let socket = parsed("postgres://%2Frun%2Fpostgresql/db");
        assert_eq!(socket.hosts[0].name, "/run/postgresql");
    }

    #[test]
    fn a_wrong_url_is_refused_with_a_next_step() {
        for (text, part) in [
            ("state.json", "named by a URL"),
            ("redis://a/", "use postgres://, etcd:// or etcds://"),
            ("postgres:///db", "names no host"),
            ("postgres://a,/db", "names no host"),
            ("postgres://a:99999/db", "65536"),
            ("postgres://a/db?shema=x", "known ones are schema, sslmode"),
            ("etcd://a/p?schema=x", "known ones are tls, ca"),
            ("etcd://a/p?ttl=1s", "shorter than 2s"),
            ("etcd://a/p?ttl=soon", "write ttl=10s"),
            ("etcd://a/p?ttl=forever", "write ttl=10s"),
            ("etcd://a/p?ttl=3s&ttl=4s", "twice"),
            ("etcd://a/p%zz", "hexadecimal"),
            ("etcd://a/p%0a", "control character"),
            ("etcd://a/p%ff", "UTF-8"),
        ] {
            let error = refused(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url = parsed("postgres://me:geheim@a/db");
        assert!(!format!("{url:?} {url} {url:#?}").contains("geheim"));
        for text in [
            "postgres://me:geheim/x@a/db",
            "postgres://me:geheim?x@a/db",
            "postgres://me:12/geheim@a/db",
            "postgres://me:12?geheim@a/db",
            "postgres://me:geheim#x@a/db",
            "postgres://me:geheim%@a/db",
            "postgres://me:geheim@a:b/db",
            "postgres://me:geheim@a/db?password=x",
        ] {
            assert!(!refused(text).contains("geheim"), "{text}");
        }
    }
}
