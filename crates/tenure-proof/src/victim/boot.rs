//! Another boot of the machine: tenure recognises a power loss by the boot id.

use std::sync::Arc;

use tenure::fs::Fs;

use super::layer::{Layer, lay};

struct Boot(u64);

impl Layer for Boot {
    fn boot_id(&self, _: &dyn Fs) -> [u8; 16] {
        let mut id = [0xB0; 16];
        id[..8].copy_from_slice(&self.0.to_le_bytes());
        id
    }
}

/// `below`, as it is in the boot with this number.
pub fn boot(number: u64, below: &Arc<dyn Fs>) -> Arc<dyn Fs> {
    lay(Arc::new(Boot(number)), below)
}
