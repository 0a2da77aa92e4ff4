//! How many session tasks live.

use std::sync::Arc;

use super::shared::Shared;

/// Counts as a task that lives, also when it ends by a panic.
pub struct Living(Arc<Shared>);

impl Living {
    /// One more.
    pub fn of(shared: &Arc<Shared>) -> Self {
        shared.living.send_modify(|living| *living += 1);
        Self(shared.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.living.send_modify(|living| *living -= 1);
    }
}
