//! Any bytes, with the versions and guards of a document.

use tenure::blob::Blob;
use tenure::{ErrorKind, Result};

use crate::asking::{at_once, guarded, long, patient, proven, together};
use crate::failure::{Failure, Outcome, ensure, equal, refused};
use crate::subject::Subject;

fn blob(subject: &Subject, handle: usize) -> Result<Blob> {
    Blob::on(subject.handle(handle).as_ref(), subject.name("main.rs"))
}

fn bytes(blob: &Blob) -> Result<Option<Vec<u8>>> {
    Ok(blob.read()?.map(|found| found.bytes))
}

pub(super) fn any_bytes_are_kept(subject: &Subject) -> Outcome {
    let (one, other) = (blob(subject, 0)?, blob(subject, 1)?);
    equal!(bytes(&one)?, None, "a file that is not there");
    let contents: [&[u8]; 6] = [b"", b"{", b"fn main() {}\n", b"\xff\0\xfe", b"12", b"{\"a\":1}"];
    for content in contents {
        ensure!(one.put(content, &patient())?.changed, "a change was none");
        equal!(bytes(&other)?, Some(content.to_vec()), "the content");
        ensure!(!other.put(content, &patient())?.changed, "the same content was a change");
    }
    Ok(())
}

pub(super) fn bytes_have_versions_fences_and_guards(subject: &Subject) -> Outcome {
    let blob = blob(subject, 0)?;
    let first = blob.put(b"one", &at_once())?.version;
    let mut options = at_once();
    options.if_version = Some(first);
    blob.put(b"two", &options)?;
    refused(blob.put(b"three", &options), ErrorKind::Conflict, "another version")?;
    let lease = subject.lease(1, "main.rs")?;
    let leased = lease.acquire(&long("agent"))?;
    refused(blob.put(b"three", &at_once()), ErrorKind::Busy, "a write beside a lease")?;
    blob.put(b"three", &proven(leased.fence))?;
    lease.release(&leased.token)?;
    let late = blob.put(b"four", &proven(leased.fence));
    refused(late, ErrorKind::Fenced, "a write under an old fence")?;
    let late = blob.put(b"four", &guarded(lease.path().to_path_buf(), leased.fence));
    ensure!(late.is_err(), "a write under an old guard");
    equal!(bytes(&blob)?, Some(b"three".to_vec()), "the content");
    if subject.can().files {
        blob.undo(&patient())?;
        equal!(bytes(&blob)?, Some(b"two".to_vec()), "the content after an undo");
        blob.undo(&patient())?;
        equal!(bytes(&blob)?, Some(b"three".to_vec()), "the content after a redo");
    }
    Ok(())
}

pub(super) fn no_change_of_bytes_is_lost(subject: &Subject) -> Outcome {
    together(3, |number| {
        let blob = blob(subject, number)?;
        for _ in 0..10 {
            blob.update(&patient(), |old| Ok(Some([old.unwrap_or_default(), b"x"].concat())))?;
        }
        Ok(())
    })?;
    let found = bytes(&blob(subject, 0)?)?.ok_or_else(|| Failure::new("nothing is there"))?;
    equal!(found, vec![b'x'; 30], "the content");
    Ok(())
}
