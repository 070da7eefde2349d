//! The content of a disk after a power loss at some step.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tenure_testkit::Random;

use super::device::Step;
use crate::victim::{Ack, acks_in};

/// The smallest unit that a disk writes atomically.
pub const SECTOR: usize = 512;

/// The contents of a disk, without its zeros.
#[derive(Debug, Clone, Default)]
pub struct Image {
    len: u64,
    sectors: BTreeMap<u64, Arc<[u8]>>,
}

impl Image {
    /// What is in a file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut image = Self { len, ..Self::default() };
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        while at < len {
            let read = file.read_at(&mut piece, at)?;
            image.write(at, &piece[..read]);
            at += read as u64;
        }
        Ok(image)
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no length.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes whole sectors.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(bytes.chunks(SECTOR)) {
            if sector.iter().all(|byte| *byte == 0) {
                self.sectors.remove(&number);
            } else {
                self.sectors.insert(number, sector.into());
            }
        }
    }

    /// Reads whole sectors.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) {
        let first = offset / SECTOR as u64;
        for (number, part) in (first..).zip(buf.chunks_mut(SECTOR)) {
            match self.sectors.get(&number) {
                Some(sector) => part.copy_from_slice(&sector[..part.len()]),
                None => part.fill(0),
            }
        }
    }

    /// Makes it a file, with holes for zeros.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len)?;
        for (number, sector) in &self.sectors {
            file.write_all_at(sector, number * SECTOR as u64)?;
        }
        Ok(())
    }
}

/// A disk whose power went.
#[derive(Debug)]
pub struct Cut {
    /// What it holds.
    pub image: Image,
    /// What was acknowledged before the power loss.
    pub acks: Vec<Ack>,
}

/// How much of the unflushed blocks a cut keeps.
#[derive(Debug, Clone, Copy)]
enum Keep {
    Nothing,
    Everything,
    /// In parts of 256; each write whole or not.
    Writes(u64),
    /// The same, but each write may be torn.
    Torn(u64),
}

impl Cut {
    /// Cuts after the first `steps` steps of a log of a disk that writes `atom` bytes atomically.
    pub fn after(
        base: &Image,
        log: &[Step],
        steps: usize,
        atom: usize,
        random: &mut Random,
    ) -> Self {
        let mut image = base.clone();
        let mut pending = Vec::new();
        let mut told = String::new();
        for step in &log[..steps] {
            match step {
                Step::Write { offset, bytes } => pending.push((*offset, bytes)),
                Step::Flush => {
                    for (offset, bytes) in pending.drain(..) {
                        image.write(offset, bytes);
                    }
                }
                Step::Told(text) => told.push_str(text),
            }
        }
        let keep = match random.below(6) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            2..5 => Keep::Writes(random.below(257)),
            _ => Keep::Torn(random.below(257)),
        };
        for (offset, bytes) in pending {
            match keep {
                Keep::Nothing => {}
                Keep::Everything => image.write(offset, bytes),
                Keep::Writes(parts) => {
                    if random.chance(parts) {
                        image.write(offset, bytes);
                    }
                }
                Keep::Torn(parts) => {
                    for (at, piece) in (offset..).step_by(atom).zip(bytes.chunks(atom)) {
                        if random.chance(parts) {
                            image.write(at, piece);
                        }
                    }
                }
            }
        }
        Self { image, acks: acks_in(&told) }
    }
}
