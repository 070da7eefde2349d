//! The fence floor of a directory: the first fence of a record that is made here later is above it.
//!
//! A caller that removes a record for good (a pruned key, an unused lock) first raises the floor
//! above all fences of that record, durably: the name may come back, and its fences must keep
//! growing (G4).
//!
//! The floor is a record of its own, `floor`, of which only `ceiling` and `confirmed` are used. It is raised
//! an hour ahead of the clock, so that one sync serves all removals of an hour.
//!
//! A crash before the sync leaves the old `confirmed`: the next one raises it again. A crash after it leaves
//! a floor that is higher than it had to be.

use crate::error::Result;
use crate::file::gate;
use crate::file::record::Record;
use crate::file::target::Target;
use crate::fs::{Access, Mode, if_found};
use crate::options::Fence;
use crate::sys;
use crate::wait::Request;

const AHEAD_US: u64 = 3600 * 1_000_000;

/// The floor of the target's directory: removed records had fences up to here.
pub(crate) fn read(target: &Target) -> Result<Fence> {
    let path = target.floor_file();
    let failed = |action| Target::failed(action, &path);
    let file = if_found(target.open(&path, Access::Read)).map_err(failed("open fence floor"))?;
    let Some(file) = file else { return Ok(0) };
    let (floor, _) = Record::load(file.as_ref(), &path)?;
    let reserved = Record::reserved(file.as_ref()).map_err(failed("read fence floor"))?;
    Ok(reserved.max(floor.ceiling))
}

/// Makes sure that no later record in the target's directory starts at or below `fence`, durably. Returns
/// the floor, which may be higher.
pub(crate) fn raise(target: &Target, fence: Fence, request: Request<'_>) -> Result<Fence> {
    let path = target.floor_file();
    let failed = |action| Target::failed(action, &path);
    let turn = gate::take(target, &path, Mode::Exclusive, request)?;
    let file = turn.handle().as_ref();
    let (mut floor, _) = Record::load(file, &path)?;
    // `confirmed` is what was synced. The written value alone may be from a process that died.
    if floor.confirmed < fence {
        let reserved = Record::reserved(file).map_err(failed("read fence floor"))?;
        // A crash before the sync must not leave what is only written as confirmed.
        floor.confirmed = 0;
        floor.ceiling = fence.max(reserved).max(sys::wall_time_us()) + AHEAD_US;
        floor.store(file).map_err(failed("write fence floor"))?;
        // Kept apart as well: one power loss can tear both slots.
        floor.reserve(file).map_err(failed("write fence floor"))?;
        file.sync().map_err(failed("sync fence floor"))?;
        let side = target.side();
        target.fs.sync_dir(side).map_err(Target::failed("sync directory", side))?;
        floor.confirmed = floor.ceiling;
        floor.store(file).map_err(failed("write fence floor"))?;
    }
    Ok(floor.confirmed)
}
