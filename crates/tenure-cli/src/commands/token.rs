//! Where the token of a lease comes from, and where it is kept.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use tenure::store;

use crate::args::TokenFlags;
use crate::environment;
use crate::failure::{Failure, Result};

/// The token that was given for the lease on `path`, by option, file or environment.
pub(super) fn given(flags: &TokenFlags, path: &Path) -> Result<Option<String>> {
    if let Some(token) = &flags.token {
        return Ok(Some(token.clone()));
    }
    match &flags.token_file {
        Some(file) => read(file),
        None => Ok(environment::token_for(path)),
    }
}

/// The same, where a token is required.
pub(super) fn required(flags: &TokenFlags, path: &Path) -> Result<String> {
    given(flags, path)?.ok_or_else(|| {
        Failure::usage("use the lease of", "no token was given")
            .at(path)
            .hint("use --token-file, --token or TENURE_TOKEN")
    })
}

/// The token in a file; if there is none, a new token in a new file that only its owner can read. Of processes
/// that do this at once, all get the same token, so one lease is theirs together.
pub(super) fn obtain(file: &Path) -> Result<String> {
    if let Some(token) = read(file)? {
        return Ok(token);
    }
    let failed = |err| Failure::io("write token file", file, err);
    let token = store::new_token()?;
    // Under another name first: no process sees a file without its token.
    let mut draft = file.as_os_str().to_os_string();
    draft.push(format!(".{token}"));
    let draft = Path::new(&draft);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(draft).and_then(|mut draft| writeln!(draft, "{token}"));
    let named = written.and_then(|()| std::fs::hard_link(draft, file));
    let _ = std::fs::remove_file(draft);
    match named {
        Err(err) if err.kind() == ErrorKind::AlreadyExists => {
            read(file)?.ok_or_else(|| failed(err))
        }
        named => named.map(|()| token).map_err(failed),
    }
}

fn read(file: &Path) -> Result<Option<String>> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)] // Opening a FIFO would wait for a writer.
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let mut opened = match options.open(file) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|err| Failure::io("open token file", file, err))?,
    };
    if !opened.metadata().is_ok_and(|found| found.is_file()) {
        return Err(Failure::usage("read token file", "it is not a regular file")
            .at(file)
            .hint("name a file that `lease acquire --token-file` has written, or a new one"));
    }
    refuse_readable_by_others(&opened, file)?;
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(|err| Failure::io("read token file", file, err))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Failure::usage("read token file", "it is empty").at(file));
    }
    Ok(Some(token.to_owned()))
}

#[cfg(unix)]
fn refuse_readable_by_others(opened: &std::fs::File, file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = opened.metadata().map_err(|err| Failure::io("look at token file", file, err))?;
    if found.permissions().mode() & 0o077 != 0 {
        return Err(Failure::usage("read token file", "others may read or write it")
            .at(file)
            .hint("chmod 600 it, and acquire a new lease if the token may be known"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_readable_by_others(_opened: &std::fs::File, _file: &Path) -> Result<()> {
    Ok(())
}
