//! HTTP/1.1 over TCP or TLS: as much of it as etcd's gateway speaks.
//!
//! A library of its own because of two things that the common ones do not give: a response that never ends is read with
//! a deadline for each wait and goes on after it, and a failed request says whether it may have been sent.
//!
//! # Invariants
//!
//! 1. No read and no write outlasts the connection's deadline.
//! 2. A deadline in the middle of a response loses no byte: the next read goes on behind the last one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::url::Host;

/// A line of a response's head is never this long.
const HEAD_LINE_MAX: usize = 16 << 10;
/// A response is never this long: pages are cut far below it.
const BODY_MAX: usize = 1 << 30;

/// A TCP stream whose reads and writes end at a deadline.
#[derive(Debug)]
struct Timed {
    tcp: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// The system reports a read or write that took too long as one that would block.
fn timed_out(err: io::Error) -> io::Error {
    if err.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { err }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(Some(self.left()?))?;
        self.tcp.read(buffer).map_err(timed_out)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(Some(self.left()?))?;
        self.tcp.write(buffer).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

#[derive(Debug)]
enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<Stream>,
    /// What is sent as `Host`.
    host: String,
    /// The server keeps it open after the response.
    stays_open: bool,
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// How the length of a body is known.
#[derive(Debug)]
enum Length {
    Known(usize),
    Chunked(Chunks),
    UntilClosed,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) body: &'a [u8],
}

impl Connection {
    /// Connects. With TLS the handshake is part of the first request.
    pub(super) fn open(
        host: &Host,
        tls: Option<&Arc<ClientConfig>>,
        until: Instant,
    ) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host.name.as_str(), host.port).to_socket_addrs()? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(tcp) => return Self::over(tcp, host, tls, until),
                Err(err) => last = timed_out(err),
            }
        }
        Err(last)
    }

    fn over(
        tcp: TcpStream,
        host: &Host,
        tls: Option<&Arc<ClientConfig>>,
        until: Instant,
    ) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        let timed = Timed { tcp, until };
        let stream = match tls {
            None => Stream::Plain(timed),
            Some(config) => {
                let name = ServerName::try_from(host.name.clone()).map_err(io::Error::other)?;
                let tls = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Stream::Tls(Box::new(StreamOwned::new(tls, timed)))
            }
        };
        let stream = BufReader::with_capacity(16 << 10, stream);
        Ok(Self { stream, host: host.to_string(), stays_open: true })
    }

    /// Reads and writes end then.
    pub(super) fn set_deadline(&mut self, until: Instant) {
        match self.stream.get_mut() {
            Stream::Plain(stream) => stream.until = until,
            Stream::Tls(stream) => stream.sock.until = until,
        }
    }

    /// Whether TLS is not agreed upon yet.
    pub(super) fn is_handshaking(&self) -> bool {
        match self.stream.get_ref() {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.conn.is_handshaking(),
        }
    }

    /// Whether another request may be sent on it.
    pub(super) fn stays_open(&self) -> bool {
        self.stays_open
    }

    /// Sends a request and reads the whole response.
    pub(super) fn request(&mut self, request: &Request<'_>) -> io::Result<Response> {
        let (status, length) = self.begin(request)?;
        let mut body = Vec::new();
        match length {
            Length::Known(length) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            Length::Chunked(mut chunks) => while chunks.read(&mut self.stream, &mut body)? {},
            Length::UntilClosed => {
                self.stays_open = false;
                self.stream.read_to_end(&mut body)?;
            }
        }
        Ok(Response { status, body })
    }

    /// Sends a request whose response is a stream of lines.
    pub(super) fn stream(mut self, request: &Request<'_>) -> io::Result<Result<Lines, Response>> {
        match self.begin(request)? {
            (200, Length::Chunked(chunks)) => {
                Ok(Ok(Lines { connection: self, chunks, line: Vec::new() }))
            }
            (status, Length::Known(length)) => {
                let mut body = vec![0; length];
                self.stream.read_exact(&mut body)?;
                Ok(Err(Response { status, body }))
            }
            (status, Length::Chunked(mut chunks)) => {
                let mut body = Vec::new();
                while chunks.read(&mut self.stream, &mut body)? {}
                Ok(Err(Response { status, body }))
            }
            (status, Length::UntilClosed) => Ok(Err(Response { status, body: Vec::new() })),
        }
    }

    /// Sends a request and reads the head of the response.
    fn begin(&mut self, request: &Request<'_>) -> io::Result<(u16, Length)> {
        let Request { method, path, token, body } = request;
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            self.host,
            body.len()
        );
        if let Some(token) = token {
            text += "Authorization: ";
            text += token;
            text += "\r\n";
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(body);
        match self.stream.get_mut() {
            Stream::Plain(stream) => stream.write_all(&bytes)?,
            Stream::Tls(stream) => {
                stream.write_all(&bytes)?;
                stream.flush()?;
            }
        }
        self.head()
    }

    fn head(&mut self) -> io::Result<(u16, Length)> {
        let first = self.head_line()?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|digits| digits.parse().ok()).ok_or_else(not_http)?;
        let mut length = Length::UntilClosed;
        loop {
            let line = self.head_line()?;
            if line.is_empty() {
                return Ok((status, length));
            }
            let (name, value) = line.split_once(':').ok_or_else(not_http)?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let bytes = value.parse().ok().filter(|bytes| *bytes <= BODY_MAX);
                length = Length::Known(bytes.ok_or_else(not_http)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Length::Chunked(Chunks::default());
            } else if name.eq_ignore_ascii_case("connection") {
                self.stays_open &= !value.eq_ignore_ascii_case("close");
            }
        }
    }

    fn head_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(HEAD_LINE_MAX as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix(b"\r\n").ok_or_else(not_http)?;
        String::from_utf8(line.to_vec()).map_err(|_| not_http())
    }
}

