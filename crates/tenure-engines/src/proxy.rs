//! A TCP proxy on loopback that fails on demand: it delays, cuts at any byte, half-closes, loses a reply, and swallows.
//!
//! # Invariants
//!
//! 1. Bytes are passed on unchanged and in order, until a fault ends the connection.
//! 2. A fault is for the connections of now and of later, until [`Proxy::heal`]. One that names a byte is for one
//!    connection: the first that gets there.
//! 3. A cut resets the client's connection and closes the server's: neither side waits for the other.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to connections.
#[derive(Debug, Default)]
struct Plan {
    delay: Duration,
    mode: Mode,
    /// The next connection that has passed on this many bytes in this direction since then is cut there.
    cut: Option<Fuse>,
    /// As `cut`, but only the direction is closed.
    half_close: Option<Fuse>,
    /// Everything that runs, for a cut at once.
    open: Vec<(TcpStream, TcpStream)>,
    connections: u64,
    /// The first connections, so many, pass nothing on.
    stranded: u64,
    cuts: u64,
    is_over: bool,
}

/// What happens to every byte.
#[derive(Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Pass,
    /// Nothing is passed on, and nothing is closed.
    Swallow,
    /// Connections are closed as soon as they are made.
    Refuse,
}

#[derive(Debug, Clone, Copy)]
struct Fuse {
    way: Way,
    left: u64,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
    changed: Condvar,
}

/// A proxy before one server. Dropping it cuts all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A proxy before `server` (`127.0.0.1:5432`).
    pub fn start(server: &str) -> Self {
        let server: SocketAddr = server.parse().expect("an address with a port");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared::default());
        let proxy = Self { address, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.plan().is_over {
                    return;
                }
                shared.accept(client, server);
            }
        });
        proxy
    }

    /// The address that clients use.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Delays each part of each direction.
    pub fn delay(&self, delay: Duration) {
        self.change(|plan| plan.delay = delay);
    }

    /// Passes nothing on any more and closes nothing: a network that loses everything. Accepts connections.
    pub fn swallow(&self) {
        self.change(|plan| plan.mode = Mode::Swallow);
    }

    /// The same for the connections of now. New ones work.
    pub fn strand(&self) {
        self.change(|plan| plan.stranded = plan.connections);
    }

    /// Closes new connections at once.
    pub fn refuse(&self) {
        self.change(|plan| plan.mode = Mode::Refuse);
    }

    /// Cuts the connection that passes on the byte after `bytes` others in this direction, counted from now.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.change(|plan| plan.cut = Some(Fuse { way, left: bytes }));
    }

    /// Closes only this direction of the connection that gets to that byte: the other one goes on.
    pub fn half_close_after(&self, way: Way, bytes: u64) {
        self.change(|plan| plan.half_close = Some(Fuse { way, left: bytes }));
    }

    /// Passes on what is sent next, and cuts the connection instead of passing on the reply.
    pub fn lose_reply(&self) {
        self.cut_after(Way::Replies, 0);
    }

    /// Cuts all connections that are open. New ones work.
    pub fn cut_all(&self) {
        self.change(|plan| {
            for (client, server) in std::mem::take(&mut plan.open) {
                cut(&client, &server);
                plan.cuts += 1;
            }
        });
    }

    /// Ends all faults. Connections that were swallowed go on.
    pub fn heal(&self) {
        self.change(|plan| {
            (plan.delay, plan.mode, plan.stranded) = (Duration::ZERO, Mode::Pass, 0);
            (plan.cut, plan.half_close) = (None, None);
        });
    }

    /// How many connections were made.
    pub fn connections(&self) -> u64 {
        self.shared.plan().connections
    }

    /// How many were cut or half-closed by a fault.
    pub fn cuts(&self) -> u64 {
        self.shared.plan().cuts
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.shared.plan());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.change(|plan| plan.is_over = true);
        self.cut_all();
        // The listener looks when a connection comes.
        let _ = TcpStream::connect(self.address);
    }
}

/// What a direction does with the bytes it has read.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Pass(usize),
    /// Passes so many on, and cuts the connection.
    Cut(usize),
    /// Passes so many on, and closes this direction.
    Close(usize),
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, client: TcpStream, server: SocketAddr) {
        let mut plan = self.plan();
        plan.connections += 1;
        let number = plan.connections;
        if plan.mode == Mode::Refuse {
            return;
        }
        let Ok(server) = TcpStream::connect_timeout(&server, Duration::from_secs(5)) else {
            return;
        };
        let copies =
            (client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone());
        let (Ok(client2), Ok(server2), Ok(client3), Ok(server3)) = copies else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        plan.open.retain(|(client, _)| client.peer_addr().is_ok());
        plan.open.push((client3, server3));
        drop(plan);
        let shared = Arc::clone(self);
        thread::spawn(move || shared.pump(number, Way::Requests, client, server));
        let shared = Arc::clone(self);
        thread::spawn(move || shared.pump(number, Way::Replies, server2, client2));
    }

    fn pump(&self, number: u64, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(_) => return cut(&from, &to),
            };
            let (passed, goes_on) = match self.decide(number, way, read) {
                None => return,
                Some(Next::Pass(length)) => (length, true),
                Some(Next::Close(length)) => (length, false),
                Some(Next::Cut(length)) => {
                    let _ = to.write_all(&buffer[..length]);
                    return cut(&from, &to);
                }
            };
            if to.write_all(&buffer[..passed]).is_err() {
                return cut(&from, &to);
            }
            if !goes_on {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Waits as long as the plan says; `None` when the proxy ends.
    fn decide(&self, number: u64, way: Way, length: usize) -> Option<Next> {
        let mut plan = self.plan();
        let arrived = Instant::now();
        loop {
            if plan.is_over {
                return None;
            }
            let left = plan.delay.saturating_sub(arrived.elapsed());
            let swallows = plan.mode == Mode::Swallow || number <= plan.stranded;
            if !swallows && left.is_zero() {
                break;
            }
            let wait = if swallows { Duration::from_secs(3600) } else { left };
            let waited = self.changed.wait_timeout(plan, wait);
            plan = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(plan.next(way, length))
    }
}

impl Plan {
    fn next(&mut self, way: Way, length: usize) -> Next {
        if let Some(passed) = burn(&mut self.cut, way, length) {
            self.cuts += 1;
            return Next::Cut(passed);
        }
        if let Some(passed) = burn(&mut self.half_close, way, length) {
            self.cuts += 1;
            return Next::Close(passed);
        }
        Next::Pass(length)
    }
}

/// How many of these bytes are before the fault, if it is among them. It happens once.
fn burn(fuse: &mut Option<Fuse>, way: Way, length: usize) -> Option<usize> {
    let burning = fuse.as_mut().filter(|fuse| fuse.way == way)?;
    if burning.left >= length as u64 {
        burning.left -= length as u64;
        return None;
    }
    let passed = usize::try_from(burning.left).unwrap_or(0);
    *fuse = None;
    Some(passed)
}

fn cut(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
