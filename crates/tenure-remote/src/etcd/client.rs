//! A blocking client of etcd's JSON gateway: endpoints, tokens, repeated requests, and errors for people.
//!
//! # Invariants
//!
//! 1. Every request may be sent again: what it asks for is safe to repeat. An answer says whether an earlier attempt may
//!    have reached a server ([`Answer::lost`]), so that the caller makes sure that it does nothing *later*.
//! 2. A request ends after the client's patience, whatever the servers do. An error says that nothing was changed only
//!    if no attempt reached a server.
//! 3. Neither the password nor a token is in an error or in `Debug` output.
//! 4. A forked child has no connection of its parent.
//!
//! A member without a leader keeps a request for seven seconds. So an attempt has a time of its own (one second unless
//! the URL says otherwise), and the next one goes to the next member.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::{Value, json};
use tenure::store::ProcessLocal;
use tenure::{Error, ErrorKind, Result};

use super::http::{Connection, Lines, Request, Response};
use super::tls;
use crate::session::locked;
use crate::url::{Host, Secret, Url};

/// How long an attempt takes at most, if the URL does not say it.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A request is given up after so many times of an attempt: an election takes two or three.
const PATIENCE: u32 = 8;
/// It is given up after so many if no member accepts a connection.
const PATIENCE_REFUSED: u32 = 3;
/// The pause before a request is sent again, when every member was tried.
const PAUSE: Duration = Duration::from_millis(50);
/// So many idle connections to one member are kept.
const IDLE_MAX: usize = 32;
/// A token that was just made is refused at most so often.
const LOGINS_MAX: usize = 3;

/// One member.
#[derive(Debug)]
struct Endpoint {
    host: Host,
    idle: ProcessLocal<Mutex<Vec<Connection>>>,
}

/// Who the client is.
#[derive(Debug)]
struct Login {
    user: String,
    password: Secret,
    /// Of this process; `None` before the first login and after the token was refused.
    token: Mutex<Option<Secret>>,
}

/// A client of one cluster.
pub(super) struct Client {
    /// The URL without the password.
    pub(super) name: String,
    endpoints: Vec<Endpoint>,
    /// The member that answered last.
    current: AtomicUsize,
    tls: Option<Arc<ClientConfig>>,
    login: Option<Login>,
    pub(super) timeout: Duration,
    requests: AtomicUsize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Value,
    /// An attempt before this one may have reached a server, and may still be done there.
    pub(super) lost: bool,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The lease that a key should be attached to, or that is asked for, is over.
    LeaseNotFound,
    /// A lease with this id was granted before.
    LeaseExists,
    /// The revision that a watch should begin with was compacted.
    Compacted,
    /// Everything else.
    Error(Error),
}

impl Failure {
    /// The error, for a caller that expects no other failure.
    pub(super) fn error(self, step: &'static str) -> Error {
        match self {
            Self::Error(error) => error,
            Self::LeaseNotFound => Error::new(ErrorKind::LeaseLost, step, "the session has ended")
                .hint("take the hold again"),
            Self::LeaseExists => Error::new(ErrorKind::Io, step, "the lease was granted before"),
            Self::Compacted => Error::new(ErrorKind::Io, step, "the revision was compacted"),
        }
    }
}

/// One attempt that failed.
enum Attempt {
    /// No answer. Whether the request may have been sent.
    Lost { sent: bool, err: io::Error },
    /// The server cannot do it now, and perhaps did.
    Later(String),
    /// The token is not valid (any more).
    Login,
    /// It will not do it.
    Never(Failure),
}

impl Client {
    pub(super) fn new(url: &Url) -> Result<Self> {
        let tls = if url.flag("tls")? { Some(Arc::new(tls::configuration(url)?)) } else { None };
        if tls.is_none() && ["ca", "cert", "key"].iter().any(|name| url.parameter(name).is_some()) {
            let detail = "ca, cert and key need TLS";
            return Err(Error::new(ErrorKind::Invalid, "read the URL of a store", detail)
                .hint("write etcds:// or tls=1"));
        }
        let login = match (&url.user, &url.password) {
            (Some(user), Some(password)) => Some(Login {
                user: user.clone(),
                password: password.clone(),
                token: Mutex::default(),
            }),
            (None, None) => None,
            _ => {
                let detail = "a user of etcd needs a password";
                return Err(Error::new(ErrorKind::Invalid, "read the URL of a store", detail)
                    .hint("write etcd://USER:PASSWORD@HOST:2379/PREFIX"));
            }
        };
        let endpoints = url.hosts.iter().cloned();
        Ok(Self {
            name: url.redacted().to_owned(),
            endpoints: endpoints.map(|host| Endpoint { host, idle: ProcessLocal::new() }).collect(),
            current: AtomicUsize::new(0),
            tls,
            login,
            timeout: url.duration("timeout")?.filter(|time| !time.is_zero()).unwrap_or(TIMEOUT),
            requests: AtomicUsize::new(0),
        })
    }

