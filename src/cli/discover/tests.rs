use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A file system and an environment that a test writes down.
#[derive(Default)]
struct World {
    variables: BTreeMap<&'static str, String>,
    files: BTreeMap<PathBuf, String>,
    /// Projects that have a directory.
    projects: BTreeSet<&'static str>,
    live: BTreeSet<PathBuf>,
}

impl System for World {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let text = self.files.get(file).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }

    fn names(&self, directory: &Path) -> Vec<OsString> {
        assert_eq!(directory, Path::new("/data/relay/projects"));
        self.projects.iter().rev().map(OsString::from).collect()
    }

    fn is_live(&self, socket: &Path) -> bool {
        self.live.contains(socket)
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.set("XDG_DATA_HOME", "/data");
        world
    }

    fn set(&mut self, variable: &'static str, value: &str) -> &mut Self {
        self.variables.insert(variable, value.to_owned());
        self
    }

    fn file(&mut self, path: &str, text: &str) -> &mut Self {
        self.files.insert(PathBuf::from(path), text.to_owned());
        self
    }

    /// Has a project's relay run.
    fn runs(&mut self, project: &'static str) -> &mut Self {
        self.projects.insert(project);
        self.live.insert(socket(project));
        self
    }

    /// Finds a relay from a directory below the root of a repository.
    fn discover(&self) -> Result<Found, DiscoverError> {
        self.discover_at(None)
    }

    fn discover_at(&self, named: Option<Place>) -> Result<Found, DiscoverError> {
        self.look(|around| discover(named, None, around))
    }

    /// Finds the relay of an agent for which a project is asked, and the agent's project.
    fn of_agent(
        &self,
        named: Option<Place>,
        asked: Option<&str>,
    ) -> Result<(Found, Option<String>), DiscoverError> {
        let asked = asked.map(project);
        self.look(|around| {
            let found = discover(named, asked.as_ref(), around)?;
            let project = project_of_agent(asked.as_ref(), &found, around)?;
            Ok((found, project.map(|project| project.to_string())))
        })
    }

    fn look<T>(&self, looks: impl FnOnce(&Surroundings<'_, Self>) -> T) -> T {
        looks(&Surroundings {
            variable: &|name| self.variables.get(name).map(OsString::from),
            directory: Path::new("/top/tree/deep"),
            system: self,
        })
    }
}

fn socket(project: &str) -> PathBuf {
    PathBuf::from(format!("/data/relay/projects/{project}/relay.sock"))
}

fn project(name: &str) -> Project {
    name.parse().expect("a name")
}

/// What is found where a project's socket is.
fn of(name: &str, source: Source) -> Result<Found, DiscoverError> {
    let of_file = matches!(source, Source::Config(_)).then(|| project(name));
    Ok(Found {
        way: Way::Unix(socket(name)),
        source,
        project: Some(project(name)),
        of_file,
    })
}

/// What is found where a socket is that is no project's.
fn at(path: &str, source: Source) -> Result<Found, DiscoverError> {
    Ok(Found {
        way: Way::Unix(PathBuf::from(path)),
        source,
        project: None,
        of_file: None,
    })
}

/// What is found where a file names such a socket, and a project beside it or none.
fn beside(path: &str, file: &str, named: Option<&str>) -> Result<Found, DiscoverError> {
    let of_file = named.map(project);
    at(path, config_at(file)).map(|found| Found { of_file, ..found })
}

fn place(port: u16) -> Place {
    let host = "127.0.0.1".to_owned();
    Place { port, host }
}

fn config_at(path: &str) -> Source {
    Source::Config(PathBuf::from(path))
}