fn not_http() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is not from an HTTP server")
}

/// A body in chunks, and how far it was read.
#[derive(Debug, Default)]
struct Chunks {
    /// What is left of the present chunk, its line end included.
    left: usize,
    /// The line with the size of the next one, as far as it was read.
    size: Vec<u8>,
    ended: bool,
}

impl Chunks {
    /// Reads some bytes; `false` at the end.
    fn read(&mut self, from: &mut BufReader<Stream>, into: &mut Vec<u8>) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.left == 0 {
            from.read_until(b'\n', &mut self.size)?;
            let line = self.size.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
            let line = std::str::from_utf8(line).map_err(|_| not_http())?;
            let size = usize::from_str_radix(line, 16).ok().filter(|size| *size <= BODY_MAX);
            let size = size.ok_or_else(not_http)?;
            self.size.clear();
            self.left = size + 2;
            self.ended = size == 0;
        }
        if into.len() > BODY_MAX {
            return Err(not_http());
        }
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let some = bytes.len().min(self.left);
        let content = some.min(self.left.saturating_sub(2));
        into.extend_from_slice(&bytes[..content]);
        from.consume(some);
        self.left -= some;
        if self.ended {
            while self.left > 0 {
                let some = from.fill_buf()?.len().min(self.left);
                if some == 0 {
                    break;
                }
                from.consume(some);
                self.left -= some;
            }
            return Ok(false);
        }
        Ok(true)
    }
}

/// A response that is a stream of lines.
#[derive(Debug)]
pub(super) struct Lines {
    connection: Connection,
    chunks: Chunks,
    /// What was read and not yet given out.
    line: Vec<u8>,
}

impl Lines {
    /// The next line, if it comes before then.
    pub(super) fn next(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        self.connection.set_deadline(until);
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let rest = self.line.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.line, rest));
            }
            if !self.chunks.read(&mut self.connection.stream, &mut self.line)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
