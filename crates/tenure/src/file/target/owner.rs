//! The owner of a target's sidecars, and which user may own one (G13, races 58 and 63).
//!
//! A sidecar of a user who could have planted it is never used: it may hold a forged record or copy, or
//! show its owner what is written into it.
//!
//! | the directory | the target | sidecars are in | a sidecar may belong to |
//! | --- | --- | --- | --- |
//! | sticky and open to others | is there | `.tenure-UID` of its owner | its owner, root |
//! | sticky and open to others | is missing | `.tenure-UID` of the caller | the caller, root |
//! | any other | is there | `.tenure` | its owner, root, the owner of the directory; any user, if all who may write the directory may write the target |
//! | any other | is missing | `.tenure` | the caller, root, the owner of the directory; a lock to any user, if the directory is open to its group or to others |
//!
//! The fence floor of a directory that is not shared may belong to any user who may write the directory.
//!
//! Only users of the last column create sidecars. The link count of a sidecar decides nothing here: a link
//! changes no owner. It matters where a mode is changed.
//!
//! A sidecar has the mode and group of the target, else it is closed; a lock outside shared directories is
//! open to those who may write the directory as well ([`Target::give_rights`]). The owner and root bring
//! sidecars in line after a `chmod` of the target ([`Target::follow`]).
//!
//! # Invariants
//!
//! 1. `.tenure-UID` belongs to that user or to root, and no other user can write it. So only these
//!    two can have created what is in it. The owner of each file in it is checked all the same.
//! 2. All holders of one target use the sidecars of one user. The target's owner decides which, and
//!    is checked again after each grant ([`Target::confirm_owner`]). A change before the grant
//!    starts the call over ([`Target::at_home`]); a change during the hold is found by the next
//!    check of the hold.
//! 3. Without a target there is no owner to decide. Then the hold is created first, and the
//!    directories of all other users are searched after the grant: of two users at least one sees
//!    the other.
//! 4. A user who may not write the target gets no lock on it through tenure, whatever the modes of the lock
//!    files: these are as open as the directory, were made before the target, or were opened before a `chmod`.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::names::{Names, is_missing, look};
use super::rights::Rights;
use super::{NEW_DIR_MODE, Target, split_sidecar};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Kind, Mode, Stat, side_dir_of, user_of_side_dir};
use crate::printable::{command_with, printable};
use crate::sys;

const ROOT: u32 = 0;
/// How often a call starts over because the target has another owner than a moment ago.
const STARTS_MAX: u32 = 16;

/// The call has to start over: its sidecars are elsewhere by now.
#[derive(Debug)]
struct Moved;

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("its owner changed just now")
    }
}

impl std::error::Error for Moved {}

fn moved(path: &Path) -> Error {
    Error::new(ErrorKind::Busy, "lock", "").at(path).caused_by(io::Error::other(Moved))
}

fn is_moved(error: &Error) -> bool {
    error
        .io_error()
        .and_then(io::Error::get_ref)
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Moved>)
}

impl Target {
    /// Does `act` on the sidecars of the target's owner, and starts over if the owner changes before a
    /// lock is granted. Nothing was done by then.
    pub(crate) fn at_home<T>(&self, mut act: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        let mut home = self.last_known();
        for _ in 1..STARTS_MAX {
            match act(&home) {
                Err(error) if is_moved(&error) => home = Cow::Owned(self.look_again()?),
                done => return done,
            }
        }
        act(&home)
    }

