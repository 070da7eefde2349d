//! The platforms that packages are made for, and their names in npm and Debian.

use crate::dist;

/// One platform.
#[derive(Debug)]
pub(super) struct Platform {
    /// As rustc names it.
    pub(super) target: &'static str,
    /// As the loader names it (bindings/node/lib/platform.cjs): the end of the names of its addon and its npm package.
    pub(super) npm: &'static str,
    /// `os`, `cpu` and `libc` of the npm package: what npm compares with the machine.
    pub(super) os: &'static str,
    pub(super) cpu: &'static str,
    pub(super) libc: Option<&'static str>,
    /// As Debian names the processor, where a Debian package is made.
    pub(super) debian: Option<&'static str>,
}

/// All of them; the release workflow has a job for each.
pub(super) const PLATFORMS: &[Platform] = &[
    Platform {
        target: "x86_64-unknown-linux-gnu",
        npm: "linux-x64-gnu",
        os: "linux",
        cpu: "x64",
        libc: Some("glibc"),
        debian: Some("amd64"),
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        npm: "linux-arm64-gnu",
        os: "linux",
        cpu: "arm64",
        libc: Some("glibc"),
        debian: Some("arm64"),
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        npm: "linux-x64-musl",
        os: "linux",
        cpu: "x64",
        libc: Some("musl"),
        debian: None,
    },
    Platform {
        target: "aarch64-unknown-linux-musl",
        npm: "linux-arm64-musl",
        os: "linux",
        cpu: "arm64",
        libc: Some("musl"),
        debian: None,
    },
    Platform {
        target: "x86_64-apple-darwin",
        npm: "darwin-x64",
        os: "darwin",
        cpu: "x64",
        libc: None,
        debian: None,
    },
    Platform {
        target: "aarch64-apple-darwin",
        npm: "darwin-arm64",
        os: "darwin",
        cpu: "arm64",
        libc: None,
        debian: None,
    },
    Platform {
        target: "x86_64-pc-windows-msvc",
        npm: "win32-x64-msvc",
        os: "win32",
        cpu: "x64",
        libc: None,
        debian: None,
    },
    Platform {
        target: "aarch64-pc-windows-msvc",
        npm: "win32-arm64-msvc",
        os: "win32",
        cpu: "arm64",
        libc: None,
        debian: None,
    },
];

impl Platform {
    /// That of this machine.
    pub(super) fn here() -> Result<&'static Self, String> {
        let host = dist::host()?;
        let found = PLATFORMS.iter().find(|platform| platform.target == host);
        found.ok_or_else(|| format!("there are no packages for {host}"))
    }

    /// Whether the GNU C library of the machine it runs on may be an old one.
    pub(super) fn has_old_glibc(&self) -> bool {
        self.libc == Some("glibc")
    }

    /// The name of the addon, in its package and beside the loader.
    pub(super) fn addon(&self) -> String {
        format!("tenure.{}.node", self.npm)
    }

    /// The name of its npm package.
    pub(super) fn package(&self) -> String {
        format!("@tenure/{}", self.npm)
    }
}

#[cfg(test)]
mod tests {
    use super::PLATFORMS;
    use crate::root;

    #[test]
    fn the_release_workflow_has_a_job_for_each_platform() {
        let workflow = root().join(".github/workflows/release.yml");
        let workflow = std::fs::read_to_string(workflow).expect("the workflow");
        for platform in PLATFORMS {
            let job = format!("target: {}\n", platform.target);
            assert_eq!(workflow.matches(&job).count(), 1, "{}", platform.target);
        }
    }
}
