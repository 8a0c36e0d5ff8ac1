//! A relay that asks every request for its own token.

use super::*;

const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn a_relay_with_a_token_of_its_own_lets_those_in_who_were_given_it() {
    let relay = Relay::start_with(&["--token", TOKEN], &[]);
    let guarded = client(&relay).with_token(TOKEN).expect("a token");
    let workspace = guarded.workspace("web").await.expect("a workspace");
    let [alice, bob] = [workspace.agent("alice").await, workspace.agent("bob").await];
    let (alice, bob) = (alice.expect("an agent"), bob.expect("an agent"));
    let seen = Seen::default();
    let running = run(&bob, target(&seen, |_, _| Ok(MessageReceipt::delivered()))).await;
    alice.send("bob", "over the fence").await.expect("it is sent");
    assert_eq!(seen.many(1).await, ["over the fence"]);
    running.stop().await;

    // Neither without it, nor with another, which nobody is shown.
    let other = client(&relay).with_token("fedcba9876543210").expect("a token");
    for refused in [client(&relay), other] {
        let error = refused.workspace("web").await.map(drop).expect_err("no way in");
        assert!(matches!(&error, Error::Refused { status: 401, .. }), "{error:?}");
        assert!(
            !format!("{error} {error:?} {refused:?}").contains("fedcba"),
            "{error:?}"
        );
    }
    let unusable = client(&relay).with_token("a\nb").expect_err("no header has it");
    assert!(matches!(unusable, Error::Token), "{unusable:?}");
}
