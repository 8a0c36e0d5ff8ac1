//! Deliveries as their agent lists them, and its receipts for them.

use super::*;

impl World {
    /// Sends bob a message, and returns the id of its delivery.
    fn delivery(&self, text: &str) -> String {
        let sent = self.done("/v1/dm", &self.alice, &json!({"to": "bob", "text": text}));
        let id = sent["message"]["id"].as_str().expect("an id");
        format!("del_{id}_agt_web:bob")
    }

    /// What bob is to give receipts for: texts and how far they have come.
    fn listed(&self) -> Vec<(String, String)> {
        let rows = self.seen("/v1/deliveries", &self.bob);
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|row| (text(&row["message"]["text"]), text(&row["status"])))
            .collect()
    }

    fn receipt(&self, delivery: &str, which: &str, body: &Value) -> Value {
        self.done(&format!("/v1/deliveries/{delivery}/{which}"), &self.bob, body)
    }
}

fn queued(text: &str) -> (String, String) {
    (text.to_owned(), "queued".to_owned())
}

#[test]
fn a_delivery_is_listed_with_its_message_until_its_receipt() {
    let world = World::new();
    let first = world.delivery("one");
    world.delivery("two");
    let rows = world.seen("/v1/deliveries?limit=1", &world.bob);
    let mut row = rows[0].clone();
    let message = first
        .trim_start_matches("del_")
        .trim_end_matches("_agt_web:bob")
        .to_owned();
    assert_eq!(row["created_at"].take(), row["message"]["created_at"].take());
    assert_eq!(
        rows.as_array().map(Vec::len),
        Some(1),
        "no more than were asked for"
    );
    assert_eq!(
        row,
        json!({
            "id": first, "message_id": message, "channel_id": "dm_web:alice~web:bob", "agent_id": "agt_web:bob",
            "status": "queued", "redelivered": false, "mode": "immediate", "priority": "normal", "deadline": null, "reason": "dm", "idempotency_key": null, "available_at": null, "created_at": null,
            "message": {
                "id": message, "channel_id": "dm_web:alice~web:bob", "agent_id": "agt_web:alice", "agent_name": "alice",
                "text": "one", "thread_id": null, "metadata": null, "created_at": null,
            },
        })
    );
    assert_eq!(world.listed(), [queued("one"), queued("two")]);
    let acked = json!({"id": first, "message_id": message, "agent_id": "agt_web:bob", "status": "acked", "available_at": null});
    assert_eq!(world.receipt(&first, "ack", &json!({})), acked);
    assert_eq!(world.listed(), [queued("two")]);
    assert_eq!(world.receipt(&first, "ack", &json!({})), acked, "again");
    let late = world.receipt(&first, "fail", &json!({"error": "late"}));
    assert_eq!(late["status"], "acked", "receipts only move forward");
    assert_eq!(world.bodies("web:bob"), ["two"]);
}

#[test]
fn what_failed_is_gone_and_what_is_deferred_comes_back_at_its_time() {
    let world = World::new();
    let [failing, later] = ["failing", "later"].map(|text| world.delivery(text));
    let failed = world.receipt(&failing, "fail", &json!({"error": "no", "retryable": true}));
    assert_eq!(failed["status"], "failed");
    assert_eq!(world.receipt(&failing, "fail", &json!({}))["status"], "failed");
    let until = json!({"available_at": "2020-01-01T00:00:00Z"});
    assert_eq!(world.receipt(&later, "defer", &until)["status"], "deferred");
    assert_eq!(world.bodies("web:bob"), ["later"], "that time is over");
    let id = later.trim_start_matches("del_").split('_').next().expect("an id");
    let trace = Request::post("/api/trace", json!({"message": id}).to_string());
    let trace = world.relay.connect().exchange(&trace).json();
    let steps = trace["steps"].as_array().expect("steps");
    assert!(
        steps
            .iter()
            .any(|step| step["step"] == "deferred" && step["until"] == "2020-01-01T00:00:00.000Z"),
        "{trace}"
    );
}