    /// How many requests were sent, the repeated ones included.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The addresses of the members in the URL.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.endpoints.iter().map(|endpoint| &endpoint.host)
    }

    /// Asks, as often as it takes.
    pub(super) fn ask(
        &self,
        step: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        self.ask_for(step, path, body, self.timeout * PATIENCE)
    }

    /// Asks once more or twice: for what may fail without harm.
    pub(super) fn ask_briefly(
        &self,
        step: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        self.ask_for(step, path, body, self.timeout)
    }

    fn ask_for(
        &self,
        step: &'static str,
        path: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        let until = Instant::now() + patience;
        let bytes = body.to_string().into_bytes();
        let began = Instant::now();
        let (mut lost, mut logins, mut failed, mut refused) = (false, 0, 0_usize, 0_usize);
        loop {
            let place = self.current.load(Ordering::Relaxed) % self.endpoints.len();
            let deadline = until.min(Instant::now() + self.timeout);
            let attempt = match self.attempt(place, path, &bytes, deadline) {
                Ok(body) => return Ok(Answer { body, lost }),
                Err(attempt) => attempt,
            };
            let why = match attempt {
                Attempt::Never(Failure::Error(error)) if !lost => {
                    return Err(Failure::Error(error.committed(false)));
                }
                Attempt::Never(failure) => return Err(failure),
                Attempt::Login => {
                    logins += 1;
                    if logins > LOGINS_MAX {
                        let detail = format!("{}: the server refuses its own token", self.name);
                        return Err(Failure::Error(Error::new(ErrorKind::Io, step, detail)));
                    }
                    continue;
                }
                Attempt::Later(message) => {
                    (lost, refused) = (true, 0);
                    message
                }
                Attempt::Lost { sent, err } => {
                    lost |= sent;
                    let is_refused = err.kind() == io::ErrorKind::ConnectionRefused;
                    refused = if is_refused { refused + 1 } else { 0 };
                    if let Some(error) = tls::refused(&err, step, &self.name) {
                        let error = if lost { error } else { error.committed(false) };
                        return Err(Failure::Error(error));
                    }
                    describe(&err).to_owned()
                }
            };
            self.turn(place);
            failed += 1;
            let all_refuse = refused >= self.endpoints.len()
                && began.elapsed() >= self.timeout * PATIENCE_REFUSED;
            if all_refuse || Instant::now() + PAUSE >= until {
                let at = &self.endpoints[place].host;
                return Err(Failure::Error(self.unreachable(step, at, &why, lost)));
            }
            if failed % self.endpoints.len() == 0 {
                thread::park_timeout(PAUSE);
            }
        }
    }

    /// The next request and the next stream go to the next member.
    pub(super) fn next_member(&self) {
        self.turn(self.current.load(Ordering::Relaxed) % self.endpoints.len());
    }

    /// The next request goes to the member behind this one.
    fn turn(&self, from: usize) {
        let next = (from + 1) % self.endpoints.len();
        let _ = self.current.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn unreachable(&self, step: &'static str, at: &Host, why: &str, lost: bool) -> Error {
        let detail = format!("{}: {at}: {why}", self.name);
        let error = Error::new(ErrorKind::Io, step, detail);
        if lost {
            return error.hint(
                "most members must run and reach each other: see `etcdctl endpoint status`; then \
                 look whether it was done before you repeat it",
            );
        }
        error.committed(false).hint("start etcd, or correct the addresses in the URL")
    }

    fn attempt(
        &self,
        place: usize,
        path: &str,
        body: &[u8],
        until: Instant,
    ) -> Result<Value, Attempt> {
        let token = self.token(place, until)?;
        let token = token.as_ref().map(Secret::expose);
        let request = Request { method: "POST", path, token, body };
        let response = self.send(place, &request, until)?;
        self.read(&response)
    }

    /// Sends a request to one member, on an idle connection if there is one.
    fn send(
        &self,
        place: usize,
        request: &Request<'_>,
        until: Instant,
    ) -> Result<Response, Attempt> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let endpoint = &self.endpoints[place];
        let idle = locked(endpoint.idle.here()).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(&endpoint.host, self.tls.as_ref(), until)
                .map_err(|err| Attempt::Lost { sent: false, err })?,
        };
        connection.set_deadline(until);
        let response = connection.request(request).map_err(|err| {
            locked(endpoint.idle.here()).clear(); // The others are as old, and lost as well.
            connection.lost(err)
        })?;
        if connection.stays_open() {
            let mut idle = locked(endpoint.idle.here());
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        Ok(response)
    }

    /// Asks one member, once, for what `check` shows.
    pub(super) fn ask_member(
        &self,
        place: usize,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Vec<u8>, Error> {
        let step = "look at";
        let until = Instant::now() + self.timeout;
        let bytes = body.to_string().into_bytes();
        let asked = || {
            let token = self.token(place, until)?;
            let token = token.as_ref().map(Secret::expose);
            let response =
                self.send(place, &Request { method, path, token, body: &bytes }, until)?;
            if response.status == 200 {
                return Ok(response.body);
            }
            Err(self.read(&response).err().unwrap_or(Attempt::Login))
        };
        let attempt = match asked() {
            Err(Attempt::Login) => asked(),
            answer => answer,
        };
        attempt.map_err(|attempt| match attempt {
            Attempt::Never(failure) => failure.error(step),
            Attempt::Lost { err, .. } => {
                let refused = tls::refused(&err, step, &self.name);
                refused.unwrap_or_else(|| Error::new(ErrorKind::Io, step, describe(&err)))
            }
            Attempt::Later(message) => Error::new(ErrorKind::Io, step, message),
            Attempt::Login => Error::new(ErrorKind::Io, step, "it refuses its own token"),
        })
    }

    /// Opens a stream of answers at the present member, or at the next one after a failure.
    pub(super) fn stream(&self, path: &str, body: &Value) -> Result<Lines, Failure> {
        let step = "watch";
        let place = self.current.load(Ordering::Relaxed) % self.endpoints.len();
        let until = Instant::now() + self.timeout;
        let bytes = body.to_string().into_bytes();
        let host = &self.endpoints[place].host;
        let open = || {
            let token = self.token(place, until)?;
            let token = token.as_ref().map(Secret::expose);
            self.requests.fetch_add(1, Ordering::Relaxed);
            let lost = |err| Attempt::Lost { sent: false, err };
            let connection = Connection::open(host, self.tls.as_ref(), until).map_err(lost)?;
            let request = Request { method: "POST", path, token, body: &bytes };
            match connection.stream(&request).map_err(lost)? {
                Ok(lines) => Ok(lines),
                Err(response) => Err(self.read(&response).err().unwrap_or(Attempt::Login)),
            }
        };
        open().map_err(|attempt| {
            if !matches!(attempt, Attempt::Never(_) | Attempt::Login) {
                self.turn(place);
            }
            match attempt {
                Attempt::Never(failure) => failure,
                Attempt::Login => Failure::Error(Error::new(ErrorKind::Io, step, "logged out")),
                Attempt::Later(why) => Failure::Error(self.unreachable(step, host, &why, false)),
                Attempt::Lost { err, .. } => {
                    Failure::Error(self.unreachable(step, host, describe(&err), false))
                }
            }
        })
    }

    /// The token of this process, from a login if there is none.
    fn token(&self, place: usize, until: Instant) -> Result<Option<Secret>, Attempt> {
        let Some(login) = &self.login else { return Ok(None) };
        let known = locked(&login.token).clone();
        let token = match known {
            Some(token) => token,
            None => self.log_in(login, place, until)?,
        };
        // Without authentication at the server there is no token.
        Ok(Some(token).filter(|token| !token.expose().is_empty()))
    }

    /// Asks for a token. No lock is held: several threads may do it at once.
    fn log_in(&self, login: &Login, place: usize, until: Instant) -> Result<Secret, Attempt> {
        let body = json!({ "name": login.user, "password": login.password.expose() });
        let body = body.to_string().into_bytes();
        let path = "/v3/auth/authenticate";
        let request = Request { method: "POST", path, token: None, body: &body };
        let response = self.send(place, &request, until).map_err(|attempt| match attempt {
            // A login changes nothing: sending it again is always right.
            Attempt::Lost { err, .. } => Attempt::Lost { sent: false, err },
            other => other,
        })?;
        let answer = self.read(&response)?;
        let token = Secret::new(answer["token"].as_str().unwrap_or_default());
        *locked(&login.token) = Some(token.clone());
        Ok(token)
    }

    /// The answer in a response, or what is wrong.
    fn read(&self, response: &Response) -> Result<Value, Attempt> {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        if response.status == 200 && body.is_object() {
            return Ok(body);
        }
        let code = body["code"].as_u64().unwrap_or(0);
        let message = ["message", "error"].iter().find_map(|field| body[*field].as_str());
        if is_incomplete(response, message) {
            return Err(Attempt::Lost { sent: false, err: io::ErrorKind::InvalidInput.into() });
        }
        let unknown = format!("HTTP status {}", response.status);
        Err(self.judge(code, message.unwrap_or(&unknown)))
    }

    /// What an error of the server means.
    pub(super) fn judge_line(&self, message: &str) -> Failure {
        match self.judge(0, message) {
            Attempt::Never(failure) => failure,
            _ => Failure::Error(Error::new(ErrorKind::Io, "watch", message.to_owned())),
        }
    }

    fn judge(&self, code: u64, message: &str) -> Attempt {
        let has = |part: &str| message.contains(part);
        let refuse = |kind, detail: String, hint: String| {
            let error = Error::new(kind, "ask the store", format!("{}: {detail}", self.name));
            Attempt::Never(Failure::Error(error.hint(hint)))
        };
        let user = self.login.as_ref().map_or("", |login| login.user.as_str());
        if has("requested lease not found") {
            Attempt::Never(Failure::LeaseNotFound)
        } else if has("lease already exists") {
            Attempt::Never(Failure::LeaseExists)
        } else if has("required revision has been compacted") {
            Attempt::Never(Failure::Compacted)
        } else if has("invalid auth token") || has("revision of auth store is old") {
            if let Some(login) = &self.login {
                *locked(&login.token) = None;
            }
            Attempt::Login
        } else if has("authentication is not enabled") {
            if let Some(login) = &self.login {
                *locked(&login.token) = Some(Secret::new(""));
            }
            Attempt::Login
        } else if has("authentication failed") {
            let detail = format!("etcd refuses the user `{user}` or the password");
            refuse(ErrorKind::Invalid, detail, "correct them in the URL".to_owned())
        } else if has("user name is empty") {
            let hint = "write etcd://USER:PASSWORD@HOST:2379/PREFIX".to_owned();
            refuse(ErrorKind::Invalid, "etcd asks for a user and a password".to_owned(), hint)
        } else if code == 7 || has("permission denied") {
            let detail = format!("permission denied for the user `{user}`");
            let hint = format!(
                "grant it read and write on the prefix: `etcdctl role grant-permission ROLE \
                 --prefix=true readwrite {}`",
                self.granted()
            );
            refuse(ErrorKind::Io, detail, hint)
        } else if has("database space exceeded") {
            let detail = "etcd has used up its quota and takes no writes".to_owned();
            let hint = "compact and defragment it (`etcdctl compact REVISION`, `etcdctl defrag`), \
                        or raise --quota-backend-bytes; then `etcdctl alarm disarm`";
            refuse(ErrorKind::Io, detail, hint.to_owned())
        } else if has("request is too large") || has("larger than max") {
            let detail = "the request is larger than the server accepts".to_owned();
            let hint = "write less at once, or raise etcd's --max-request-bytes".to_owned();
            refuse(ErrorKind::Invalid, detail, hint)
        } else if code == 14 || code == 4 || has("too many requests") {
            Attempt::Later(message.to_owned())
        } else if has("Not Found") || has("HTTP status 404") {
            let detail = "there is no JSON gateway".to_owned();
            let hint = "start etcd 3.4 or later without --enable-grpc-gateway=false".to_owned();
            refuse(ErrorKind::Unsupported, detail, hint)
        } else {
            let hint = "see the log of etcd".to_owned();
            refuse(ErrorKind::Io, format!("etcd says: {message}"), hint)
        }
    }

    /// What a role has to be granted, as `etcdctl` takes it.
    fn granted(&self) -> String {
        let path = self.name.split_once("://").map_or("", |(_, rest)| rest);
        let path = path.split('?').next().unwrap_or_default();
        path.split_once('/').map_or("/".to_owned(), |(_, path)| format!("/{path}/"))
    }
}

