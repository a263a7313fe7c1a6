use std::os::unix::fs::symlink;

use super::*;
use crate::conf::yaml::Step;
use crate::conf::yaml::edit::NewValue;

const CATALOG: &str = "accounts: {}\nmodels: {}\ncallers:\n  acme:\n    keys:\n      prod:\n        hash: sha256:0707070707070707070707070707070707070707070707070707070707070707\n";

/// A folder of its own for each test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("portcullis-amend-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("catalog.yaml"), CATALOG).unwrap();
        Self(path)
    }

    fn catalog(&self) -> PathBuf {
        self.0.join("catalog.yaml")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.catalog()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn field<'c>(field: &'c str, new: NewValue) -> [Change<'c>; 1] {
    [Change::Set(
        ["callers", "acme", "keys", "prod", field]
            .map(Step::Key)
            .to_vec(),
        new,
    )]
}

#[test]
fn half_written_files_are_read_again() {
    let folder = Folder::new("again");
    fs::create_dir_all(folder.0.join("catalog.d")).unwrap();
    let other = folder.0.join("catalog.d/zz.yaml");
    fs::write(&other, "callers:\n  zz:\n").unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| Files::lock(&folder.0).map(drop));
        std::thread::park_timeout(Duration::from_millis(300));
        fs::write(&other, "callers:\n  zz: {}\n").unwrap();
        reading.join().unwrap().unwrap();
    });
    // What was wrong for long is told of at once.
    fs::write(&other, "callers:\n  zz:\n").unwrap();
    File::options()
        .write(true)
        .open(&other)
        .unwrap()
        .set_modified(std::time::SystemTime::now() - 2 * YOUNG_AGE)
        .unwrap();
    // The machine may stand still meanwhile, but hardly each time.
    let is_at_once = |_| {
        let start = Instant::now();
        assert!(
            Files::lock(&folder.0)
                .err()
                .unwrap()
                .contains("catalog.d/zz.yaml:2")
        );
        start.elapsed() < RETRY_PERIOD
    };
    assert!((0..5).any(is_at_once));
}

#[test]
fn a_replaced_file_keeps_its_mode_and_leaves_nothing() {
    let folder = Folder::new("mode");
    for mode in [0o600, 0o640, 0o664] {
        fs::set_permissions(folder.catalog(), Permissions::from_mode(mode)).unwrap();
        // What a crash left.
        fs::write(folder.0.join(".catalog.yaml.new"), "half").unwrap();
        let mut files = Files::lock(&folder.0).unwrap();
        files
            .change(0, &field("debug", NewValue::Bool(mode == 0o600)))
            .unwrap();
        assert_eq!(
            fs::metadata(folder.catalog()).unwrap().mode() & 0o7777,
            mode
        );
        assert_eq!(folder.names(), ["catalog.yaml"]);
    }
    assert_eq!(folder.text(), format!("{CATALOG}        debug: false\n"));
}

#[test]
fn a_file_is_changed_where_a_link_leads_to() {
    let folder = Folder::new("link");
    let real = folder.0.join("elsewhere");
    fs::create_dir(&real).unwrap();
    fs::rename(folder.catalog(), real.join("real")).unwrap();
    symlink("elsewhere/real", folder.catalog()).unwrap();
    Files::lock(&folder.0)
        .unwrap()
        .change(0, &field("debug", NewValue::Bool(true)))
        .unwrap();
    assert!(fs::symlink_metadata(folder.catalog()).unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(real.join("real")).unwrap(),
        folder.text()
    );
    assert!(folder.text().contains("debug: true"));
}

#[test]
fn a_new_file_is_as_readable_as_the_catalog() {
    let folder = Folder::new("new");
    fs::set_permissions(folder.catalog(), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&folder.0, Permissions::from_mode(0o750)).unwrap();
    let text = "callers: { acme: { keys: { b: { hash: \"sha256:0808080808080808080808080808080808080808080808080808080808080808\" } } } }\n";
    let mut files = Files::lock(&folder.0).unwrap();
    files.add("keys-acme.yaml", text.to_owned()).unwrap();
    let made = folder.0.join("catalog.d");
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o750);
    assert_eq!(
        fs::metadata(made.join("keys-acme.yaml")).unwrap().mode() & 0o777,
        0o640
    );
    let places: Vec<_> = files
        .key_places()
        .into_iter()
        .map(|(id, place)| (id, files.name(place.file), place.line))
        .collect();
    let name = |file: &str| folder.0.join(file).display().to_string();
    assert_eq!(
        places,
        [
            ("acme/prod".to_owned(), name("catalog.yaml"), 6),
            ("acme/b".to_owned(), name("catalog.d/keys-acme.yaml"), 1)
        ]
    );
}