#[test]
fn what_is_accepted_is_told_from_what_is_delivered_and_the_trace_has_the_metadata_of_each_receipt() {
    let world = World::new();
    let delivery = world.delivery("one");
    let accepted = json!({"status": "accepted", "retryable": true, "metadata": {"queue": 2}});
    assert_eq!(world.receipt(&delivery, "ack", &accepted)["status"], "accepted");
    assert_eq!(world.listed(), []);
    assert_eq!(
        world.bodies("web:bob"),
        Vec::<String>::new(),
        "it does not come again"
    );
    let shown = json!({"status": "delivered", "metadata": {"turn": 7}});
    assert_eq!(world.receipt(&delivery, "ack", &shown)["status"], "acked");
    let id = delivery
        .trim_start_matches("del_")
        .split('_')
        .next()
        .expect("an id");
    let trace = world.seen(&format!("/v1/messages/{id}/trace"), &world.alice);
    let steps = trace["steps"].as_array().expect("a list").iter();
    let steps: Vec<_> = steps.map(|step| (&step["step"], &step["metadata"])).collect();
    let said = |step: &str, metadata: &Value| steps.contains(&(&json!(step), metadata));
    assert!(said("accepted", &accepted["metadata"]), "{trace}");
    assert!(said("receipted", &shown["metadata"]), "{trace}");
    for (which, body, words) in [
        (
            "ack",
            json!({"status": "read"}),
            "\"status\" is \"read\"; accepted: delivered, accepted",
        ),
        (
            "ack",
            json!({"retryable": true}),
            "\"retryable\" is for the status \"accepted\"",
        ),
        ("fail", json!({"metadata": 7}), "metadata"),
        (
            "defer",
            json!({"available_at": "2020-01-01T00:00:00Z", "metadata": {"x": "y".repeat(1_024)}}),
            "the metadata has 1032 bytes; accepted: at most 1024",
        ),
    ] {
        let path = format!("/v1/deliveries/{delivery}/{which}");
        refused(
            &world.post(&path, &world.bob, &body),
            400,
            "invalid_request",
            words,
        );
    }
}

#[test]
fn a_receipt_that_makes_no_sense_is_refused_and_changes_nothing() {
    let world = World::new();
    let delivery = world.delivery("one");
    let of_alice = delivery.replace("bob", "alice");
    for unknown in [
        of_alice.as_str(),
        "del_1",
        "x",
        &delivery.replace("del_", ""),
        "del__agt_web:bob",
    ] {
        let path = format!("/v1/deliveries/{unknown}/ack");
        refused(
            &world.post(&path, &world.bob, &json!({})),
            404,
            "delivery_not_found",
            "no delivery",
        );
    }
    let path = format!("/v1/deliveries/{delivery}/ack");
    refused(
        &world.post(&path, &world.alice, &json!({})),
        404,
        "delivery_not_found",
        "no delivery",
    );
    refused(
        &world.post(&path, &world.key, &json!({})),
        403,
        "agent_token_required",
        "an agent",
    );
    let defer = |body: Value| world.post(&format!("/v1/deliveries/{delivery}/defer"), &world.bob, &body);
    for (body, words) in [
        (json!({"available_at": "soon"}), "\"soon\"; accepted: a moment"),
        (json!({}), "available_at"),
        (
            json!({"available_at": "2020-01-01T00:00:00Z", "why": "x"}),
            "`why`",
        ),
        (json!({"available_at": "9999-01-01T00:00:00Z"}), "24 hours"),
    ] {
        refused(&defer(body), 400, "invalid_request", words);
    }
    let fail = format!("/v1/deliveries/{delivery}/fail");
    let long = json!({"error": "x".repeat(1_025)});
    refused(
        &world.post(&fail, &world.bob, &long),
        400,
        "invalid_request",
        "1025 bytes; accepted: at most 1024",
    );
    for limit in ["0", "2001", "x", "1&limit=1"] {
        let path = format!("/v1/deliveries?limit={limit}");
        refused(
            &world.get(&path, &world.bob),
            400,
            "invalid_request",
            "accepted, once: 1 to 2000",
        );
    }
    refused(
        &world.get("/v1/deliveries?status=queued", &world.bob),
        501,
        "not_supported",
        "each says its status",
    );
    refused(
        &world.get("/v1/deliveries?state=queued", &world.bob),
        400,
        "invalid_request",
        "\"state\"; accepted: limit, status",
    );
    assert_eq!(world.listed(), [queued("one")]);
}
