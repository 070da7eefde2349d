//! The proxy: every fault where it was asked for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tenure_engines::{Proxy, Way};

/// A server that answers each byte with the next one.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    byte[0] += 1;
                    let _ = stream.write_all(&byte);
                }
                // Reached only when the requests have ended, not when the connection is cut.
                let _ = stream.write_all(b"end");
            });
        }
    });
    address
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    stream
}

fn ask(stream: &mut TcpStream, text: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(text).ok()?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn it_passes_on_what_it_should() {
    let proxy = Proxy::start(&server());
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"abc").as_deref(), Some(&b"bcd"[..]));
    proxy.delay(Duration::from_millis(40));
    let begin = Instant::now();
    assert!(ask(&mut stream, b"a").is_some());
    assert!(begin.elapsed() >= Duration::from_millis(80), "both ways");
    proxy.heal();
    assert_eq!((proxy.connections(), proxy.cuts()), (1, 0));
}

#[test]
fn it_cuts_at_the_byte_and_loses_the_reply() {
    let proxy = Proxy::start(&server());
    let mut stream = connect(&proxy);
    proxy.cut_after(Way::Replies, 2);
    stream.write_all(b"abcd").expect("it takes it");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"bc");
    let mut stream = connect(&proxy);
    assert!(ask(&mut stream, b"a").is_some(), "the fault happens once");
    proxy.lose_reply();
    assert!(ask(&mut stream, b"a").is_none());
    assert_eq!(proxy.cuts(), 2);
    assert!(ask(&mut connect(&proxy), b"a").is_some());
}

#[test]
fn it_closes_one_direction_and_swallows() {
    let proxy = Proxy::start(&server());
    let mut stream = connect(&proxy);
    proxy.half_close_after(Way::Requests, 1);
    stream.write_all(b"ab").expect("it takes it");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(answer, b"bend", "the server saw the end, and could still answer");
    let mut stream = connect(&proxy);
    proxy.swallow();
    assert!(ask(&mut stream, b"a").is_none());
    proxy.heal();
    let mut late = [0];
    assert!(stream.read_exact(&mut late).is_ok(), "what was swallowed arrives late");
    proxy.refuse();
    assert!(ask(&mut connect(&proxy), b"a").is_none());
    proxy.heal();
    let mut stream = connect(&proxy);
    assert!(ask(&mut stream, b"a").is_some());
    proxy.cut_all();
    assert!(ask(&mut stream, b"a").is_none());
    let _ = stream.shutdown(Shutdown::Both);
}
