//! Groups, which somebody makes and fills with agents and roles.

use relay::engine::groups::{Command as Groups, GroupView, Member, Named};

use super::channels::{names, posted};
use super::*;

/// pm's own session, and that of an agent of another project.
const PM: SessionId = SessionId(4);
const UI: SessionId = SessionId(5);

/// A relay where they are open, and both agents know that it started.
fn with_pm() -> Relay {
    with_pm_within(ROOMY)
}

fn with_pm_within(bounds: Bounds) -> Relay {
    let mut relay = Relay::told_within(bounds);
    relay.open(PM, Carrier::Stream, Some("pm"));
    relay.register(UI, registration("web:ui", None));
    relay
}

fn create(group: &str, description: &str) -> Command {
    Command::Groups(Groups::Create {
        name: group.to_owned(),
        description: description.to_owned(),
    })
}

fn delete(group: &str) -> Command {
    let name = group.to_owned();
    Command::Groups(Groups::Delete { name })
}

fn add(group: &str, member: Named) -> Command {
    let group = group.to_owned();
    Command::Groups(Groups::Add { group, member })
}

fn remove(group: &str, member: Named) -> Command {
    let group = group.to_owned();
    Command::Groups(Groups::Remove { group, member })
}

fn list(project: Option<&str>) -> Command {
    let project = project.map(str::to_owned);
    Command::Groups(Groups::List { project })
}

fn get(group: &str) -> Command {
    let name = group.to_owned();
    Command::Groups(Groups::Get { name, expand: true })
}

fn agent(agent: &str) -> Named {
    Named::Agent(agent.to_owned())
}

fn role(role: &str) -> Named {
    Named::Role(role.to_owned())
}

fn group(group: &str) -> GroupName {
    let (project, name) = group.split_once(':').unwrap_or((DEFAULT_PROJECT, group));
    GroupName::in_project(project, name).expect("a good name")
}

fn answered(call: u64, reply: groups::Reply) -> [Effect; 1] {
    [super::reply(call, Ok(reply.into()))]
}

fn refuses(call: u64, refusal: groups::Refusal) -> [Effect; 1] {
    [refused(call, refusal.into())]
}

fn unknown_group(call: u64, name: &str, known: &[&str]) -> [Effect; 1] {
    let known = known.iter().map(ToString::to_string).collect();
    let name = name.to_owned();
    refuses(call, groups::Refusal::UnknownGroup { name, known })
}

/// How a group is listed that pm made at the start.
fn view(name: &str, description: &str, members: usize) -> GroupView {
    GroupView {
        project: "default".to_owned(),
        name: name.to_owned(),
        description: description.to_owned(),
        created_at: START,
        created_by: Some(super::name("pm")),
        members,
    }
}

/// How the group of all agents is listed.
fn everyone(members: usize) -> GroupView {
    GroupView {
        created_by: None,
        ..view("everyone", "All agents", members)
    }
}

#[test]
fn a_group_is_made_filled_looked_at_and_ended() {
    use groups::Reply::{Added, Created, Deleted, Listed, Removed, Seen};
    let mut relay = with_pm();
    let crew = group("crew");
    let made = relay.call(PM, 1, create("crew", "who builds"));
    assert_eq!(made, answered(1, Created { name: crew.clone() }));
    let added = |member| Added {
        group: crew.clone(),
        member,
    };
    let (dev_b, dev_a) = (Member::Agent(name("dev-b")), Member::Agent(name("dev-a")));
    let tester = Member::Role(Role::new("tester").unwrap());
    for (call, named, member) in [
        (2, agent("dev-b"), &dev_b),
        (3, role("tester"), &tester),
        (4, agent("@dev-a"), &dev_a),
        (5, agent("dev-a"), &dev_a),
        (6, role("@tester"), &tester),
    ] {
        let effects = relay.call(PM, call, add("@crew", named));
        assert_eq!(effects, answered(call, added(member.clone())), "twice is once");
    }
    relay.register(SessionId(6), of_role("tester", registration("dev-b", None)));
    relay.register(SessionId(7), of_role("tester", registration("qa", None)));
    let seen = |call, members: &[&Member], agents: &[&str]| {
        answered(
            call,
            Seen {
                group: Box::new(view("crew", "who builds", members.len())),
                members: members.iter().copied().cloned().collect(),
                agents: Some(names(agents)),
            },
        )
    };
    assert_eq!(
        relay.call(PM, 7, get("crew")),
        seen(7, &[&dev_a, &dev_b, &tester], &["dev-a", "dev-b", "qa"])
    );
    let removed = Removed {
        group: crew.clone(),
        member: dev_b.clone(),
    };
    assert_eq!(
        relay.call(PM, 8, remove("crew", agent("dev-b"))),
        answered(8, removed)
    );
    assert_eq!(
        relay.call(PM, 9, get("@crew")),
        seen(9, &[&dev_a, &tester], &["dev-a", "dev-b", "qa"]),
        "it is in it by its role"
    );
    relay.call(PM, 10, remove("crew", role("@tester")));
    assert_eq!(relay.call(PM, 11, get("crew")), seen(11, &[&dev_a], &["dev-a"]));
    let name = "crew".to_owned();
    let unexpanded = Command::Groups(Groups::Get { name, expand: false });
    let only_members = Seen {
        group: Box::new(view("crew", "who builds", 1)),
        members: vec![dev_a],
        agents: None,
    };
    assert_eq!(relay.call(PM, 17, unexpanded), answered(17, only_members));
    relay.call(PM, 12, create("all", ""));
    let groups = vec![everyone(4), view("all", "", 0), view("crew", "who builds", 1)];
    let list = list(None);
    assert_eq!(relay.call(PM, 13, list.clone()), answered(13, Listed { groups }));
    assert_eq!(
        relay.call(PM, 14, delete("@crew")),
        answered(14, Deleted { name: crew })
    );
    let groups = vec![everyone(4), view("all", "", 0)];
    assert_eq!(relay.call(PM, 15, list), answered(15, Listed { groups }));
    assert_eq!(
        relay.call(PM, 16, get("crew")),
        unknown_group(16, "crew", &["all"])
    );
}

