//! Turns of other requests while a listing is made.

use crate::work;
use crate::world::World;

/// Lets other requests run if this one has run for a while.
pub(super) async fn let_others_run(world: &dyn World) {
    if work::is_long() {
        world.pause().await;
    }
}