#[test]
fn each_source_comes_before_the_next_one() {
    let mut world = World::new();
    assert_eq!(world.discover(), Ok(Found::at(place(7331))));
    world.runs("running");
    assert_eq!(world.discover(), of("running", Source::Scan));
    world.file("/top/.relay/config.json", r#"{"project": "above"}"#);
    let above = config_at("/top/.relay/config.json");
    assert_eq!(world.discover(), of("above", above));
    world.file("/top/tree/.relay/config.json", r#"{"project": "near"}"#);
    let near = config_at("/top/tree/.relay/config.json");
    assert_eq!(world.discover(), of("near", near));
    world.set(PROJECT, "named");
    assert_eq!(world.discover(), of("named", Source::Project));
    world.set(SOCKET, "/tmp/own.sock");
    assert_eq!(world.discover(), at("/tmp/own.sock", Source::Socket));
    assert_eq!(world.discover_at(Some(place(4000))), Ok(Found::at(place(4000))));
}

#[test]
fn an_option_a_variable_and_a_file_that_name_a_project_mean_the_same() {
    let near = "/top/tree/.relay/config.json";
    let mut by_file = World::new();
    by_file.file(near, r#"{"project": "web"}"#);
    let mut by_variable = World::new();
    by_variable.set(PROJECT, "web");
    let by_option = World::new();
    for (world, asked, source) in [
        (&by_option, Some("web"), Source::Option),
        (&by_variable, None, Source::Project),
        (&by_variable, Some("web"), Source::Project),
        (&by_file, None, config_at(near)),
        (&by_file, Some("web"), Source::Option),
    ] {
        let found = world.of_agent(None, asked).expect("found");
        let expected = of("web", source.clone()).expect("found");
        assert_eq!(found, (expected, Some("web".to_owned())));
        // Who names a place is there in the same project, and asks no file.
        let is_file = matches!(source, Source::Config(_));
        let project = (!is_file).then(|| "web".to_owned());
        let found = world.of_agent(Some(place(4000)), asked).expect("found");
        assert_eq!(found, (Found::at(place(4000)), project));
    }
}

#[test]
fn an_option_comes_before_a_variable_and_that_before_a_file() {
    let mut world = World::new();
    let near = "/top/tree/.relay/config.json";
    world.runs("running");
    assert_eq!(
        world.of_agent(None, None),
        of("running", Source::Scan).map(|found| (found, None)),
        "the relay's own"
    );
    world.file("/top/.relay/config.json", r#"{"project": "above"}"#);
    world.file(near, r#"{"project": "near"}"#);
    let named = |found: Result<Found, _>, project: &str| found.map(|found| (found, Some(project.to_owned())));
    assert_eq!(
        world.of_agent(None, None),
        named(of("near", config_at(near)), "near")
    );
    world.set(PROJECT, "variable");
    assert_eq!(
        world.of_agent(None, None),
        named(of("variable", Source::Project), "variable")
    );
    assert_eq!(
        world.of_agent(None, Some("option")),
        named(of("option", Source::Option), "option")
    );
    // A socket that is named says nothing of the agent's project.
    world.set(SOCKET, "/tmp/own.sock");
    assert_eq!(
        world.of_agent(None, Some("option")),
        named(at("/tmp/own.sock", Source::Socket), "option")
    );
    assert_eq!(
        world.of_agent(None, None),
        named(at("/tmp/own.sock", Source::Socket), "variable")
    );
    world.set(PROJECT, "");
    assert_eq!(
        world.of_agent(None, None),
        at("/tmp/own.sock", Source::Socket).map(|found| (found, None)),
        "no file is asked"
    );
}

#[test]
fn a_file_that_names_a_socket_may_name_the_agents_project_too() {
    let mut world = World::new();
    let near = "/top/tree/.relay/config.json";
    world.file("/top/.relay/config.json", r#"{"project": "above"}"#);
    for (text, project) in [
        (
            r#"{"socketPath": "/tmp/own.sock", "project": "near"}"#,
            Some("near"),
        ),
        // One file says both.
        (r#"{"socketPath": "/tmp/own.sock"}"#, None),
    ] {
        world.file(near, text);
        let found = beside("/tmp/own.sock", near, project);
        assert_eq!(
            world.of_agent(None, None),
            found.map(|found| (found, project.map(str::to_owned))),
            "{text}"
        );
    }
}

#[test]
fn which_project_this_is_an_option_says_first_then_a_variable_and_then_a_file() {
    let mut world = World::new();
    let here = |world: &World, asked: Option<&str>| {
        let asked = asked.map(project);
        let found = world.look(|around| super::project(asked.as_ref(), around));
        found.expect("it is said").map(|project| project.to_string())
    };
    assert_eq!(here(&world, None), None);
    world.file("/top/tree/.relay/config.json", r#"{"project": "file"}"#);
    assert_eq!(here(&world, None).as_deref(), Some("file"));
    world.set(PROJECT, "variable");
    assert_eq!(here(&world, None).as_deref(), Some("variable"));
    assert_eq!(here(&world, Some("option")).as_deref(), Some("option"));
}

#[test]
fn a_file_that_nobody_has_to_look_at_may_be_broken() {
    let mut world = World::new();
    world.file("/top/tree/.relay/config.json", "{");
    let at = |project: Option<&str>| Ok((Found::at(place(4000)), project.map(str::to_owned)));
    assert_eq!(world.of_agent(Some(place(4000)), None), at(None));
    assert_eq!(world.of_agent(Some(place(4000)), Some("web")), at(Some("web")));
    assert!(world.of_agent(None, None).is_err());
}

#[test]
fn an_empty_variable_is_none() {
    let mut world = World::new();
    world.set(SOCKET, "").set(PROJECT, "");
    assert_eq!(world.discover(), Ok(Found::at(place(7331))));
}

#[test]
fn an_empty_text_in_a_file_is_none() {
    let mut world = World::new();
    let near = "/top/tree/.relay/config.json";
    world.file("/top/.relay/config.json", r#"{"project": "above"}"#);
    world.file(near, r#"{"socketPath": "", "project": ""}"#);
    assert_eq!(
        world.discover(),
        of("above", config_at("/top/.relay/config.json"))
    );
    world.file(near, r#"{"socketPath": "", "project": "near"}"#);
    assert_eq!(world.discover(), of("near", config_at(near)));
}

#[test]
fn a_path_that_is_not_absolute_counts_from_where_it_was_said() {
    let mut world = World::new();
    world.file(
        "/top/tree/.relay/config.json",
        r#"{"socketPath": "run/own.sock"}"#,
    );
    let source = config_at("/top/tree/.relay/config.json");
    assert_eq!(world.discover(), at("/top/tree/run/own.sock", source));
    world.set(SOCKET, "own.sock");
    assert_eq!(world.discover(), at("/top/tree/deep/own.sock", Source::Socket));
}

#[test]
fn the_project_of_a_socket_is_known_however_the_socket_was_named() {
    let mut world = World::new();
    world.set(SOCKET, "/data/relay/projects/mine/relay.sock");
    assert_eq!(world.discover(), of("mine", Source::Socket));
}

#[test]
fn a_socket_in_a_file_comes_before_a_project_in_it_and_a_file_that_says_nothing_is_passed_by() {
    let mut world = World::new();
    world.file(
        "/top/.relay/config.json",
        r#"{"socketPath": "/tmp/own.sock", "project": "a", "other": [1]}"#,
    );
    world.file("/top/tree/.relay/config.json", "{}");
    let found = beside("/tmp/own.sock", "/top/.relay/config.json", Some("a"));
    assert_eq!(world.discover(), found);
}

#[test]
fn dead_sockets_are_not_found() {
    let mut world = World::new();
    world.projects.extend(["dead", "dead-too"]);
    assert_eq!(world.discover(), Ok(Found::at(place(7331))));
    world.runs("live");
    assert_eq!(world.discover(), of("live", Source::Scan));
}

#[test]
fn what_is_no_projects_directory_is_not_looked_at() {
    let mut world = World::new();
    world.projects.insert("no project");
    world.live.insert(socket("no project"));
    assert_eq!(world.discover(), Ok(Found::at(place(7331))));
}

#[test]
fn of_two_live_sockets_one_must_be_chosen() {
    let mut world = World::new();
    world.runs("b").runs("a");
    let error = world.discover().expect_err("nobody says which");
    assert_eq!(
        error.to_string(),
        "several relays run: a (/data/relay/projects/a/relay.sock), b (/data/relay/projects/b/relay.sock); \
         choose one with RELAY_PROJECT=NAME or RELAY_SOCKET=PATH"
    );
    world.set(PROJECT, "b");
    assert_eq!(world.discover(), of("b", Source::Project));
}

#[test]
fn without_a_data_directory_a_port_is_asked_and_a_project_is_not_known() {
    let mut world = World::default();
    assert_eq!(world.discover(), Ok(Found::at(place(7331))));
    world.set(PROJECT, "a");
    let error = world.discover().expect_err("nothing says where it is");
    assert_eq!(
        error.to_string(),
        "RELAY_PROJECT names project a, but neither XDG_DATA_HOME nor HOME says where its socket is; set one of them, \
         or RELAY_SOCKET=PATH"
    );
}

#[test]
fn a_name_that_is_none_is_refused_with_where_it_stands() {
    let mut world = World::new();
    world.file("/top/.relay/config.json", r#"{"project": "a/b"}"#);
    let said = world.discover().expect_err("no name").to_string();
    let expected = "/top/.relay/config.json: invalid project name \"a/b\"; a name has 1 to 32";
    assert!(said.starts_with(expected), "{said}");
    world.set(PROJECT, "..");
    let said = world.discover().expect_err("no name").to_string();
    assert!(
        said.starts_with("RELAY_PROJECT: invalid project name \"..\""),
        "{said}"
    );
}

#[test]
fn a_broken_file_is_refused_with_what_is_accepted() {
    for (broken, reason) in [
        ("", "line 1, column 0: no JSON ends there"),
        ("{", "line 1, column 1: no JSON ends there"),
        ("{x}", "line 1, column 2: no JSON goes on so there"),
        ("[]", "the file is []"),
        (r#"{"project": 7}"#, "project is 7"),
        (r#"{"socketPath": {}}"#, "socketPath is {}"),
    ] {
        let mut world = World::new();
        world.file("/top/tree/.relay/config.json", broken);
        let said = world.discover().expect_err(broken).to_string();
        let accepted = r#"accepted: {"socketPath": "PATH"} or {"project": "NAME"}"#;
        assert_eq!(
            said,
            format!("/top/tree/.relay/config.json: {reason}; {accepted}")
        );
    }
}

#[test]
fn a_work_tree_has_the_file_of_the_main_one() {
    let mut world = World::new();
    world
        .file("/top/tree/.git", "gitdir: /src/main/.git/worktrees/tree\n")
        .file("/src/main/.git/worktrees/tree/commondir", "../..\n")
        .file("/src/main/.relay/config.json", r#"{"socketPath": "own.sock"}"#)
        .file("/top/.relay/config.json", r#"{"project": "farther"}"#);
    let source = config_at("/src/main/.relay/config.json");
    assert_eq!(world.discover(), at("/src/main/own.sock", source));
    // Its own is nearer.
    world.file("/top/tree/.relay/config.json", r#"{"project": "own"}"#);
    let own = config_at("/top/tree/.relay/config.json");
    assert_eq!(world.discover(), of("own", own));
}

#[test]
fn a_work_tree_that_names_its_repository_from_where_it_is_has_it_too() {
    let mut world = World::new();
    world
        .file("/top/tree/.git", "gitdir: ../main/.git/worktrees/tree\n")
        .file("/top/tree/../main/.git/worktrees/tree/commondir", "../..\n")
        .file("/top/main/.relay/config.json", r#"{"project": "main"}"#);
    let source = config_at("/top/main/.relay/config.json");
    assert_eq!(world.discover(), of("main", source));
}

#[test]
fn a_redirect_of_thrums_leads_to_the_file_of_the_main_checkout() {
    let mut world = World::new();
    world
        .file("/top/tree/.thrum/redirect", "/src/main/.thrum\n")
        .file("/src/main/.relay/config.json", r#"{"project": "main"}"#)
        .file("/top/.relay/config.json", r#"{"project": "farther"}"#);
    let source = config_at("/src/main/.relay/config.json");
    assert_eq!(world.discover(), of("main", source));
    world.file("/top/tree/.relay/config.json", r#"{"project": "own"}"#);
    let own = config_at("/top/tree/.relay/config.json");
    assert_eq!(world.discover(), of("own", own));
}

#[test]
fn a_submodule_and_a_broken_link_have_no_main_work_tree() {
    for (git, commondir) in [
        // A submodule's directory shares nothing.
        ("gitdir: ../.git/modules/tree\n", None),
        // A bare repository has no work tree of its own.
        ("gitdir: /src/bare.git/worktrees/tree\n", Some("../..\n")),
        ("nonsense", None),
        ("", None),
    ] {
        let mut world = World::new();
        world.file("/top/tree/.git", git);
        if let Some(commondir) = commondir {
            world.file("/src/bare.git/worktrees/tree/commondir", commondir);
            world.file("/src/.relay/config.json", r#"{"project": "wrong"}"#);
        }
        assert_eq!(world.discover(), Ok(Found::at(place(7331))), "{git:?}");
    }
}

#[test]
fn where_nobody_listens_it_is_said_how_to_start_a_relay_there() {
    for (found, expected) in [
        (of("default", Source::Scan), "start it with: relay serve"),
        (of("a", Source::Project), "start it with: relay serve --project a"),
        (
            of("a", Source::Option),
            "start it with: relay serve --project a; or, to be in project a on a relay that serves several, name that relay with --port or RELAY_SOCKET",
        ),
        (
            at("/tmp/own.sock", Source::Socket),
            "start that relay again, or name the socket of another with RELAY_SOCKET, or its project with RELAY_PROJECT",
        ),
    ] {
        assert_eq!(found.expect("found").advice("relay"), expected);
    }
}

mod in_this_system {
    use super::*;

    #[test]
    fn a_work_tree_of_git_has_the_file_of_the_main_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        crate::git_for_tests::two_work_trees(&root);
        std::fs::create_dir(root.join("main/.relay")).expect("a folder");
        std::fs::create_dir(root.join("other/deep")).expect("a folder");
        std::fs::write(root.join("main").join(CONFIG), r#"{"project": "a"}"#).expect("a file");
        let around = Surroundings {
            variable: &|name| (name == "HOME").then(|| "/data".into()),
            directory: &root.join("other/deep"),
            system: &ThisSystem,
        };
        let found = discover(None, None, &around).expect("it is there");
        assert_eq!(found.source, Source::Config(root.join("main").join(CONFIG)));
    }

    #[test]
    fn the_nearest_file_is_found_also_where_it_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        let deep = root.join("deep");
        for directory in [root.join(CONFIG), deep.clone()] {
            std::fs::create_dir_all(directory).expect("a folder");
        }
        let (file, read) = nearest_config(&deep).expect("it is there");
        assert_eq!((file, read.is_err()), (root.join(CONFIG), true));
        std::fs::create_dir_all(deep.join(".relay")).expect("a folder");
        std::fs::write(deep.join(CONFIG), "{}").expect("a file");
        let (file, read) = nearest_config(&deep).expect("it is there");
        assert_eq!(
            (file, read.expect("it is a file")),
            (deep.join(CONFIG), b"{}".to_vec())
        );
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        assert_eq!(
            ThisSystem.read(&file).expect_err("none").kind(),
            io::ErrorKind::NotFound
        );
        std::fs::write(&file, vec![b' '; 64 * 1024]).expect("a file");
        assert_eq!(ThisSystem.read(&file).expect("it is there").len(), 64 * 1024);
        std::fs::write(&file, vec![b' '; 64 * 1024 + 1]).expect("a file");
        assert!(ThisSystem.read(&file).is_err());
        assert!(ThisSystem.read(folder.path()).is_err());
    }
}

#[test]
fn without_a_data_directory_an_option_and_a_file_that_name_a_project_are_named() {
    let mut world = World::default();
    let said = |world: &World, asked: Option<&str>| {
        let error = world.of_agent(None, asked).expect_err("nothing says where it is");
        error.to_string()
    };
    let names = "names project a, but neither XDG_DATA_HOME nor HOME says where its socket is";
    let by_option = said(&world, Some("a"));
    assert!(
        by_option.starts_with(&format!("--project {names}")),
        "{by_option}"
    );
    let file = "/top/.relay/config.json";
    world.file(file, r#"{"socketPath": null, "project": "a"}"#);
    let by_file = said(&world, None);
    assert!(by_file.starts_with(&format!("{file} {names}")), "{by_file}");
}

#[test]
fn which_project_this_is_a_file_says_also_where_it_names_a_socket() {
    let mut world = World::new();
    world.file(
        "/top/tree/.relay/config.json",
        r#"{"socketPath": "/tmp/own.sock", "project": "near"}"#,
    );
    let found = world.look(|around| super::project(None, around));
    assert_eq!(found, Ok(Some(project("near"))));
}

#[test]
fn the_main_work_tree_comes_before_where_a_redirect_of_thrums_leads() {
    let mut world = World::new();
    world
        .file("/top/tree/.git", "gitdir: /src/main/.git/worktrees/tree\n")
        .file("/src/main/.git/worktrees/tree/commondir", "../..\n")
        .file("/top/tree/.thrum/redirect", "/src/led/.thrum\n")
        .file("/src/led/.relay/config.json", r#"{"project": "led"}"#);
    let led = config_at("/src/led/.relay/config.json");
    assert_eq!(world.discover(), of("led", led));
    world.file("/src/main/.relay/config.json", r#"{"project": "main"}"#);
    let main = config_at("/src/main/.relay/config.json");
    assert_eq!(world.discover(), of("main", main));
}

#[test]
fn a_file_in_the_place_of_relays_directory_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("it is there");
    std::fs::write(root.join(".relay"), "").expect("a file");
    let around = Surroundings {
        variable: &|_| None,
        directory: &root,
        system: &ThisSystem,
    };
    assert_eq!(discover(None, None, &around), Ok(Found::at(place(7331))));
    let nearest = nearest_config(&root).map(|(file, _)| file);
    assert_ne!(nearest, Some(root.join(CONFIG)));
}