#[test]
fn no_group_is_called_as_the_person_is() {
    let mut relay = with_pm();
    let (noun, name) = ("group", "user".to_owned());
    let taken = agents::Refusal::from(InvalidName::Reserved { noun, name });
    assert_eq!(relay.call(PM, 1, create("user", "")), [refused(1, taken.into())]);
}

#[test]
fn a_group_belongs_to_the_project_of_who_makes_it() {
    let mut relay = with_pm();
    let created = |name| groups::Reply::Created { name };
    assert_eq!(
        relay.call(UI, 1, create("crew", "")),
        answered(1, created(group("web:crew")))
    );
    assert_eq!(relay.call(PM, 2, get("crew")), unknown_group(2, "crew", &[]));
    assert_eq!(
        relay.call(PM, 3, create("crew", "")),
        answered(3, created(group("crew")))
    );
    relay.call(UI, 4, add("crew", agent("ui")));
    relay.call(UI, 5, add("crew", agent("default:pm")));
    relay.call(UI, 6, add("crew", role("tester")));
    relay.register(SessionId(6), of_role("tester", registration("dev-a", None)));
    relay.register(SessionId(7), of_role("tester", registration("web:qa", None)));
    assert_eq!(
        posted(&mut relay, "dev-b", "web:@crew").0,
        names(&["pm", "web:qa", "web:ui"])
    );
    let of_web = |view: GroupView| GroupView {
        project: "web".to_owned(),
        ..view
    };
    let groups = vec![
        of_web(everyone(2)),
        GroupView {
            created_by: Some(name("web:ui")),
            ..of_web(view("crew", "", 3))
        },
    ];
    assert_eq!(
        relay.call(UI, 7, list(None)),
        answered(
            7,
            groups::Reply::Listed {
                groups: groups.clone()
            }
        )
    );
    assert_eq!(
        relay.call(PM, 8, list(Some("web"))),
        answered(8, groups::Reply::Listed { groups })
    );
    let no_name = AgentName::in_project("no name", "x").expect_err("no name of a project");
    assert_eq!(
        relay.call(PM, 9, list(Some("no name"))),
        [refused(9, agents::Refusal::InvalidName(no_name).into())]
    );
}

#[test]
fn a_group_of_another_project_is_named_with_its_project() {
    for crew in ["web:crew", "web:@crew"] {
        let mut relay = with_pm();
        let name = group("web:crew");
        let created = groups::Reply::Created { name: name.clone() };
        assert_eq!(relay.call(PM, 1, create(crew, "")), answered(1, created));
        let member = Member::Agent(super::name("pm"));
        let added = groups::Reply::Added {
            group: name.clone(),
            member,
        };
        assert_eq!(relay.call(PM, 2, add(crew, agent("pm"))), answered(2, added));
        assert_eq!(posted(&mut relay, "web:ui", "crew").0, names(&["pm"]));
        let deleted = groups::Reply::Deleted { name };
        assert_eq!(relay.call(PM, 3, delete(crew)), answered(3, deleted));
        assert_eq!(relay.call(PM, 4, get(crew)), unknown_group(4, crew, &[]));
    }
    let mut relay = with_pm();
    let agents = names(&["web:ui"]);
    let seen = groups::Reply::Seen {
        group: Box::new(GroupView {
            project: "web".to_owned(),
            ..everyone(1)
        }),
        members: vec![Member::Agent(name("web:ui"))],
        agents: Some(agents),
    };
    assert_eq!(relay.call(PM, 1, get("web:@everyone")), answered(1, seen));
    let protected = groups::Refusal::Protected;
    assert_eq!(relay.call(PM, 2, delete("web:everyone")), refuses(2, protected));
}