#[test]
fn what_would_be_wrong_is_not_written() {
    let folder = Folder::new("wrong");
    let mut files = Files::lock(&folder.0).unwrap();
    let why = files
        .change(0, &field("expires", NewValue::text("tomorrow")))
        .unwrap_err();
    assert!(
        why.contains("catalog.yaml:8 callers.acme.keys.prod.expires")
            && why.contains("was not changed"),
        "{why}"
    );
    assert_eq!(folder.text(), CATALOG);
    drop(files);
    fs::write(folder.catalog(), CATALOG.replace("models: {}", "models: 1")).unwrap();
    let why = Files::lock(&folder.0).err().unwrap();
    assert!(why.contains("catalog.yaml:2 models"), "{why}");
}

#[test]
fn what_somebody_else_changed_meanwhile_is_kept() {
    let folder = Folder::new("meanwhile");
    let mut files = Files::lock(&folder.0).unwrap();
    fs::write(folder.catalog(), format!("{CATALOG}# theirs\n")).unwrap();
    let why = files
        .change(0, &field("debug", NewValue::Bool(true)))
        .unwrap_err();
    assert!(why.contains("another program changed it"), "{why}");
    assert_eq!(folder.text(), format!("{CATALOG}# theirs\n"));
    // And a file that came to be where one was to be made.
    fs::write(folder.catalog(), CATALOG).unwrap();
    fs::create_dir(folder.0.join("catalog.d")).unwrap();
    fs::write(folder.0.join("catalog.d/keys-acme.yaml"), "theirs").unwrap();
    assert!(
        files
            .add("keys-acme.yaml", "callers: {}\n".to_owned())
            .is_err()
    );
    assert_eq!(
        fs::read_to_string(folder.0.join("catalog.d/keys-acme.yaml")).unwrap(),
        "theirs"
    );
}

#[test]
fn of_many_at_once_each_sees_its_predecessor() {
    let folder = Folder::new("many");
    std::thread::scope(|scope| {
        for number in 0..8_u8 {
            let conf = &folder.0;
            scope.spawn(move || {
                let name = format!("k{number}");
                let hash = format!("sha256:{}", format!("{:02x}", 0x10 + number).repeat(32));
                let path = ["callers", "acme", "keys", &name].map(Step::Key).to_vec();
                Files::lock(conf)
                    .unwrap()
                    .change(
                        0,
                        &[Change::Set(
                            path,
                            NewValue::map([("hash", NewValue::text(hash))]),
                        )],
                    )
                    .unwrap();
            });
        }
    });
    assert_eq!(Files::read(&folder.0).unwrap().catalog().keys().len(), 9);
}

#[test]
fn what_is_undone_leaves_nothing() {
    let folder = Folder::new("undo");
    let mut files = Files::lock(&folder.0).unwrap();
    files
        .change(0, &field("debug", NewValue::Bool(true)))
        .unwrap();
    files.undo().unwrap();
    assert_eq!(
        (folder.text(), folder.names()),
        (CATALOG.to_owned(), vec!["catalog.yaml".to_owned()])
    );
    drop(files);
    let mut files = Files::lock(&folder.0).unwrap();
    files
        .add("keys-acme.yaml", "callers: { acme: {} }\n".to_owned())
        .unwrap();
    assert_eq!(folder.names(), ["catalog.d", "catalog.yaml"]);
    files.undo().unwrap();
    // With the folder that was made for it; one that was there stays.
    assert_eq!(folder.names(), ["catalog.yaml"]);
    fs::create_dir(folder.0.join("catalog.d")).unwrap();
    drop(files);
    let mut files = Files::lock(&folder.0).unwrap();
    files
        .add("keys-acme.yaml", "callers: { acme: {} }\n".to_owned())
        .unwrap();
    files.undo().unwrap();
    assert_eq!(folder.names(), ["catalog.d", "catalog.yaml"]);
}

#[test]
fn a_file_that_cannot_be_written_leaves_no_folder() {
    let folder = Folder::new("nofolder");
    let mut files = Files::lock(&folder.0).unwrap();
    let name = format!("keys-{}.yaml", "a".repeat(300));
    assert!(
        files
            .add(&name, "callers: { acme: {} }\n".to_owned())
            .is_err()
    );
    assert_eq!(folder.names(), ["catalog.yaml"]);
}
