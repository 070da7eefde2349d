//! Starts a server for tests in other languages: `serve-engine postgres` or `serve-engine etcd`.
//!
//! It prints one line for each line that it reads: the URL of a store that no other test uses. The server ends when
//! standard input ends, or with this process.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use tenure_engines::{Etcd, Postgres};
    match std::env::args().nth(1).as_deref() {
        Some("postgres") if Postgres::is_here() => {
            let server = Postgres::start();
            serve(|| server.fresh_url())
        }
        Some("etcd") if Etcd::is_here() => {
            let cluster = Etcd::start(1);
            serve(|| cluster.fresh_url())
        }
        Some("postgres" | "etcd") => ExitCode::from(77), // Reported as not run.
        _ => ExitCode::from(2),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::from(77)
}

/// Answers until there are no more questions.
#[cfg(target_os = "linux")]
fn serve(url: impl Fn() -> String) -> ExitCode {
    use std::io::Write;
    for line in std::io::stdin().lines() {
        let written = line.and_then(|_| writeln!(std::io::stdout(), "{}", url()));
        if written.and_then(|()| std::io::stdout().flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}
