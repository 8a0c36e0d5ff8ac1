use std::time::Duration;

use serde_json::json;
use tokio_util::task::TaskTracker;

use super::*;
use crate::engine::nodes::{Command, Reply};
use crate::engine::{self, Carrier, Roster, Who};
use crate::server::guard::Guard;
use crate::server::orphans::Orphans;
use crate::server::owner::{Answered, Outcome};
use crate::server::recorder::{NOW, recorded};
use crate::server::{sse, v1};
use crate::tools::DEFAULT;

fn shared() -> Arc<Shared> {
    let (owner, _) = recorded();
    Arc::new(Shared {
        owner,
        boot: uuid::Uuid::nil(),
        started_at: NOW,
        api: Arc::new(v1::Api::new(Box::new(|| [0; 16]))),
        streams: sse::Streams::new(Box::new(|| [1; 16])),
        orphans: Arc::new(Orphans::new(Box::new(String::new()))),
        guard: Guard { port: 0, token: None },
        roster: Roster::default(),
        home: crate::engine::address::Home::default(),
        toolsets: DEFAULT,
        keep_alive: Duration::from_secs(15),
        doors: crate::server::hooks::Doors::default(),
        clis: crate::server::hooks::Clis::default(),

        messaging: Arc::new(crate::server::System),
        pushes: Pushes::new(Vec::new(), Arc::new(System)),
        stop: CancellationToken::new(),
        sockets: TaskTracker::new(),
    })
}

fn made(shared: &Shared, person: SessionId) -> NodeId {
    let create = Command::Create {
        project: "default".to_owned(),
        name: "hook".to_owned(),
        label: None,
        agents_max: None,
        pushes: true,
    };
    let Some(Outcome::Answered(Answered {
        answer: Ok(engine::Reply::Nodes(reply)),
        ..
    })) = shared.owner.call(person, create.into(), None)
    else {
        panic!("a node is made")
    };
    let Reply::Node(view) = *reply else {
        panic!("a node is made")
    };
    view.node
}

#[tokio::test]
async fn a_target_that_there_is_no_session_for_is_refused_and_the_one_before_is_served_on() {
    let shared = shared();
    let target = |port: u16| {
        let url = format!("http://127.0.0.1:{port}/");
        let target = shared.pushes.target(json!({"url": url}));
        target.unwrap_or_else(|error| panic!("{error}"))
    };
    let url = |node| {
        shared
            .pushes
            .shown(node)
            .map(|mut shown: Value| shown["url"].take())
    };
    let (person, _) = shared
        .owner
        .open(Carrier::Exchange, Who::Person)
        .expect("there is room");
    let node = made(&shared, person);
    let mut last = person;
    while let Ok((session, _)) = shared.owner.open(Carrier::Exchange, Who::Person) {
        last = session;
    }
    assert!(shared.push_to(node, target(1)).is_err());
    assert_eq!(url(node), None);
    shared.owner.close(last, Ending::Orderly);
    assert_eq!(shared.push_to(node, target(2)), Ok(()));
    assert_eq!(url(node), Some(json!("http://127.0.0.1:2/")));
    assert!(shared.push_to(node, target(3)).is_err(), "it is full again");
    assert_eq!(url(node), Some(json!("http://127.0.0.1:2/")));
}
