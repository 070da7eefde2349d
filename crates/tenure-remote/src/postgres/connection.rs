//! One connection to the server.
//!
//! # Invariants
//!
//! 1. It is driven by the thread that uses it, on a runtime of its own: no thread is lost in a fork.
//! 2. A request is given up after a time. The connection is not used again then.
//! 3. Statements have no name and types that the server knows without asking: they work below a pooler that gives each
//!    transaction another server connection.
//! 4. In a forked child the connection of the parent is neither used nor closed: both would disturb the parent.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::Failure;

/// A parameter of a statement.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

type Driver = Box<
    dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> + Send,
>;

/// A connection.
pub(super) struct Connection {
    process: u32,
    inner: Option<Inner>,
}

struct Inner {
    runtime: Runtime,
    client: Client,
    /// `None` once the connection is closed.
    driver: Option<Driver>,
    heard: VecDeque<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.take()); // Invariant 4.
        }
    }
}

impl Connection {
    /// Connects to one host.
    pub(super) fn open(
        host: &str,
        config: &Config,
        tls: &MakeRustlsConnect,
        within: Duration,
    ) -> Result<Self, Failure> {
        let unreachable = |message: String| Failure::Unreachable {
            code: None,
            message: format!("{host}: {message}"),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|err| unreachable(err.to_string()))?;
        let connected =
            runtime.block_on(async { timeout(within, config.connect(tls.clone())).await });
        let (client, mut connection) = connected
            .map_err(|_| unreachable(format!("no answer within {within:?}")))?
            .map_err(|err| Failure::of_connection(host, &err))?;
        let driver: Driver = Box::new(move |cx| connection.poll_message(cx));
        let inner = Inner { runtime, client, driver: Some(driver), heard: VecDeque::new() };
        Ok(Self { process: std::process::id(), inner: Some(inner) })
    }

    fn inner(&mut self) -> Result<&mut Inner, Failure> {
        self.inner.as_mut().ok_or_else(|| Failure::Lost("the connection is closed".to_owned()))
    }

    /// Runs one statement, which is a transaction.
    pub(super) fn query(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let Inner { runtime, client, driver, heard } = self.inner()?;
        let done = drive(runtime, driver, heard, within, client.query_typed(statement, parameters));
        self.finished(done, within)
    }

    /// Runs statements without parameters, together one transaction.
    pub(super) fn execute(&mut self, statements: &str, within: Duration) -> Result<(), Failure> {
        let Inner { runtime, client, driver, heard } = self.inner()?;
        let done = drive(runtime, driver, heard, within, client.batch_execute(statements));
        self.finished(done, within)
    }

    fn finished<T>(
        &mut self,
        done: Option<Result<T, tokio_postgres::Error>>,
        within: Duration,
    ) -> Result<T, Failure> {
        let Some(done) = done else {
            self.inner = None; // Invariant 2.
            return Err(Failure::timed_out(within));
        };
        done.map_err(|err| Failure::of_statement(&err))
    }

    /// Waits for a notification; `None` when the time is over.
    pub(super) fn listen(&mut self, within: Duration) -> Result<Option<String>, Failure> {
        let Inner { runtime, driver, heard, .. } = self.inner()?;
        runtime.block_on(async {
            let heard_or_closed = poll_fn(|cx| {
                receive(driver, heard, cx);
                if heard.is_empty() && driver.is_some() { Poll::Pending } else { Poll::Ready(()) }
            });
            timeout(within, heard_or_closed).await.unwrap_or_default();
        });
        let closed = driver.is_none();
        match heard.pop_front() {
            Some(payload) => Ok(Some(payload)),
            None if closed => Err(Failure::Lost("the connection is closed".to_owned())),
            None => Ok(None),
        }
    }

    /// Whether it can be used again.
    pub(super) fn is_open(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.driver.is_some() && !inner.client.is_closed())
    }
}

/// Runs a request of the client; `None` if it takes too long.
fn drive<F: Future>(
    runtime: &Runtime,
    driver: &mut Option<Driver>,
    heard: &mut VecDeque<String>,
    within: Duration,
    request: F,
) -> Option<F::Output> {
    runtime.block_on(async {
        let mut request = pin!(request);
        let answered = poll_fn(|cx| {
            // First the request, which gives the connection something to send; then the connection, whose answers wake
            // the request.
            let before = request.as_mut().poll(cx);
            if before.is_ready() {
                return before;
            }
            receive(driver, heard, cx);
            request.as_mut().poll(cx)
        });
        timeout(within, answered).await.ok()
    })
}

/// Lets the connection send and receive what it can.
fn receive(driver: &mut Option<Driver>, heard: &mut VecDeque<String>, cx: &mut Context<'_>) {
    while let Some(poll) = driver {
        match poll(cx) {
            Poll::Ready(Some(Ok(AsyncMessage::Notification(news)))) => {
                heard.push_back(news.payload().to_owned());
            }
            Poll::Ready(Some(Ok(_))) => {}
            // Dropping it fails the requests that wait for an answer.
            Poll::Ready(Some(Err(_)) | None) => *driver = None,
            Poll::Pending => return,
        }
    }
}
