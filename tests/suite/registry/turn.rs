//! A world for one test after the other, whose controller has the flags of the test.

use std::ops::Deref;

use rukpak_tests::world::World;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

static WORLD: OnceCell<World> = OnceCell::const_new();
static TURN: Mutex<()> = Mutex::const_new(());

/// The world, for the test that has its turn.
pub struct Turn {
    world: &'static World,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for its turn, and until the controller runs with these flags.
pub async fn turn(flags: &[&str]) -> Turn {
    let turn = TURN.lock().await;
    let world = WORLD.get_or_try_init(|| World::start(Vec::new())).await;
    let world = world.unwrap_or_else(|error| panic!("the world could not be started: {error:#}"));
    world.controller.set_further_flags(flags).expect("the harness works");
    world.controller.restart().await.expect("the controller starts");
    world.controller.wait_ready().await.expect("the controller is ready");
    Turn { world, _turn: turn }
}

impl Deref for Turn {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}
