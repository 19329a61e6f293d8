//! Snapshots, copies, space and settings of a running array.

use crate::array::{Array, Served};
use std::time::{Duration, Instant};

/// Replaces the times in a table with `TIME`.
fn timeless(text: &str) -> String {
    let is_time = |word: &str| word.len() == 20 && word.ends_with('Z') && word.contains('T');
    let line = |line: &str| {
        line.split_whitespace().map(|word| if is_time(word) { "TIME" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Polls until the condition holds, because background tasks run at their own pace.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    #[allow(clippy::disallowed_methods, reason = "a test limits its waiting time")]
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "timed out");
    }
}

#[test]
fn snapshot_commands() {
    let array = Array::new("snap");
    array.text("volume create db --size 1G");
    array.text("volume create log --size 2G");
    assert_eq!(
        timeless(&array.text("snap create db --suffix before")),
        "NAME SIZE WRITTEN TAKEN HOSTS STATE\ndb.before 1GiB 0B TIME 0 in use"
    );
    let both = array.json("snap create db log");
    assert_eq!((&both[0]["name"], &both[1]["name"]), (&"db.1".into(), &"log.1".into()));
    assert_eq!(array.json("snap list --volume db").as_array().unwrap().len(), 2);
    array.text("snap rename db.1 daily");
    array.text("snap destroy db.daily log.1");
    let listed = array.text("snap list --all");
    assert_eq!(
        timeless(&listed),
        "NAME SIZE WRITTEN TAKEN HOSTS STATE\n\
         db.before 1GiB 0B TIME 0 in use\n\
         db.daily 1GiB 0B TIME 0 destroyed, eradicated in 1d 0h\n\
         log.1 2GiB 0B TIME 0 destroyed, eradicated in 1d 0h"
    );
    array.text("snap recover db.daily");
    assert_eq!(array.text("snap eradicate log.1"), "eradicated log.1\n");
    assert_eq!(array.json("snap list").as_array().unwrap().len(), 2);
    assert_eq!(
        array.refused("snap eradicate db.daily"),
        "error: db.daily: Volume snapshot is not destroyed.\n\
         hint: it is in use; run `ibid snap destroy NAME` before eradicating it\n"
    );
    assert_eq!(
        array.refused("snap destroy db.weekly"),
        "error: db.weekly: Volume snapshot does not exist.\nhint: run `ibid snap list --all` to list the snapshots\n"
    );
}

#[test]
fn copy_and_restore_commands() {
    let array = Array::new("copy");
    array.text("volume create vm1 --size 1G");
    array.text("snap create vm1 --suffix s");
    assert_eq!(array.json("volume copy vm1 vm2")["source"]["name"], "vm1");
    assert_eq!(array.json("volume copy vm1.s vm3")["source"]["name"], "vm1.s");
    array.text("volume resize vm1 --size 2G");
    assert!(array.refused("volume copy vm1.s vm1").contains("`ibid volume copy --overwrite` replaces one"));
    assert_eq!(array.json("volume copy vm1.s vm1 --overwrite")["provisioned"], 1u64 << 30);
    assert_eq!(array.json("snap list --destroyed")[0]["name"], "vm1.undo-1");
    // A snapshot is connected like a volume.
    array.text("host create backup --iqn *");
    assert_eq!(array.text("host connect backup vm1.s"), "HOST    LUN  VOLUME\nbackup    1  vm1.s\n");
    let refused = array.refused("volume destroy vm1");
    assert_eq!(
        refused,
        "error: vm1.s: Volume snapshot cannot be deleted due to existing connections.\n\
         hint: run `ibid host disconnect HOST VOLUME.SUFFIX` first\n"
    );
    assert_eq!(array.text("host disconnect backup vm1.s"), "disconnected vm1.s from backup\n");
}

#[test]
fn destroyed_objects_are_eradicated_when_due() {
    let array = Array::new("eradication");
    array.text("volume create a --size 1G");
    array.text("volume create b --size 1G");
    array.text("snap create b --suffix s");
    array.text("volume destroy a");
    array.text("snap destroy b.s");
    assert_eq!(array.json("volume list --destroyed")[0]["name"], "a");
    // A stopped array eradicates nothing; the next start does.
    assert!(array.text("array set --eradication-delay 30s").contains("eradication  30s after"));
    let Array { served, scratch } = array;
    served.end("KILL");
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    array.text("array set --eradication-delay 1s");
    let count = |words: &str| array.json(words).as_array().unwrap().len();
    eventually(|| count("volume list --all") == 1 && count("snap list --all") == 0);
    assert_eq!(array.json("volume list")[0]["name"], "b");
}

#[test]
fn settings_commands() {
    let array = Array::new("settings");
    array.text("volume create v --size 1G");
    assert_eq!(
        array.text("volume set v --bandwidth 200M --iops 5000 --threshold 80"),
        "bandwidth  200MiB/s\niops       5000\nthreshold  hosts are warned at 80 %\n"
    );
    assert!(array.text("volume set v --bandwidth none").starts_with("bandwidth  none\niops       5000\n"));
    assert_eq!(
        array.text("array set --name east --threshold 85% --eradication-delay 7d"),
        "name         east\ncapacity     371.03MiB\neradication  7d 0h after destruction\n\
         threshold    hosts are warned at 85 %\nscrub        every 30d 0h, at most 100MiB/s\n"
    );
    let scrub = array.text("array set --scrub-interval 7d --scrub-pace 20M");
    assert!(scrub.ends_with("scrub        every 7d 0h, at most 20MiB/s\n"), "{scrub}");
    let next = array.json("scrub status")["next"].as_u64().unwrap();
    let week = 7 * 86_400_000;
    let left = next - platform::clock::unix_millis();
    assert!(left <= week && left > week - 3_600_000, "a week after the creation: {left}");
    let scrub = array.text("array set --scrub-interval none");
    assert!(scrub.ends_with("scrub        not scheduled, at most 20MiB/s\n"), "{scrub}");
    assert!(array.text("scrub status").contains("\nlast       never\nnext       not scheduled\n"));
    assert!(array.text("array set --threshold none").contains("threshold    none: hosts are not warned"));
    for (words, error) in [
        (
            "volume set v",
            "error: nothing to change\nhint: give at least one setting; `ibid volume set --help` lists them\n",
        ),
        ("volume set v --threshold 0", "error: '0' is not a percentage\nhint: write 1 to 100, or none\n"),
        ("volume set v --iops many", "error: 'many' is not a whole number\nhint: write 100 to 100000000, or none\n"),
        (
            "volume set v --iops 99",
            "error: Invalid setting: IOPS limit must be 100 to 100 million.\nhint: choose a valid value; --help lists them\n",
        ),
        (
            "array set",
            "error: nothing to change\nhint: give at least one setting; `ibid array set --help` lists them\n",
        ),
        (
            "array set --eradication-delay soon",
            "error: 'soon' is not a duration\nhint: write a duration such as 90s, 30min, 24h or 7d\n",
        ),
        (
            "array set --eradication-delay 31d",
            "error: Invalid setting: eradication delay must be 1 second to 30 days.\n\
             hint: choose a valid value; --help lists them\n",
        ),
        (
            "array grow --capacity 1M",
            "error: The array takes 447MiB of its drive already and cannot shrink.\nhint: choose a larger --capacity; an array only grows\n",
        ),
    ] {
        assert_eq!(array.refused(words), error, "{words}");
    }
}

#[test]
fn space_scrub_and_alert_commands() {
    let array = Array::new("space");
    array.text("volume create v --size 1G");
    let space = array.text("array space");
    let names: Vec<&str> = space.lines().map(|line| line.trim_start().split("  ").next().unwrap_or_default()).collect();
    assert_eq!(
        names,
        [
            "capacity",
            "used",
            "unique",
            "shared",
            "snapshots",
            "system",
            "free",
            "provisioned",
            "written",
            "data reduction",
            "total reduction",
            "counted"
        ]
    );
    let figures = array.json("array space");
    let figure = |name: &str| figures["space"][name].as_u64().unwrap();
    let parts = figure("unique") + figure("shared") + figure("snapshots") + figure("system");
    assert_eq!(parts, figure("total_physical"));
    let table = array.text("volume list --space");
    assert!(
        table.starts_with("NAME  SIZE  WRITTEN  UNIQUE  SHARED  SNAPSHOTS  REDUCTION     THIN\nv     1GiB       0B"),
        "{table}"
    );
    assert!(array.json("array space --refresh")["space"]["as_of"].is_u64());
    let table = array.text("volume list --space");
    assert!(table.contains("  100.0 %\nunique, shared, snapshots and reduction: counted 20"), "{table}");
    array.text("scrub start --pace 1G");
    eventually(|| array.json("scrub status")["completed"] == 1);
    let scrub = array.text("scrub status");
    assert!(
        scrub.starts_with("state      completed\nchecked    ") && scrub.contains("\ndamage     none known\n"),
        "{scrub}"
    );
    assert_eq!(array.text("alert list"), "ID  SEVERITY  SINCE  STATE  SUMMARY\n");
}
