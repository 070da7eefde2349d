//! Networks: hosts reach each other, until a link is down or they are parted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tenure_engines::Network;

/// Whether one host gets an answer from the other, within a moment.
fn reaches(network: &Network, from: usize, to: usize) -> bool {
    let (server, client) = (network.host(to), network.host(from));
    let listener = server.run(|| TcpListener::bind((server.address(), 0)).expect("a port"));
    let address: SocketAddr = listener.local_addr().expect("it listens");
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"hello");
        }
        let _ = told.send(());
    });
    let answered = client.run(|| {
        let stream = TcpStream::connect_timeout(&address, Duration::from_millis(300));
        stream.is_ok_and(|mut stream| {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
            let mut text = String::new();
            stream.read_to_string(&mut text).is_ok() && text == "hello"
        })
    });
    // The listener of a connection that never came is woken from its own host.
    let _ = server.run(|| TcpStream::connect(address));
    let _ = heard.recv_timeout(Duration::from_secs(10));
    answered
}

#[test]
fn hosts_are_parted_and_joined_again() {
    if !Network::is_here() {
        return;
    }
    let network = Network::new(3);
    assert!(reaches(&network, 0, 1) && reaches(&network, 1, 0) && reaches(&network, 1, 2));
    network.part(0, 1);
    assert!(!reaches(&network, 0, 1) && !reaches(&network, 1, 0));
    assert!(reaches(&network, 0, 2) && reaches(&network, 1, 2), "others are not affected");
    network.heal(0, 1);
    let back = || reaches(&network, 0, 1).then_some(());
    tenure_engines::until("they find each other", Duration::from_secs(20), back);
    network.lose(0, 1);
    assert!(!reaches(&network, 0, 1));
    network.heal_all();
    network.unplug(2);
    assert!(!reaches(&network, 0, 2) && !reaches(&network, 2, 0) && reaches(&network, 0, 1));
    network.plug(2);
    let back = || reaches(&network, 0, 2).then_some(());
    tenure_engines::until("the cable works again", Duration::from_secs(20), back);
}