#[test]
fn a_member_is_named_in_the_same_way_when_it_is_added_and_when_it_is_taken_out() {
    for (named, member) in [
        ("ui", "web:ui"),
        ("@ui", "web:ui"),
        ("web:ui", "web:ui"),
        ("default:pm", "pm"),
        ("pm", "web:pm"),
    ] {
        let mut relay = with_pm();
        relay.register(SessionId(6), registration("web:pm", None));
        relay.call(UI, 1, create("crew", ""));
        let (group, member) = (group("web:crew"), Member::Agent(name(member)));
        let added = groups::Reply::Added {
            group: group.clone(),
            member: member.clone(),
        };
        assert_eq!(relay.call(UI, 2, add("crew", agent(named))), answered(2, added));
        let removed = groups::Reply::Removed { group, member };
        assert_eq!(
            relay.call(UI, 3, remove("crew", agent(named))),
            answered(3, removed)
        );
    }
}

#[test]
fn no_agent_of_another_project_is_meant_by_its_name_alone() {
    let mut relay = with_pm();
    relay.call(UI, 1, create("crew", ""));
    let unknown = agents::Refusal::Unknown {
        name: "dev-a".to_owned(),
        known: Known {
            names: names(&["web:ui"]),
            count: 1,
        },
    };
    assert_eq!(
        relay.call(UI, 2, add("crew", agent("dev-a"))),
        [refused(2, unknown.into())]
    );
}

#[test]
fn who_is_in_a_group_may_be_gone_when_it_is_taken_out() {
    let mut relay = with_pm();
    relay.call(PM, 1, create("crew", ""));
    for (call, named, member) in [
        (2, agent("dev-a"), Member::Agent(name("dev-a"))),
        (3, agent("gone"), Member::Agent(name("gone"))),
        (4, role("gone"), Member::Role(Role::new("gone").unwrap())),
    ] {
        let group = group("crew");
        let refusal = groups::Refusal::NoMember { group, member };
        assert_eq!(
            relay.call(PM, call, remove("crew", named)),
            refuses(call, refusal)
        );
    }
}

#[test]
fn what_a_group_cannot_be_is_refused() {
    let mut relay = with_pm();
    relay.call(PM, 1, create("crew", ""));
    let name = group("crew");
    assert_eq!(
        relay.call(PM, 2, create("@crew", "")),
        refuses(2, groups::Refusal::Exists { name })
    );
    for (call, bad) in [(3, ""), (4, "a b"), (5, "#crew"), (6, "@@crew")] {
        let name = bad.strip_prefix('@').unwrap_or(bad).to_owned();
        let refusal = agents::Refusal::InvalidName(InvalidName::Form { noun: "group", name });
        assert_eq!(
            relay.call(PM, call, create(bad, "")),
            [refused(call, refusal.into())]
        );
    }
    let unknown = |call| unknown_group(call, "clew", &["crew"]);
    assert_eq!(relay.call(PM, 7, delete("clew")), unknown(7));
    assert_eq!(relay.call(PM, 8, add("clew", agent("dev-a"))), unknown(8));
    assert_eq!(relay.call(PM, 9, remove("clew", agent("dev-a"))), unknown(9));
    assert_eq!(relay.call(PM, 10, get("clew")), unknown(10));
    let stranger = agents::Refusal::Unknown {
        name: "dev-c".to_owned(),
        known: Known::from(&Roster::default()),
    };
    assert_eq!(
        relay.call(PM, 11, add("crew", agent("dev-c"))),
        [refused(11, stranger.into())]
    );
    let person = agents::Refusal::Person {
        named: NamedAs::Sender,
        known: Known::from(&Roster::default()),
    };
    assert_eq!(
        relay.call(PM, 12, add("crew", agent("user"))),
        [refused(12, person.into())]
    );
    let (noun, bad) = ("role", "two words".to_owned());
    let invalid = agents::Refusal::InvalidName(InvalidName::Form { noun, name: bad });
    assert_eq!(
        relay.call(PM, 13, add("crew", role("two words"))),
        [refused(13, invalid.into())]
    );
    let anonymous = agents::Refusal::Anonymous {
        named: NamedAs::Sender,
        known: Known::from(&Roster::default()),
    };
    assert_eq!(relay.call(A, 14, get("crew")), [refused(14, anonymous.into())]);
}

