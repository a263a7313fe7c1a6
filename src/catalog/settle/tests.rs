use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::texts::Stat;
use super::*;

/// How often the watching thread looks.
const LOOK: u64 = 50;

/// What is done to a file.
#[derive(Debug, Clone)]
enum Act {
    /// Its text is another one: the same file, opened, written and closed.
    Write(String),
    /// More is added to it.
    Add(String),
    /// The same by somebody who holds it open.
    Hold(String),
    /// Its text is another one, by somebody who holds it open.
    Open(String),
    Rename(String),
    Remove,
    /// Not about the file: somebody asks to look at once.
    Ask,
}

fn write(text: &str) -> Act {
    Act::Write(text.to_owned())
}

fn add(text: &str) -> Act {
    Act::Add(text.to_owned())
}

fn renamed(text: &str) -> Act {
    Act::Rename(text.to_owned())
}

/// A file system of a few files, and what is live of them.
struct World {
    settling: Settling,
    start: Instant,
    now: u64,
    files: BTreeMap<&'static str, (Stat, String, Sign)>,
    inodes: u64,
    /// When what was considered: all files' texts.
    taken: Vec<(u64, BTreeMap<&'static str, String>)>,
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        let mut world = World {
            settling: Settling::default(),
            start,
            now: 0,
            files: BTreeMap::new(),
            inodes: 0,
            taken: Vec::new(),
        };
        for file in ["a", "b"] {
            world.act(file, &renamed("old"));
        }
        let live: Vec<_> = ["a", "b"]
            .map(|file| (PathBuf::from(file), world.version(file)))
            .into();
        world.settling = Settling::new(live, start);
        world
    }

