//! The Debian package, installed by dpkg into an empty root, and removed.

use std::path::Path;
use std::process::Command;

use super::super::{Job, Report, files, run_command};
use super::use_command;

/// Installs, uses and removes it. Returns the number of environments.
pub(in super::super) fn run(job: &Job, deb: &Path, report: &mut Report) -> Result<u64, String> {
    let home = job.trial.join("debian");
    let top = home.join("root");
    files::empty(&home)?;
    files::directory(&top.join("var/lib/dpkg/updates"))?;
    files::directory(&top.join("var/lib/dpkg/info"))?;
    files::write(&top.join("var/lib/dpkg/status"), "")?;
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        // Only this trial needs root, for a directory of its own; no script is run in it.
        dpkg.arg(format!("--root={}", top.display())).args(["--force-not-root", "--log=/dev/null"]);
        dpkg
    };
    run_command(dpkg().arg("--install").arg(deb))?;
    use_command(&top.join("usr/bin/tenure"), &home.join("work"), &job.version)?;
    for name in
        ["man/man1/tenure.1.gz", "bash-completion/completions/tenure", "doc/tenure/copyright"]
    {
        if !top.join("usr/share").join(name).is_file() {
            return Err(format!("the Debian package has no /usr/share/{name}"));
        }
    }
    run_command(dpkg().args(["--remove", "tenure"]))?;
    if top.join("usr/bin/tenure").exists() {
        return Err("dpkg --remove left the command".into());
    }
    report.note("deb: installed by dpkg into an empty root, used and removed");
    Ok(1)
}
