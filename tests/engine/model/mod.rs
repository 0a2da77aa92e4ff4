//! The engine against a simple reference of the queue and the tree: random inputs of several front ends and native clients, random
//! outcomes of the model, crashes. After each step the two must say the same. `PROPTEST_CASES` and `HEADWATER_MODEL_SEED` run more,
//! and others; a failing case is told step by step.

mod acts;
mod inputs;
mod ledger;
mod queue;
mod rules;
mod same;
mod tree;
mod views;
mod world;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use self::world::World;

/// One thing that happens: what, and numbers that it takes as it needs them.
type Step = (u8, [u8; 8]);

#[test]
fn the_engine_does_what_the_reference_does() {
    let seed = std::env::var("HEADWATER_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let steps = prop::collection::vec(any::<Step>(), 1..64);
    std::panic::set_hook(Box::new(|_| {}));
    let result = TestRunner::new(config).run(&steps, |steps| {
        play(&steps, false);
        Ok(())
    });
    drop(std::panic::take_hook());
    if let Err(failure) = result {
        if let TestError::Fail(_, steps) = &failure {
            play(steps, true);
        }
        panic!("{failure}");
    }
}

fn play(steps: &[Step], aloud: bool) {
    let mut world = World::new(aloud);
    for &(what, numbers) in steps {
        world.step(what, numbers);
    }
    world.every_prefix_folds();
}