    fn at(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn version(&self, file: &str) -> Version {
        match self.files.get(file) {
            Some((stat, text, _)) => Version::from_read(Some(*stat), Ok(text.clone().into_bytes())),
            None => Version::missing(),
        }
    }

    fn act(&mut self, file: &'static str, act: &Act) {
        self.inodes += 1;
        let (id, text) = self
            .files
            .get(file)
            .map_or(((1, self.inodes), ""), |(stat, text, _)| (stat.id, text));
        let (id, text, sign) = match act {
            Act::Write(text) => (id, text.clone(), Sign::Closed),
            Act::Add(more) => (id, format!("{text}{more}"), Sign::Closed),
            Act::Hold(more) => (id, format!("{text}{more}"), Sign::Open),
            Act::Open(text) => (id, text.clone(), Sign::Open),
            Act::Rename(text) => ((1, self.inodes), text.clone(), Sign::Renamed),
            Act::Remove => return drop(self.files.remove(file)),
            Act::Ask => return self.settling.ask(self.at()),
        };
        let stat = Stat {
            id,
            size: text.len() as u64,
            modified: i128::from(self.now),
            changed: i128::from(self.inodes),
        };
        self.files.insert(file, (stat, text, sign));
    }

    fn look(&mut self) {
        let now = self.at();
        for file in ["a", "b"] {
            let sign = self
                .files
                .get(file)
                .map(|(.., sign)| *sign)
                .unwrap_or_default();
            self.settling
                .observe(Path::new(file), Some(self.version(file)), sign, now);
        }
        if let Ready::Whole { .. } = self.settling.ready(now) {
            let text = |version: &Version| {
                version
                    .text
                    .bytes(usize::MAX)
                    .map(|text| String::from_utf8_lossy(text).into_owned())
            };
            let texts = self.settling.whole_texts();
            let whole = ["a", "b"].into_iter().filter_map(|file| {
                let (version, _) = texts.get(Path::new(file))?;
                Some((file, text(version).unwrap_or_else(|_| "missing".to_owned())))
            });
            self.taken.push((self.now, whole.collect()));
            self.settling.note_decision(&texts, Decision::Live);
        }
    }

    /// Plays a script, whose times are in milliseconds, and looks on until it is over.
    fn play(mut self, script: &[(u64, &'static str, Act)], until: u64) -> Self {
        let mut script = script.iter().peekable();
        while self.now < until {
            while let Some((_, file, act)) = script.next_if(|(at, ..)| *at <= self.now) {
                self.act(file, act);
            }
            if self.now.is_multiple_of(LOOK) {
                self.look();
            }
            self.now += 1;
        }
        self
    }
}

/// When which text of the file `a` was taken.
#[track_caller]
fn check(script: &[(u64, &'static str, Act)], expected: &[(u64, &str)]) {
    let world = World::new().play(script, 8_000);
    let mut taken: Vec<(u64, String)> = world
        .taken
        .into_iter()
        .map(|(at, mut files)| (at, files.remove("a").unwrap()))
        .collect();
    taken.dedup_by(|next, before| next.1 == before.1);
    let taken: Vec<(u64, &str)> = taken
        .iter()
        .map(|(at, text)| (*at, text.as_str()))
        .collect();
    assert_eq!(taken, expected);
}

fn every(pause: u64, times: u64, act: impl Fn(u64) -> Act) -> Vec<(u64, &'static str, Act)> {
    (0..times).map(|n| (1 + n * pause, "a", act(n))).collect()
}

#[test]
fn a_file_written_in_place_is_taken_once_still() {
    check(&[(1, "a", write("new"))], &[(550, "new")]);
    check(
        &[(1, "a", write("new")), (301, "a", add("er"))],
        &[(850, "newer")],
    );
    check(
        &[
            (1, "a", write("")),
            (301, "a", write("new")),
            (601, "a", write("newer")),
        ],
        &[(850, "newer")],
    );
    check(&[(1, "a", Act::Remove)], &[(550, "missing")]);
    check(
        &[(1, "a", Act::Remove), (301, "a", write("new"))],
        &[(850, "new")],
    );
    check(&[(1, "a", write("new")), (401, "a", write("old"))], &[]);
}

#[test]
fn a_file_emptied_for_writing_is_not_taken() {
    let script = every(300, 24, |n| {
        write(&if n % 2 == 0 {
            String::new()
        } else {
            format!("text {n}")
        })
    });
    let world = World::new().play(&script, 9_000);
    assert!(
        world.taken.len() > 3 && world.taken.iter().all(|(_, files)| !files["a"].is_empty()),
        "{:?}",
        world.taken
    );
    // Who leaves it empty means it.
    check(
        &[(1, "a", write("text")), (601, "a", write(""))],
        &[(550, "text"), (1_150, "")],
    );
}

#[test]
fn a_renamed_file_is_taken_at_the_second_look() {
    check(&[(1, "a", renamed("new"))], &[(150, "new")]);
    // Who then writes into it begins anew. What gave way was whole.
    check(
        &[
            (1, "a", renamed("new")),
            (101, "a", write("half")),
            (401, "a", add(" whole")),
        ],
        &[(850, "new"), (950, "half whole")],
    );
    check(
        &[(1, "a", renamed("half")), (101, "a", add(" whole"))],
        &[(650, "half whole")],
    );
}

#[test]
fn who_never_stops_holds_up_nothing() {
    let taken = |script: &[(u64, &'static str, Act)]| World::new().play(script, 3_000).taken;
    for pause in [150, 200, 300, 400] {
        let written: Vec<_> = every(pause, 20, |n| write(&format!("{n} text")));
        let first = taken(&written);
        assert!(
            first.first().is_some_and(|(at, _)| *at <= 1_400),
            "written each {pause} ms: {first:?}"
        );
        let first = taken(&every(pause, 20, |n| add(&format!(" {n}"))));
        assert!(
            first.first().is_some_and(|(at, _)| *at <= 1_500),
            "added to each {pause} ms: {first:?}"
        );
    }
    for pause in [10, 40, 60, 150, 400] {
        let first = taken(&every(pause, 3_000 / pause, |n| {
            renamed(&format!("{n} text"))
        }));
        assert!(
            first.first().is_some_and(|(at, _)| *at <= 1_100),
            "replaced each {pause} ms: {first:?}"
        );
    }
}

#[test]
fn a_ceaselessly_written_file_keeps_its_last_text() {
    let mut script = every(20, 400, |n| add(&n.to_string()));
    script.push((2_001, "b", write("revoked")));
    script.sort_by_key(|(at, ..)| *at);
    let mut world = World::new().play(&script, 5_000);
    let (at, files) = world.taken.remove(0);
    assert!(
        world.taken.is_empty() && (2_500..=2_900).contains(&at),
        "{at}"
    );
    assert_eq!(
        (files["a"].as_str(), files["b"].as_str()),
        ("old", "revoked")
    );
    let waiting = world.settling.waiting(world.at()).unwrap();
    assert_eq!(
        (waiting.files.as_slice(), waiting.endless.len()),
        ([PathBuf::from("a")].as_slice(), 1)
    );
    let live: BTreeMap<_, _> = world
        .settling
        .live_times()
        .map(|(path, at)| (path.to_owned(), at))
        .collect();
    assert!(live[Path::new("b")] > world.start + Duration::from_millis(4_900));
    assert!(live[Path::new("a")] <= world.start + Duration::from_millis(50));
}

#[test]
fn open_files_are_not_taken_halfway() {
    let script = every(300, 10, |n| Act::Hold(format!(" {n}")));
    check(&script, &[]);
    // What is closed at last needs no more than two reads: it changes for long.
    for (pause, taken) in [(300, 850), (700, 1_550), (3_000, 6_150)] {
        let held = [
            (1, "a", Act::Open("half".to_owned())),
            (1 + pause, "a", Act::Hold(" more".to_owned())),
            (1 + 2 * pause, "a", add(" end")),
        ];
        check(&held, &[(taken, "half more end")]);
    }
    // What is removed, nobody goes on with.
    check(
        &[
            (1, "a", Act::Open("half".to_owned())),
            (701, "a", Act::Remove),
        ],
        &[(850, "missing")],
    );
}

#[test]
fn a_file_held_open_is_reported_and_blocks_none() {
    let script = [
        (1, "a", Act::Open("half".to_owned())),
        (3_001, "b", write("revoked")),
    ];
    let world = World::new().play(&script, 6_000);
    let taken: Vec<_> = world
        .taken
        .iter()
        .map(|(at, files)| (*at, files["a"].as_str(), files["b"].as_str()))
        .collect();
    assert!(
        matches!(taken[..], [(3_500..=4_400, "old", "revoked")]),
        "{taken:?}"
    );
    let waiting = world.settling.waiting(world.at()).unwrap();
    assert_eq!(
        waiting
            .endless
            .iter()
            .map(|(path, _)| path.clone())
            .collect::<Vec<_>>(),
        [PathBuf::from("a")]
    );
}

/// Plays a script, and returns each closed text of the file `a` that a look finds, once.
fn closed_texts(script: &[(u64, &'static str, Act)], until: u64) -> Vec<(u64, String)> {
    let (mut world, mut found) = (World::new(), Vec::<(u64, String)>::new());
    for at in (LOOK..until).step_by(usize::try_from(LOOK).unwrap()) {
        let from = world.now;
        let part: Vec<_> = script
            .iter()
            .filter(|(when, ..)| (from..at).contains(when))
            .cloned()
            .collect();
        world = world.play(&part, at);
        if let Some((version, _)) = world
            .settling
            .closed_texts(world.at())
            .remove(Path::new("a"))
        {
            let text =
                String::from_utf8_lossy(version.text.bytes(usize::MAX).unwrap()).into_owned();
            if found.last().is_none_or(|(_, last)| *last != text) {
                found.push((at, text));
            }
        }
    }
    found
}

#[test]
fn ceaseless_rewriting_has_closed_texts_after_three_seconds() {
    let found = closed_texts(&every(50, 120, |n| write(&format!("text {n:03}"))), 6_000);
    assert!(
        matches!(found.first(), Some((3_000..=3_100, text)) if text.as_str() >= "text 057"),
        "{found:?}"
    );
    assert!(found.len() > 40, "{found:?}");
    // The same text again and again is no other one.
    let found = closed_texts(&every(50, 120, |_| write("text")), 6_000);
    assert!(
        matches!(&found[..], [(3_000..=3_100, text)] if text == "text"),
        "{found:?}"
    );
}

#[test]
fn what_may_be_a_part_is_no_closed_text() {
    // Whoever only adds is in the middle of it.
    assert!(closed_texts(&every(50, 120, |n| add(&n.to_string())), 6_000).is_empty());
    // Whoever holds it open is not done.
    assert!(
        closed_texts(
            &every(50, 120, |n| Act::Open(format!("text {n:03}"))),
            6_000
        )
        .is_empty()
    );
    // Halves are shorter than what comes between them, at whatever moment the looks find them.
    for pause in [20, 30, 50, 70, 110] {
        let halves = |n| {
            if n % 2 == 0 {
                write(&format!("{n:03} half"))
            } else {
                add(" whole")
            }
        };
        let found = closed_texts(&every(pause, 6_000 / pause, halves), 6_000);
        assert!(
            found.iter().all(|(_, text)| text.ends_with("half whole")),
            "each {pause} ms: {found:?}"
        );
    }
}

#[test]
fn a_live_closed_text_begins_the_wait_anew() {
    let mut world = World::new().play(&every(50, 70, |n| write(&format!("text {n:03}"))), 3_200);
    let closed = world.settling.closed_texts(world.at());
    assert_eq!(closed.len(), 1);
    // What is not taken is not offered again.
    world
        .settling
        .note_closed_decision(closed.clone(), Decision::NotLive, world.at());
    assert!(world.settling.closed_texts(world.at()).is_empty());
    assert!(
        world
            .settling
            .waiting(world.at())
            .is_some_and(|waiting| waiting.endless.len() == 1)
    );
    world
        .settling
        .note_closed_decision(closed.clone(), Decision::Live, world.at());
    assert!(
        world
            .settling
            .waiting(world.at())
            .is_some_and(|waiting| waiting.endless.is_empty())
    );
    assert_eq!(
        world.settling.whole_texts()[Path::new("a")],
        closed[Path::new("a")]
    );
    let live = world
        .settling
        .live_times()
        .find(|(path, _)| *path == Path::new("a"))
        .map(|(_, at)| at);
    assert_eq!(live, Some(closed[Path::new("a")].1));
}

#[test]
fn halves_without_an_end_are_never_taken() {
    let script = every(300, 24, |n| {
        if n % 2 == 0 {
            write(&format!("{n} half"))
        } else {
            add(" whole")
        }
    });
    let world = World::new().play(&script, 7_000);
    assert!(world.taken.len() > 3, "{:?}", world.taken);
    assert!(
        world
            .taken
            .iter()
            .all(|(_, files)| files["a"].ends_with("half whole")),
        "{:?}",
        world.taken
    );
    for pause in [20, 60, 150, 300, 700, 1_500, 3_000] {
        let (mut script, mut at) = (Vec::new(), 1);
        for n in 0..6 {
            script.push((at, "a", Act::Open(format!("{n} half"))));
            script.push((at + pause, "a", add(" whole")));
            at += pause + 250;
        }
        let world = World::new().play(&script, at + 2_000);
        assert!(!world.taken.is_empty(), "pauses of {pause} ms");
        assert!(
            world
                .taken
                .iter()
                .all(|(_, files)| files["a"].ends_with("half whole")),
            "pauses of {pause} ms: {:?}",
            world.taken
        );
    }
}

#[test]
fn who_asks_is_not_made_to_wait() {
    check(
        &[(1, "a", write("new")), (101, "a", Act::Ask)],
        &[(150, "new")],
    );
    // Even so a file is looked at twice.
    check(
        &[(90, "a", write("new")), (91, "a", Act::Ask)],
        &[(200, "new")],
    );
    let mut script = every(150, 20, |n| add(&format!(" {n}")));
    script.insert(1, (20, "b", Act::Ask));
    let taken = World::new().play(&script, 3_000).taken;
    assert!(taken[0].0 <= 300, "{taken:?}");
}

#[test]
fn texts_whole_during_a_decision_are_considered_next() {
    let mut world = World::new().play(&[(1, "a", write("one"))], 549);
    world.now = 550;
    world.settling.observe(
        Path::new("a"),
        Some(world.version("a")),
        Sign::default(),
        world.at(),
    );
    let texts = world.settling.whole_texts();
    assert!(world.settling.ready(world.at()) != Ready::Wait && world.taken.is_empty());
    // Making a catalog of them takes its time, in which somebody writes, and looks go on.
    for (at, act) in [(600, write("two")), (650, Act::Rename("three".to_owned()))] {
        world.now = at;
        world.act("a", &act);
        let sign = world.files["a"].2;
        world
            .settling
            .observe(Path::new("a"), Some(world.version("a")), sign, world.at());
    }
    world.now = 800;
    world.settling.observe(
        Path::new("a"),
        Some(world.version("a")),
        Sign::Renamed,
        world.at(),
    );
    world.settling.note_decision(&texts, Decision::Live);
    assert!(
        matches!(world.settling.ready(world.at()), Ready::Whole { .. }),
        "the third text is still to be considered"
    );
    let live = world
        .settling
        .live_times()
        .find(|(path, _)| *path == Path::new("a"))
        .map(|(_, at)| at);
    assert_eq!(
        live,
        Some(world.start + Duration::from_millis(550)),
        "what is live was there then, and is not any more"
    );
}

#[test]
fn changes_that_come_together_are_taken_together() {
    let world = World::new().play(&[(1, "a", write("one")), (301, "b", write("two"))], 3_000);
    let taken: Vec<_> = world
        .taken
        .iter()
        .map(|(at, files)| (*at, files["a"].as_str(), files["b"].as_str()))
        .collect();
    assert_eq!(taken, [(850, "one", "two")]);
    assert!(world.settling.is_quiet() && world.settling.waiting(world.at()).is_none());
}

proptest! {
    /// Whoever writes a text in up to three parts, with up to 300 ms between them, never sees a
    /// part of it taken, however often he does it.
    #[test]
    fn no_part_is_ever_taken(texts in prop::collection::vec((prop::collection::vec(20_u64..=300, 0..3), 150_u64..=400), 1..12)) {
        let (mut script, mut at) = (Vec::new(), 1);
        for (number, (parts, pause)) in texts.iter().enumerate() {
            script.push((at, "a", write(&format!("{number}"))));
            for gap in parts {
                at += gap;
                script.push((at, "a", add(" more")));
            }
            script.push((at, "a", add(" end")));
            at += pause;
        }
        let world = World::new().play(&script, at + 2_000);
        prop_assert!(world.taken.iter().all(|(_, files)| files["a"].ends_with(" end")), "{:?}", world.taken);
        let last = format!("{}", texts.len() - 1);
        prop_assert!(world.taken.last().is_some_and(|(_, files)| files["a"].starts_with(&last)));
    }

    /// The same for whoever holds the file open until it is whole, with any pauses between the
    /// parts and between the texts.
    #[test]
    fn no_part_of_an_open_file_is_taken(
        texts in prop::collection::vec((prop::collection::vec(20_u64..=3_000, 1..4), 20_u64..=3_000), 1..8),
    ) {
        let (mut script, mut at) = (Vec::new(), 1);
        for (number, (parts, pause)) in texts.iter().enumerate() {
            script.push((at, "a", Act::Open(format!("{number}"))));
            for gap in parts {
                at += gap;
                script.push((at, "a", Act::Hold(" more".to_owned())));
            }
            at += parts[0];
            script.push((at, "a", add(" end")));
            at += pause;
        }
        let world = World::new().play(&script, at + 2_000);
        prop_assert!(world.taken.iter().all(|(_, files)| files["a"].ends_with(" end")), "{:?}", world.taken);
        let last = format!("{}", texts.len() - 1);
        prop_assert!(world.taken.last().is_some_and(|(_, files)| files["a"].starts_with(&last)));
    }

    /// However a file is written, with pauses as people and programs make them, each of its texts,
    /// or a later one, is taken in time.
    #[test]
    fn each_edit_is_taken_in_time(edits in prop::collection::vec((0..3, 150_u64..=400), 1..20)) {
        let (mut script, mut at) = (Vec::new(), 1);
        for (number, (kind, pause)) in edits.iter().enumerate() {
            let text = format!("{number}!");
            script.push((at, "a", match kind { 0 => write(&text), 1 => add(&text), _ => renamed(&text) }));
            at += pause;
        }
        let world = World::new().play(&script, at + 2_500);
        // The last number in a text says which edits it has.
        let newest = |text: &str| text.trim_end_matches('!').rsplit(['!', 'd']).next().and_then(|number| number.parse::<usize>().ok());
        for (number, (at, ..)) in script.iter().enumerate() {
            let taken = world.taken.iter().find(|(_, files)| newest(&files["a"]) >= Some(number));
            prop_assert!(taken.is_some_and(|(when, _)| *when <= at + 1_700), "edit {} of {} ms: {:?}", number, at, world.taken);
        }
    }
}
