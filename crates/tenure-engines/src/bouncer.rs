//! pgbouncer in transaction mode: each transaction of a client may run on another connection of the server.

use std::path::PathBuf;
use std::time::Duration;

use crate::daemon::{Daemon, Launch};
use crate::{Host, Postgres, place, port, programs, until};

/// A pgbouncer. Dropping it kills it.
#[derive(Debug)]
pub struct Bouncer {
    daemon: Daemon,
    dir: PathBuf,
    port: u16,
    url: String,
}

impl Bouncer {
    pub(crate) fn start(server: &Postgres, user: &str, system_user: Option<&str>) -> Self {
        let (dir, port, host) = (place::directory("bouncer"), port::free(), Host::default());
        let (address, users) = (server.address(), dir.join("users"));
        let (server_host, server_port) = address.rsplit_once(':').expect("an address");
        place::write(&users, &format!("\"{user}\" \"\"\n"));
        let text = format!(
            "[databases]\n* = host={server_host} port={server_port}\n[pgbouncer]\n\
             listen_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=trust\n\
             auth_file={}\npool_mode=transaction\nmax_client_conn=200\ndefault_pool_size=20\n\
             ignore_startup_parameters=extra_float_digits,options\n",
            users.display()
        );
        let configuration = dir.join("pgbouncer.ini");
        place::write(&configuration, &text);
        if let Some(system_user) = system_user {
            place::give(&dir, system_user);
        }
        let program = programs::find("pgbouncer", None);
        let daemon = Daemon::start(&Launch {
            program: &program.expect("pgbouncer is missing: ask `Postgres::has_bouncer` first"),
            arguments: vec![configuration.into()],
            user: system_user,
            host: &host,
            log: dir.join("log"),
        });
        let mut bouncer =
            Self { daemon, dir, port, url: server.url_at(&format!("127.0.0.1:{port}")) };
        until("pgbouncer answers", Duration::from_secs(30), || {
            bouncer.daemon.assert_runs();
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        bouncer
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The store's URL through it, in the default schema.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The store's URL through it, with a schema that nothing else uses.
    pub fn fresh_url(&self) -> String {
        format!("{}?schema={}", self.url, Postgres::fresh_schema())
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.daemon.kill();
        place::remove(&self.dir);
    }
}
