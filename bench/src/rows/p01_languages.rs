//! P1 in other languages: the bindings beside the packages that people lock and save with.
//!
//! A script does one operation for every byte it reads, and answers with the time that it took by its own
//! clock: the way to the script and back is not measured.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tenure::{Lock, LockOptions};

use crate::kit;
use crate::row::{Contender, Form, Goal, Length, Measure, Part, Race, Result, Seat};

/// Before the first sample: until then a compiler may still be at work.
const WARM_UP: usize = 200;

/// Around the operation of a Node script.
const NODE: (&str, &str) = (
    "const fs = require('fs');\n",
    "\nconst byte = Buffer.alloc(1);
while (fs.readSync(0, byte, 0, 1) === 1) {
  const start = process.hrtime.bigint();
  turn();
  fs.writeSync(1, `${process.hrtime.bigint() - start}\\n`);
}\n",
);

/// Around the operation of a Python script.
const PYTHON: (&str, &str) = (
    "import os, time\n",
    "\nwhile os.read(0, 1):
    start = time.perf_counter_ns()
    turn()
    os.write(1, b'%d\\n' % (time.perf_counter_ns() - start))\n",
);

pub(super) fn races(form: Form) -> Vec<Race> {
    let race = |name, turns, contenders, goals| Race {
        name,
        measure: Measure::Median,
        length: Length::Turns(turns),
        rounds: form.pick(3, 15),
        contenders,
        goals,
    };
    vec![
        race(
            "Node",
            form.pick(100, 1000),
            node_locks(),
            vec![
                Goal::speed_at_least(100.0, "tenure, Rust", "proper-lockfile"),
                Goal::speed_at_least(100.0, "tenure, Node", "proper-lockfile").told(),
                Goal::speed_at_least(100.0, "tenure, Node, by path", "proper-lockfile").told(),
            ],
        ),
        race(
            "Node, saving 12 KB durably",
            form.pick(30, 200),
            node_saves(),
            vec![Goal::speed_at_least(1.0, "tenure, Node", "write-file-atomic").told()],
        ),
        race(
            "Python",
            form.pick(100, 1000),
            python_locks(),
            vec![
                Goal::speed_at_least(3.0, "tenure, Python", "filelock"),
                Goal::speed_at_least(3.0, "tenure, Python, by path", "filelock").told(),
                Goal::speed_at_least(3.0, "tenure, Python", "portalocker").told(),
            ],
        ),
    ]
}

fn node_locks() -> Vec<Contender> {
    vec![
        Contender::ours("tenure, Rust", |seat| {
            let (lock, options) = (Lock::open(seat.path("target"))?, LockOptions::default());
            Ok(Part::timed(move || Ok(lock.acquire(&options)?.release()?)))
        })
        .settings("Lock::acquire with default options on a kept handle, LockGuard::release"),
        Contender::ours("tenure, Node", |seat| {
            node(
                seat,
                "const { Lock } = require('tenure'); const target = new Lock('target');
                 const turn = () => target.acquireSync().releaseSync();",
            )
        })
        .settings("Lock.acquireSync, Guard.releaseSync, on a kept object")
        .prepare(|_| kit::part("node/node_modules/tenure").map(|_| ())),
        Contender::ours("tenure, Node, by path", |seat| {
            node(seat, "const { lockSync } = require('tenure'); const turn = () => lockSync('target').releaseSync();")
        })
        .settings("lockSync(path).releaseSync()")
        .prepare(|_| kit::part("node/node_modules/tenure").map(|_| ())),
        Contender::peer("proper-lockfile", |seat| {
            node(
                seat,
                "const lock = require('proper-lockfile'); fs.writeFileSync('target', '');
                 const turn = () => lock.lockSync('target')();",
            )
        })
        .settings("4.1.2: lockSync(path) and the function it returns, default options")
        .prepare(|_| kit::part("node/node_modules/proper-lockfile").map(|_| ())),
    ]
}

fn node_saves() -> Vec<Contender> {
    vec![
        Contender::ours("tenure, Node", |seat| {
            node(
                seat,
                "const { Document } = require('tenure'); const document = new Document('state.json');
                 let n = 0; const text = 'x'.repeat(12000);
                 const turn = () => document.setSync({ n: n++, text });",
            )
        })
        .settings("Document.setSync of an object of 12 KB, durable")
        .prepare(|_| kit::part("node/node_modules/tenure").map(|_| ())),
        Contender::peer("write-file-atomic", |seat| {
            node(
                seat,
                "const write = require('write-file-atomic').sync; let n = 0; const text = 'x'.repeat(12000);
                 const turn = () => write('state.json', JSON.stringify({ n: n++, text }, null, 2));",
            )
        })
        .settings("7.0.0: sync(path, text), default options: syncs the file, not the directory; no lock between processes")
        .prepare(|_| kit::part("node/node_modules/write-file-atomic").map(|_| ())),
    ]
}

fn python_locks() -> Vec<Contender> {
    vec![
        Contender::ours("tenure, Python", |seat| {
            python(
                seat,
                "import tenure\ntarget = tenure.Lock('target')\ndef turn(): target.acquire().release()",
            )
        })
        .settings("Lock(path).acquire, Guard.release, on a kept object")
        .prepare(|_| kit::part("python/tenure").map(|_| ())),
        Contender::ours("tenure, Python, by path", |seat| {
            python(seat, "import tenure\ndef turn(): tenure.lock('target').release()")
        })
        .settings("tenure.lock(path).release()")
        .prepare(|_| kit::part("python/tenure").map(|_| ())),
        Contender::peer("filelock", |seat| {
            python(
                seat,
                "import filelock\nlock = filelock.FileLock('target')\ndef turn():\n    lock.acquire()\n    lock.release()",
            )
        })
        .settings("3.20.0: FileLock(path), acquire, release, on a kept object")
        .prepare(|_| kit::part("python/filelock").map(|_| ())),
        Contender::peer("portalocker", |seat| {
            python(
                seat,
                "import portalocker\ndef turn():\n    with portalocker.Lock('target'): pass",
            )
        })
        .settings("3.2.0: with Lock(path), default options")
        .prepare(|_| kit::part("python/portalocker").map(|_| ())),
    ]
}

fn node(seat: &Seat, operation: &str) -> Result<Part> {
    script(kit::node()?, &seat.path("turn.cjs"), NODE, operation)
}

fn python(seat: &Seat, operation: &str) -> Result<Part> {
    script(kit::python()?, &seat.path("turn.py"), PYTHON, operation)
}

fn script(
    mut interpreter: Command,
    path: &Path,
    (before, after): (&str, &str),
    operation: &str,
) -> Result<Part> {
    kit::file(path, &format!("{before}{operation}{after}"))?;
    let dir = path.parent().ok_or("a script has a directory")?;
    let command = interpreter.arg(path).current_dir(dir);
    let mut script = Script::start(command)?;
    for _ in 0..WARM_UP {
        script.turn()?;
    }
    Ok(Part::sampled(move |samples| {
        samples.push(script.turn()?);
        Ok(())
    }))
}

/// A running script. It ends when its standard input does.
struct Script {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Script {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let ask = child.stdin.take();
        let answers = child.stdout.take().ok_or("the script has no output")?;
        Ok(Self { child, ask, answers: BufReader::new(answers) })
    }

    /// One operation: how many nanoseconds it took.
    fn turn(&mut self) -> Result<u64> {
        self.ask.as_mut().ok_or("the script has no input")?.write_all(b"x")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().map_err(|_| "the script failed".into())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}