impl Connection {
    /// A request that failed on this connection. Nothing was sent before TLS is agreed upon.
    fn lost(&self, err: io::Error) -> Attempt {
        if !self.is_handshaking() {
            return Attempt::Lost { sent: true, err };
        }
        let is_closed =
            matches!(err.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
        let err = if is_closed { io::ErrorKind::ConnectionAborted.into() } else { err };
        Attempt::Lost { sent: false, err }
    }
}

/// Whether the server got a part of the request only, as from a connection that was half-closed on its way. Ours are right
/// as they are sent, so nothing else makes it refuse the head, or miss the end of the body.
fn is_incomplete(response: &Response, message: Option<&str>) -> bool {
    let wants_tls = || response.body.windows(5).any(|part| part == b"HTTPS");
    response.status == 400
        && message.map_or_else(|| !wants_tls(), |message| message.contains("unexpected EOF"))
}

/// An error of the system in a few words.
fn describe(err: &io::Error) -> &'static str {
    match err.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::ConnectionAborted => {
            "the connection was closed before TLS was agreed upon: does the server use TLS?"
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => "the connection was closed",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "the host cannot be reached"
        }
        io::ErrorKind::InvalidInput => "a part of the request did not arrive",
        io::ErrorKind::InvalidData => "the answer is not from etcd (TLS on one side only?)",
        _ => "the name has no address, or the connection failed",
    }
}
