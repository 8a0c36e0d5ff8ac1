//! Who has agents go from one node to another, with the key of the workspace, or by telling the nodes.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tokio::time::sleep;

use super::plan::{By, FleetPlan};
use super::{Fleets, fleet_name};
use crate::client::now_ms;
use crate::marks::Marks;
use crate::nodes::api::Api;
use crate::nodes::history::Log;
use crate::nodes::plan::node_name;

/// Moves agents until all moves are made; a machine that comes back goes on from there.
pub async fn mover(
    plan: FleetPlan,
    first_agent: usize,
    fleets: Arc<Fleets>,
    api: Api,
    log: Log,
    marks: Marks,
) {
    loop {
        let number = {
            let mut moved = fleets.moved.lock().expect("a run has one thread");
            *moved += 1;
            *moved - 1
        };
        let Some(next) = plan.moves.get(number) else {
            return;
        };
        sleep(Duration::from_millis(next.pause_ms)).await;
        let from = {
            let mut home = fleets.homes[next.agent].lock().expect("a run has one thread");
            let from = home.node;
            home.node = next.to;
            home.version += 1;
            if next.by != By::Registration {
                home.open += 1;
            }
            from
        };
        log.trace(now_ms(), format_args!("from {from}: {next:?}"));
        let name = node_name(first_agent + next.agent);
        let (method, path, body) = match next.by {
            By::Registration => continue,
            By::Key => {
                let path = format!("/v1/nodes/{}/agents", fleet_name(next.to));
                (Method::POST, path, Some(json!({"agent_name": name})))
            }
            By::Removal => {
                let path = format!("/v1/nodes/{}/agents/{name}", fleet_name(from));
                (Method::DELETE, path, None)
            }
        };
        let answer = match api.key().await {
            Some(key) => api.ask(method, &path, &key, body).await.ok_or(()),
            None => Err(()),
        };
        log.trace(now_ms(), format_args!("answered {answer:?}"));
        // What nobody knows the end of may be carried out yet.
        let Ok(answer) = answer else { continue };
        {
            let mut home = fleets.homes[next.agent].lock().expect("a run has one thread");
            home.open -= 1;
            // Whoever has named it meanwhile may have done so before.
            home.version += 1;
        }
        if answer.is_ok() {
            marks.hit(match next.by {
                By::Key => "agent moved by the key",
                By::Removal | By::Registration => "binding ended by the key",
            });
        }
    }
}
