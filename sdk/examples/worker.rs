//! A worker that answers: whoever sends it a message gets the text back, turned around.
//!
//! `relay serve` in one terminal, `cargo run -p relay-sdk --example worker` in another, and then
//! `relay send worker hello`; its answer is in `relay read user`.

use relay_sdk::{Client, DeliveryRunner, MessageReceipt, adapter};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments
        .next()
        .unwrap_or_else(|| "http://127.0.0.1:7331".to_owned());
    let project = arguments.next().unwrap_or_else(|| "default".to_owned());
    let worker = Client::new(&url)?
        .workspace(&project)
        .await?
        .agent("worker")
        .await?;
    let _listening = worker.events().subscribe(|event| eprintln!("{event:?}"));
    let answering = worker.clone();
    let target = adapter("turns text around", move |message, _context| {
        let worker = answering.clone();
        async move {
            let turned: String = message.text.chars().rev().collect();
            worker.send(&message.from, &turned).await?;
            Ok(MessageReceipt::delivered())
        }
    });
    let running = DeliveryRunner::new(worker, target).start().await?;
    tokio::signal::ctrl_c().await?;
    running.stop().await;
    Ok(())
}