    /// The target with the sidecars of its present owner, for readers, who take no lock.
    pub(crate) fn current(&self) -> Result<Cow<'_, Self>> {
        let home = self.last_known();
        let Some(owner) = home.names.owner else { return Ok(home) };
        let now = match self.fs.stat(self.path()) {
            Ok(found) => found.uid,
            Err(err) if is_missing(&err) => sys::effective_user(),
            Err(err) => return Err(Error::io("look at", self.path(), err)),
        };
        if now == owner { Ok(home) } else { self.look_again().map(Cow::Owned) }
    }

    /// Where the sidecars were at the last look.
    fn last_known(&self) -> Cow<'_, Self> {
        if self.names.owner.is_none() && self.names.around.is_some() {
            return Cow::Borrowed(self);
        }
        // In the child of a fork another thread's copy may be locked for ever.
        let moved_to = self.moved_to.try_lock().ok().and_then(|moved_to| moved_to.clone());
        moved_to.map_or(Cow::Borrowed(self), |names| Cow::Owned(Self { names, ..self.clone() }))
    }

    fn look_again(&self) -> Result<Self> {
        let names = Arc::new(look(self.fs.as_ref(), self.path().to_path_buf(), None)?);
        if let Ok(mut moved_to) = self.moved_to.try_lock() {
            *moved_to = Some(names.clone());
        }
        Ok(Self { names, ..self.clone() })
    }

    /// After a grant, before anything is done under it: the lock is the one that every other user takes, and
    /// the caller may write the target. `hold` is the lock if it is the hold.
    pub(crate) fn confirm_owner(&self, hold: Option<&dyn Handle>) -> Result<()> {
        let (owner, user) = (self.names.owner, sys::effective_user());
        let is_of_others = || self.names.rights.is_some_and(|target| target.uid != user);
        if owner.is_none() && (user == ROOT || !(self.is_open_to_others() || is_of_others())) {
            return Ok(()); // No other user is concerned.
        }
        match (self.fs.stat(self.path()), owner) {
            (Ok(found), Some(owner)) if found.uid != owner => Err(moved(self.path())),
            (Ok(found), _) => self.confirm_writer(user, &found),
            (Err(err), None) if is_missing(&err) => Ok(()),
            (Err(err), Some(owner)) if is_missing(&err) => {
                if owner == user {
                    self.refuse_rival(owner, hold)
                } else {
                    Err(moved(self.path()))
                }
            }
            (Err(err), _) => Err(Error::io("look at", self.path(), err)),
        }
    }

    /// Whether this user, who has its lock, may write the target (invariant 4). The kernel answers. Only a
    /// refusal counts: a running program, for one, may be locked and not be opened for writing.
    fn confirm_writer(&self, user: u32, target: &Stat) -> Result<()> {
        if [ROOT, target.uid].contains(&user) || target.kind != Kind::File {
            return Ok(());
        }
        match self.fs.open(self.path(), Access::Append) {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                let hint = "only a user who may write it may lock, lease or change it";
                Err(Error::io("lock", self.path(), err).hint(hint))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// During a hold: the user whose sidecars are in use now, if that is another one. A target that
    /// is gone has none.
    pub(crate) fn other_owner(&self) -> Option<u32> {
        let owner = self.names.owner?;
        self.fs.stat(self.path()).ok().map(|found| found.uid).filter(|now| *now != owner)
    }

    /// The target with the existing sidecars, for display. In a directory that users share, a name
    /// without a file may have those of another user than the caller.
    pub(crate) fn as_held(&self) -> Result<Cow<'_, Self>> {
        let current = self.current()?;
        let is_there = |path| self.fs.stat(path).is_ok();
        if current.names.owner.is_none()
            || is_there(current.commit_file())
            || is_there(current.path())
        {
            return Ok(current);
        }
        let rivals = current.rivals().map_err(Self::failed("look through", self.dir()))?;
        let Some(rival) = rivals.first() else { return Ok(current) };
        let names = Names::new(self.path().to_path_buf(), Some(*rival))?;
        Ok(Cow::Owned(Self::named(&self.fs, names)))
    }

    /// Whether the target, which is missing, has sidecars of other users, and whose.
    fn rivals(&self) -> io::Result<Vec<u32>> {
        let hold = self.hold_file().file_name().unwrap_or_default();
        let mut rivals = Vec::new();
        for user in self.fs.list(self.dir())?.iter().filter_map(|name| user_of_side_dir(name)) {
            let side = self.dir().join(side_dir_of(user));
            let is_theirs = |path: &Path, kind| {
                let found = self.fs.stat(path);
                found.is_ok_and(|found| found.kind == kind && [user, ROOT].contains(&found.uid))
            };
            // One that is not theirs, or closed to us, is of no use to them either (see `check_side`).
            let is_used =
                is_theirs(&side, Kind::Directory) && is_theirs(&side.join(hold), Kind::File);
            if Some(user) != self.names.owner && is_used {
                rivals.push(user);
            }
        }
        Ok(rivals)
    }

    fn refuse_rival(&self, owner: u32, hold: Option<&dyn Handle>) -> Result<()> {
        let rivals = self.rivals().map_err(Self::failed("look through", self.dir()))?;
        let Some(rival) = rivals.first() else { return Ok(()) };
        // Ours must not keep the other user out. Without a record no fence was given out, and a
        // waiter on an unlinked lock file starts over.
        let unused = self.fs.stat(self.commit_file()).is_err_and(|err| is_missing(&err));
        if hold.is_some_and(|hold| unused && matches!(hold.try_lock(Mode::Exclusive), Ok(true))) {
            let _ = self.fs.remove(self.hold_file());
        }
        let detail = format!(
            "there is no such file, and user {rival} has a lock of that name, which user {owner} cannot use"
        );
        Err(Error::new(ErrorKind::Unsupported, "lock", detail)
            .at(self.path())
            .hint("create the file first, or use a directory of your own"))
    }

    /// Whether other users could have put a file beside the sidecars when the path was resolved.
    pub(super) fn is_open_to_others(&self) -> bool {
        self.names.around.is_none_or(Rights::is_open)
    }

    /// Refuses a sidecar that a user may have planted. As an I/O error, since it is one more way in which
    /// a file cannot be opened.
    pub(super) fn check_owner(&self, path: &Path, found: &Stat) -> io::Result<()> {
        if path.parent() != Some(self.side()) || self.may_own(path, found.uid)? {
            return Ok(());
        }
        let why = match self.names.owner {
            Some(owner) => format!("it belongs to user {}, not to user {owner}", found.uid),
            None => format!("it belongs to user {}, who may not write its target", found.uid),
        };
        let why = format!("{why}; remove it if nothing uses it, or give it to the target's owner");
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// The last column of the table.
    fn may_own(&self, path: &Path, user: u32) -> io::Result<bool> {
        let names = &self.names;
        if user == ROOT {
            return Ok(true);
        }
        if let Some(owner) = names.owner {
            return Ok(user == owner);
        }
        if [names.around, names.rights].into_iter().flatten().any(|rights| rights.uid == user) {
            return Ok(true);
        }
        // Rare, so it is decided by the current state.
        let dir = match self.fs.stat(self.dir()) {
            Err(err) if is_missing(&err) => return Ok(user == sys::effective_user()),
            found => Rights::from(&found?),
        };
        if dir.is_open() && self.is_per_directory(path) {
            return Ok(true); // It says nothing of a single target, and each of them may be the first to need it.
        }
        match self.fs.stat(self.path()) {
            Ok(found) => {
                let target = Rights::from(&found);
                let any = dir.is_open() && target.is_open_to_writers_of(dir);
                Ok(any || [target.uid, dir.uid].contains(&user))
            }
            Err(err) if is_missing(&err) => {
                let any = dir.is_open() && self.is_lock(path);
                Ok(any || [dir.uid, sys::effective_user()].contains(&user))
            }
            Err(err) => Err(err),
        }
    }

    /// Before a new target gets its name: whether its locks are of a user who may not own them once it is
    /// there, since there was none when they were made.
    pub(crate) fn has_locks_of_others(&self, new: &Stat) -> bool {
        let Some(dir) = self.names.around.filter(|dir| dir.is_open() && !dir.is_shared()) else {
            return false; // No other user can have made them.
        };
        let target = Rights::from(new);
        let may_own = |user| [ROOT, target.uid, dir.uid].contains(&user);
        let is_strange = |path| self.fs.stat(path).is_ok_and(|found| !may_own(found.uid));
        !target.is_open_to_writers_of(dir)
            && [self.hold_file(), self.commit_file()].into_iter().any(is_strange)
    }

    /// The call has to start over: its sidecars are no longer the right ones.
    pub(crate) fn moved(&self) -> Error {
        moved(self.path())
    }

    /// Refuses to create a sidecar that others would refuse to use.
    pub(super) fn refuse_to_create(&self, path: &Path) -> Result<()> {
        let user = sys::effective_user();
        let may =
            user == ROOT || self.may_own(path, user).map_err(Self::failed("look at", path))?;
        if may {
            return Ok(());
        }
        let owner = self.fs.stat(self.path()).map(|found| found.uid);
        let owner = owner.map_or_else(|_| "its owner".to_owned(), |owner| format!("user {owner}"));
        let detail = format!("only its owner ({owner}) creates its lock files here");
        Err(Error::new(ErrorKind::Unsupported, "lock", detail).at(self.path()).hint(format!(
            "let {owner} lock it first (`tenure run`), or use a directory of your own"
        )))
    }

    /// Refuses a directory of sidecars that other users could write (invariant 1). One that they
    /// cannot read is refused, too: they could not see a hold without a target (invariant 3).
    pub(super) fn check_side(&self, found: &Stat) -> Result<()> {
        let Some(owner) = self.names.owner else { return Ok(()) };
        let refuse = |detail: String, hint: &str| {
            let error = Error::new(ErrorKind::Unsupported, "use sidecar directory", detail);
            Err(error.at(self.side()).hint(hint))
        };
        if ![owner, ROOT].contains(&found.uid) {
            let detail = format!("it belongs to user {}, not to user {owner}", found.uid);
            return refuse(detail, "use a directory of your own inside the shared one");
        }
        if found.mode & 0o022 != 0 || found.mode & 0o011 != 0o011 {
            let detail = format!("it has mode {:o}", found.mode);
            return refuse(detail, "give it mode 755: others may look into it, and not write it");
        }
        Ok(())
    }

    /// Creates the directory of the sidecars. A crash before it has its mode leaves one that only
    /// its creator can use, or at least only its creator can write.
    pub(super) fn create_side(&self) -> Result<()> {
        let dir = self.fs.stat(self.dir());
        let mode = dir.as_ref().map_or(NEW_DIR_MODE, |found| found.mode);
        if self.names.owner.is_some() != dir.is_ok_and(|dir| Rights::from(&dir).is_shared()) {
            return Err(moved(self.path())); // Another process has made it meanwhile, or changed its mode.
        }
        // A user who may write beside the target may also lock it; the set-group bit passes the
        // group on.
        let plain = (mode & 0o1777) | 0o2000;
        let mode = self.names.owner.map_or(plain, |_| 0o711 | (mode & 0o044));
        self.create_dir(self.side(), mode)?;
        // Another process may have been faster; then it sets the mode.
        let _ = self.give_side(mode);
        let made = self.fs.stat(self.side());
        self.check_side(&made.map_err(Self::failed("look at sidecar directory", self.side()))?)
    }

    /// Gives a directory that we made its final owner and group, where permitted: those of the
    /// target's directory, so that users who may write there may lock, even if root came first; in
    /// a shared directory those of the target, whose owner is not root then.
    fn give_side(&self, mode: u32) -> io::Result<()> {
        let model = match self.names.owner {
            None => self.dir(),
            Some(owner) if owner != ROOT && sys::effective_user() == ROOT => self.path(),
            Some(_) => return Ok(()),
        };
        let (Ok(made), Ok(model)) =
            (self.fs.open(self.side(), Access::Read), self.fs.open(model, Access::Read))
        else {
            return Ok(()); // Not every system opens directories.
        };
        made.copy_attributes(model.as_ref())?;
        let kept = if self.names.owner.is_some() { mode } else { made.stat()?.mode & mode };
        made.set_mode((kept & 0o777) | (mode & 0o7000))
    }

    /// Gives a sidecar its final mode and group: those of the target, if there is one. A lock is
    /// also open to users who may write the directory, so that they share the locks of names
    /// without a file and of files that are opened to them later; in a shared directory it is not.
    /// The mode of a lock does not decide who may lock (invariant 4).
    pub(super) fn give_rights(&self, path: &Path, file: &dyn Handle) -> io::Result<()> {
        let model = if self.is_per_directory(path) { None } else { self.open_model()? };
        let look = || self.fs.stat(self.dir()).ok().map(|found| Rights::from(&found));
        // In a shared directory a sidecar belongs to its user, whatever user owns the directory.
        let mut dir = self.names.around.or_else(look).filter(|dir| !dir.is_shared());
        if let Some(model) = &model {
            file.copy_attributes(model.as_ref())?;
        } else if let Some(Ok(model)) = dir.map(|_| self.fs.open(self.dir(), Access::Read)) {
            file.copy_attributes(model.as_ref())?;
            // Where the group or the list could not be kept, that is less than the directory has.
            dir = Some(Rights::from(&file.stat()?));
        }
        let now = file.stat()?;
        // Sidecars with content are closed to others until there is a target to follow.
        let mut mode = if model.is_some() { now.mode & 0o777 } else { 0 };
        if self.is_lock(path) && now.kind == Kind::File {
            mode |= dir.map_or(0, |dir| dir.of_locks(now.gid));
        }
        if self.floor_file() == path {
            mode |= 0o044; // Every user who draws a fence reads it.
        }
        if mode | 0o600 == now.mode & 0o777 { Ok(()) } else { file.set_mode(mode | 0o600) }
    }

    /// The target, if it is a file. A target that we may not open is an error: its mode is unknown.
    fn open_model(&self) -> io::Result<Option<Arc<dyn Handle>>> {
        match self.fs.open(self.path(), Access::Read) {
            Ok(model) if model.stat()?.kind == Kind::File => Ok(Some(model)),
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => Err(err),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// The final mode of a sidecar; locks are as open as the directory as well.
    fn wanted_mode(&self, path: &Path, target: Rights) -> u32 {
        let plain = self.names.around.filter(|dir| !dir.is_shared() && self.is_lock(path));
        target.of_sidecars() | plain.map_or(0, |dir| dir.of_locks(target.gid))
    }

    /// Brings the sidecars in line with a target that was seen with another group or mode than before. The
    /// owner and root can do that. It costs nothing while nothing has changed.
    pub(crate) fn follow(&self, found: &Stat) {
        let target = Rights::from(found);
        let before = self.followed.swap(target.packed(), Ordering::Relaxed);
        // What was made before a closed target is in line with it.
        let is_new = before == 0 && target.of_sidecars() == 0o600;
        if before != target.packed() && !is_new {
            self.follow_now(target);
        }
    }

    /// The same, by the hold that was just opened: every call without proof opens it first.
    pub(super) fn follow_by_hold(&self, hold: &Stat) {
        let differs = |target: Rights| !self.is_in_line(self.hold_file(), hold, target);
        if !self.names.rights.is_some_and(differs) {
            return;
        }
        // It may have changed since the path was resolved.
        let now = self.fs.stat(self.path()).ok().filter(|found| found.kind == Kind::File);
        if let Some(now) = now.as_ref().map(Rights::from).filter(|now| differs(*now)) {
            self.follow_now(now);
        }
    }

    /// The hold comes last: a second user who can open it can open the rest. A crash in between
    /// leaves the rest to the owner's next call.
    fn follow_now(&self, target: Rights) {
        let user = sys::effective_user();
        // Root gives nothing away.
        let owner = if user == ROOT { target.uid } else { user };
        let is_safe = self.is_safe_from_moves(target);
        for path in self.numbered_sidecars().into_iter().chain(self.sidecars()) {
            let Ok(file) = self.fs.open(&path, Access::Read) else { continue };
            let Ok(found) = file.stat() else { continue };
            // A file with another name is not of our making.
            let is_ours = found.kind == Kind::File && found.links == 1 && found.uid == owner;
            let wanted = self.wanted_mode(&path, target);
            let opens = wanted & !found.mode & 0o077 != 0
                || (target.gid != found.gid && wanted & 0o070 != 0);
            if !is_ours || self.is_in_line(&path, &found, target) || (opens && !is_safe) {
                continue;
            }
            let now = self.give_rights(&path, file.as_ref()).and_then(|()| file.stat());
            if now.is_ok_and(|now| (now.gid, now.mode) == (found.gid, found.mode)) {
                return; // A group that its owner is not in: the others cannot have it either.
            }
        }
    }

    /// Indexes of archives, earlier versions, and what was set aside. They follow the target, too.
    fn numbered_sidecars(&self) -> Vec<PathBuf> {
        let is_numbered = |name: &OsString| {
            let split = name.to_str().and_then(split_sidecar);
            split.is_some_and(|(stem, end)| stem == self.stem() && end.contains('.'))
        };
        let names = self.fs.list(self.side()).unwrap_or_default();
        names.iter().filter(|name| is_numbered(name)).map(|name| self.side().join(name)).collect()
    }

    /// The error of a sidecar that cannot be opened. One that is closed to a user who may read the target
    /// was made before the target was opened to that user.
    pub(crate) fn cannot_open(&self, action: &'static str, path: &Path, err: io::Error) -> Error {
        let is_closed = err.kind() == io::ErrorKind::PermissionDenied;
        let error = Error::io(action, path, err);
        let target = match self.fs.stat(self.path()) {
            Ok(found) if is_closed && path.parent() == Some(self.side()) => Rights::from(&found),
            _ => return error,
        };
        let shown = printable(&self.path().display().to_string());
        if self.fs.open(self.path(), Access::Read).is_err() {
            return error.hint(format!("{shown} itself is closed to you: ask its owner"));
        }
        error.hint(if self.is_safe_from_moves(target) {
            let run = command_with("run", self.path(), "-- true");
            format!(
                "if {shown} was opened to you since, let its owner use tenure on it once more ({run}): \
                 that opens its sidecars to you"
            )
        } else {
            let compact = command_with("journal compact", self.path(), "--from 1");
            format!(
                "if {shown} was opened to you since, let its owner compact it ({compact}): in a directory that \
                 others may write, only new sidecars are opened to you"
            )
        })
    }

    fn is_in_line(&self, path: &Path, found: &Stat, target: Rights) -> bool {
        (found.gid, found.mode & 0o777) == (target.gid, self.wanted_mode(path, target))
    }

    /// Whether only the target's owner and root may put names beside the sidecars. Elsewhere another user may
    /// have moved a closed file of the owner's to the name of a sidecar: there nothing is opened to more users
    /// than before.
    fn is_safe_from_moves(&self, target: Rights) -> bool {
        let is_safe = |dir: Rights| !dir.is_open() && [ROOT, target.uid].contains(&dir.uid);
        self.names.owner.is_some() || self.names.around.is_some_and(is_safe)
    }
}