#[test]
fn the_group_of_all_agents_cannot_be_changed() {
    let mut relay = with_pm();
    let commands = [
        create("everyone", ""),
        delete("@everyone"),
        add("everyone", agent("dev-a")),
        remove("@everyone", agent("dev-a")),
    ];
    for (call, command) in (1..).zip(commands) {
        let protected = groups::Refusal::Protected;
        assert_eq!(relay.call(PM, call, command), refuses(call, protected));
    }
    let agents = names(&["dev-a", "dev-b", "pm"]);
    let members = agents.iter().cloned().map(Member::Agent).collect();
    let seen = groups::Reply::Seen {
        group: Box::new(everyone(3)),
        members,
        agents: Some(agents),
    };
    assert_eq!(relay.call(PM, 9, get("@everyone")), answered(9, seen));
}

#[test]
fn the_person_may_make_groups_too() {
    let mut relay = with_pm();
    let person = SessionId(6);
    relay.open_for_person(person);
    relay.call(person, 1, create("crew", ""));
    relay.call(person, 2, add("crew", agent("dev-a")));
    assert_eq!(posted(&mut relay, "pm", "@crew").0, names(&["dev-a"]));
}

#[test]
fn the_bounds_of_groups_let_in_so_much_and_not_one_more() {
    let mut relay = with_pm();
    let too_long = groups::Refusal::DescriptionTooLong {
        bytes: 21,
        bytes_max: 20,
    };
    let long = |call, bytes: usize| (call, create(&format!("g{call}"), &"d".repeat(bytes)));
    let (call, command) = long(1, 21);
    assert_eq!(relay.call(PM, call, command), refuses(1, too_long));
    for (call, command) in [long(2, 20), long(3, 0), long(4, 0)] {
        relay.call(PM, call, command);
    }
    // The bound is on the groups of all projects.
    relay.call(UI, 5, create("g5", ""));
    let too_many = groups::Refusal::TooManyGroups { groups: 4 };
    assert_eq!(relay.call(PM, 6, create("g6", "")), refuses(6, too_many.clone()));
    assert_eq!(relay.call(UI, 7, create("g7", "")), refuses(7, too_many));
    relay.call(PM, 8, delete("g2"));
    assert_eq!(relay.call(PM, 9, create("g9", "")).len(), 1);

    for (call, member) in [(10, agent("dev-a")), (11, role("tester")), (12, agent("pm"))] {
        relay.call(PM, call, add("g3", member));
    }
    let too_many = groups::Refusal::TooManyMembers { members: 3 };
    assert_eq!(
        relay.call(PM, 13, add("g3", agent("dev-b"))),
        refuses(13, too_many)
    );
    let added = groups::Reply::Added {
        group: group("g3"),
        member: Member::Agent(name("pm")),
    };
    assert_eq!(
        relay.call(PM, 14, add("g3", agent("pm"))),
        answered(14, added),
        "that is one already"
    );
    relay.call(PM, 15, remove("g3", role("tester")));
    assert_eq!(relay.call(PM, 16, add("g3", agent("dev-b"))).len(), 1);
}

#[test]
fn the_class_of_a_group_s_refusal_says_what_can_be_done_about_it() {
    use groups::Refusal::{
        DescriptionTooLong, Exists, NoMember, Protected, TooManyChannels, TooManyGroups, TooManyMembers,
        UnknownChannel, UnknownGroup,
    };
    let (name, known) = ("x".to_owned(), Vec::new());
    let unknown_channel = UnknownChannel {
        name: name.clone(),
        known: known.clone(),
    };
    let no_member = NoMember {
        group: group("crew"),
        member: Member::Agent(super::name("pm")),
    };
    let too_long = DescriptionTooLong {
        bytes: 2,
        bytes_max: 1,
    };
    for (refusal, class) in [
        (UnknownGroup { name, known }, Class::Unknown),
        (unknown_channel, Class::Unknown),
        (Exists { name: group("crew") }, Class::Conflict),
        (no_member, Class::Conflict),
        (Protected, Class::Bad),
        (too_long, Class::Bad),
        (TooManyGroups { groups: 1 }, Class::Full),
        (TooManyMembers { members: 1 }, Class::Full),
        (TooManyChannels { channels: 1 }, Class::Full),
    ] {
        assert_eq!(Refusal::from(refusal.clone()).class(), class, "{refusal:?}");
    }
}
