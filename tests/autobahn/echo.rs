//! A server whose `/` says back what it hears, for the Autobahn cases. It says where it listens and serves until it is killed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroU32;
use std::sync::Arc;

use headwater::runtime::{Options, Runtime};
use headwater::store::memory::Memory;
use headwater::web;
use headwater::worker::socket::Hub;

const LIMITS: &str = "readers_max = 1\nsession_requests_max = 1\nreader_batches_max = 1\nreader_bytes_max = 1\ncalls_per_turn_max = 1\n\
                      queue_turns_max = 1\nqueue_messages_max = 1\nreply_bytes_max = 1\nidle_secs = 60\ndrain_secs = 0";
/// The suite's largest message has 16 MiB, in as many as 262,144 frames.
const BYTES: usize = 17 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = web::Options {
        frame_bytes_max: BYTES,
        message_bytes_max: BYTES,
        message_frames_max: 1 << 19,
        outbox_bytes_max: 2 * BYTES,
        outbox_batches_max: 4096,
        // It sends thousands of messages as fast as they come back.
        socket_frames_per_sec: NonZeroU32::MAX,
        socket_frames_burst: NonZeroU32::MAX,
        workers: Some(2),
        ..web::Options::default()
    };
    actix_web::rt::System::new().block_on(async {
        let runtime = Options {
            agents: BTreeMap::new(),
            llms: BTreeMap::new(),
            workers: BTreeMap::new(),
            dialling: Hub::default(),
            limits: toml::from_str(LIMITS)?,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let serving = web::serve(&Runtime::new(runtime, Arc::new(Memory::new())), options, listener)?;
        println!("{}", serving.addresses[0]);
        serving.server.await?;
        Ok(())
    })
}
