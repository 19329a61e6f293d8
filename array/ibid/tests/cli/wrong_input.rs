//! Wrong input to every command: each gives an error that names the cause, and a hint.
//!
//! A line of a table is a command and a part of the expected error, separated by ` => `. `''` is an
//! empty argument, `_` in an argument is a blank, and `DIR` is the scratch directory.

use crate::array::{Array, Scratch, ibid};
use std::path::Path;
use std::process::Output;

const VOLUME: &str = "
    volume bogus => unrecognized subcommand 'bogus'
    volume creat vm9 --size 1G => unrecognized subcommand 'creat'
    volume create => not provided: --size <SIZE> <NAME>
    volume create vm9 => not provided: --size <SIZE>
    volume create --size 1G => not provided: <NAME>
    volume create vm9 --size => a value is required for '--size <SIZE>'
    volume create vm9 --size '' => '' is not a size
    volume create vm9 --size much => 'much' is not a size
    volume create vm9 --size -1G => unexpected argument '-1'
    volume create vm9 --size 1X => '1X' is not a size
    volume create vm9 --size 99999999P => '99999999P' is not a size
    volume create vm9 --size 0 => vm9: Invalid size
    volume create vm9 --size 1000 => vm9: Invalid size
    volume create vm9 --size 1023K => vm9: Invalid size
    volume create vm9 --size 5P => vm9: Invalid size
    volume create vm9 --size 1G --size 2G => '--size <SIZE>' cannot be used multiple times
    volume create vm9 --sise 1G => unexpected argument '--sise'
    volume create vm9 vm8 --size 1G => unexpected argument 'vm8'
    volume create vm9 --size 1G --iqn x => unexpected argument '--iqn'
    volume create vm9 --size 1G --capacity 1G => unexpected argument '--capacity'
    volume create a_b --size 1G => a b: Invalid name
    volume create a.b --size 1G => a.b: Invalid name
    volume create vm9- --size 1G => vm9-: Invalid name
    volume create 123 --size 1G => 123: Invalid name
    volume create ü --size 1G => ü: Invalid name
    volume create '' --size 1G => 'names' is required
    volume create vm1 --size 1G => vm1: Volume already exists
    volume create VM1 --size 1G => VM1: Volume already exists
    volume create dead --size 1G => dead: Volume already exists
    volume list vm9 => vm9: Volume does not exist
    volume list vm1 vm9 => vm9: Volume does not exist
    volume list --destroyed --all => '--destroyed' cannot be used with '--all'
    volume list --destroyed vm1 => vm1: Volume is not destroyed
    volume list dead => dead: Volume has been destroyed
    volume list --limit 0 => invalid value '0' for '--limit <COUNT>'
    volume list --csv --json => --csv cannot be combined with --json
    volume list --filter nmae='x' => Invalid filter: no field 'nmae'
    volume list --filter name= => Invalid filter: unexpected end
    volume list --filter name='x => Invalid filter: unterminated text 'x
    volume list --filter name=x => Invalid filter: text 'x' must be quoted
    volume list --filter (name='x' => Invalid filter: ')' expected
    volume show => not provided: <NAME>
    volume show vm9 => vm9: Volume does not exist
    volume show vm1 vm2 => unexpected argument 'vm2'
    volume resize vm1 => not provided: --size <SIZE>
    volume resize vm9 --size 2G => vm9: Volume does not exist
    volume resize vm1 --size 512M => vm1: Resize would truncate the volume
    volume resize vm1 --size 8P => vm1: Invalid size
    volume resize dead --size 2G => dead: Volume has been destroyed
    volume copy vm1 => not provided: <NAME>
    volume copy vm9 new => vm9: Volume does not exist
    volume copy vm1.s9 new => vm1.s9: Volume snapshot does not exist
    volume copy vm1 vm2 => vm2: Volume already exists
    volume copy vm1 vm1 --overwrite => vm1: Volume cannot be overwritten with itself
    volume copy dead new => dead: Volume has been destroyed
    volume copy vm1 a.b => a.b: Invalid name
    volume set vm1 => nothing to change
    volume set vm9 --iops 500 => vm9: Volume does not exist
    volume set vm1 --bandwidth fast => 'fast' is not a size
    volume set vm1 --bandwidth 1K => bandwidth limit
    volume set vm1 --iops many => 'many' is not a whole number
    volume set vm1 --iops 99 => IOPS limit
    volume set vm1 --threshold 0 => '0' is not a percentage
    volume set vm1 --threshold 101 => '101' is not a percentage
    volume rename vm1 => not provided: <NEW_NAME>
    volume rename vm1 vm2 => vm2: Volume already exists
    volume rename vm9 vm8 => vm9: Volume does not exist
    volume rename vm1 a! => a!: Invalid name
    volume rename vm1 a/b => vm1: A rename keeps the volume group
    volume destroy => not provided: <NAMES>...
    volume destroy vm9 => vm9: Volume does not exist
    volume destroy vm1 => vm1: Volume cannot be deleted due to existing connections
    volume destroy dead => dead: Volume has been destroyed
    volume recover vm2 => vm2: Volume is not destroyed
    volume recover vm9 => vm9: Volume does not exist
    volume eradicate vm2 => vm2: Volume is not destroyed
    volume eradicate dead vm9 => vm9: Volume does not exist
";

const SNAP: &str = "
    snap take vm1 => unrecognized subcommand 'take'
    snap creat vm1 => unrecognized subcommand 'creat'
    snap create => not provided: <VOLUMES>...
    snap create vm9 => vm9: Volume does not exist
    snap create vm1 vm9 => vm9: Volume does not exist
    snap create dead => dead: Volume has been destroyed
    snap create vm1.s1 => vm1.s1: Volume does not exist
    snap create vm1 --suffix s1 => vm1.s1: Volume snapshot already exists
    snap create vm1 --suffix S1 => vm1.S1: Volume snapshot already exists
    snap create vm1 --suffix 7 => 7: Invalid name
    snap create vm1 --suffix a.b => a.b: Invalid name
    snap create vm1 --suffix a_b => a b: Invalid name
    snap create vm1 --suffix '' => Invalid name
    snap create vm1 --suffix => a value is required for '--suffix <SUFFIX>'
    snap create vm1 --suffix a --suffix b => cannot be used multiple times
    snap create vm1 --sufix a => unexpected argument '--sufix'
    snap create vm1 --size 1G => unexpected argument '--size'
    snap create '' => 'source_names' is required
    snap list vm1 => vm1: Volume snapshot does not exist
    snap list vm1.s9 => vm1.s9: Volume snapshot does not exist
    snap list vm1.s1 --volume vm1 => cannot be used with
    snap list --volume vm9 => vm9: Volume does not exist
    snap list --volume => a value is required for '--volume <VOLUME>'
    snap list --destroyed --all => '--destroyed' cannot be used with '--all'
    snap list --destroyed vm1.s1 => vm1.s1: Volume snapshot is not destroyed
    snap list vm2.gone => vm2.gone: Volume snapshot has been destroyed
    snap list --filter nmae='x' => Invalid filter: no field 'nmae'
    snap list --filter and => Invalid filter: unexpected 'and'
    snap list --space => unexpected argument '--space'
    snap rename => not provided: <NAME> <SUFFIX>
    snap rename vm1.s1 => not provided: <SUFFIX>
    snap rename vm1.s9 s2 => vm1.s9: Volume snapshot does not exist
    snap rename vm1 s2 => vm1: Volume snapshot does not exist
    snap rename vm1.s1 vm2.s1 => vm2.s1: A snapshot stays with its volume
    snap rename vm1.s1 9 => 9: Invalid name
    snap rename vm2.gone s3 => vm2.gone: Volume snapshot has been destroyed
    snap destroy => not provided: <NAMES>...
    snap destroy vm1 => vm1: Volume snapshot does not exist
    snap destroy vm1.s9 => vm1.s9: Volume snapshot does not exist
    snap destroy vm2.gone => vm2.gone: Volume snapshot has been destroyed
    snap destroy vm1.s1 => vm1.s1: Volume snapshot cannot be deleted due to existing connections
    snap recover => not provided: <NAMES>...
    snap recover vm1.s1 => vm1.s1: Volume snapshot is not destroyed
    snap recover vm1.s9 => vm1.s9: Volume snapshot does not exist
    snap eradicate => not provided: <NAMES>...
    snap eradicate vm1.s1 => vm1.s1: Volume snapshot is not destroyed
    snap eradicate vm2.gone vm1.s9 => vm1.s9: Volume snapshot does not exist
    snap show vm1.s1 => unrecognized subcommand 'show'
    snap --data => a value is required for '--data
";

const HOST: &str = "
    host add x => unrecognized subcommand 'add'
    host conect any vm1 => unrecognized subcommand 'conect'
    host create => not provided: <NAME>
    host create h.1 => h.1: Invalid name
    host create '' => 'names' is required
    host create 1 => 1: Invalid name
    host create any => any: Host already exists
    host create ANY => ANY: Host already exists
    host create h --iqn => a value is required for '--iqn <IQN>'
    host create h --iqn esx1 => esx1: Invalid IQN
    host create h --iqn iqn.2026 => iqn.2026: Invalid IQN
    host create h --iqn '' => Invalid IQN
    host create h --iqn iqn.1998-01.com.vmware:esx1 => already in use by host esx1
    host create h --iqn * => already in use by host any
    host create h --personality toaster => Invalid personality
    host create h --chap-user u => 'host_password' is missing
    host create h --chap-secret-file DIR/secret => 'host_user' is missing
    host create h --chap-user u --chap-secret-file DIR/none => none: no such file
    host create h --chap-user u --chap-secret-file DIR/short => Invalid CHAP settings
    host create h --target-user u => 'target_password' is missing
    host create h --target-secret-file DIR/secret => 'target_user' is missing
    host create h --lun 1 => unexpected argument '--lun'
    host list none => none: Host does not exist
    host list any none => none: Host does not exist
    host list --destroyed => unexpected argument '--destroyed'
    host list --filter nmae='x' => Invalid filter: no field 'nmae'
    host list --filter name=('a' => Invalid filter: ')' expected
    host show => not provided: <NAME>
    host show none => none: Host does not exist
    host set => not provided: <NAME>
    host set any => nothing to change
    host set none --personality esxi => none: Host does not exist
    host set any --iqn * --add-iqn * => cannot be used with
    host set any --add-iqn esx1 => esx1: Invalid IQN
    host set any --add-iqn iqn.1998-01.com.vmware:esx1 => already in use by host esx1
    host set any --remove-iqn iqn.1998-01.com.vmware:esx1 => IQN could not be found
    host set any --personality toaster => Invalid personality
    host set any --chap-user u => 'host_password' is missing
    host set any --chap-user => a value is required for '--chap-user <NAME>'
    host rename any => not provided: <NEW_NAME>
    host rename any esx1 => esx1: Host already exists
    host rename none other => none: Host does not exist
    host rename any a.b => a.b: Invalid name
    host delete => not provided: <NAMES>...
    host delete none => none: Host does not exist
    host delete any => any: Host cannot be deleted due to existing connections
    host connect => not provided: <HOST> <VOLUME>
    host connect any => not provided: <VOLUME>
    host connect none vm2 => none: Host does not exist
    host connect any vm9 => vm9: Volume does not exist
    host connect any vm1.s9 => vm1.s9: Volume snapshot does not exist
    host connect any dead => dead: Volume has been destroyed
    host connect any vm1 => vm1: Connection already exists
    host connect any vm2 --lun 1 => LUN 1 is already in use on host any
    host connect any vm2 --lun 4096 => Invalid LUN
    host connect any vm2 --lun 70000 => Invalid LUN
    host connect any vm2 --lun -1 => unexpected argument '-1'
    host connect any vm2 --lun one => invalid value 'one' for '--lun <LUN>'
    host connect any vm2 vm1 => unexpected argument 'vm1'
    host disconnect any => not provided: <VOLUME>
    host disconnect any vm2 => vm2: Connection does not exist
    host disconnect none vm1 => none: Host does not exist
    host disconnect any vm9 => vm9: Volume does not exist
";

const ARRAY: &str = "
    array bogus => unrecognized subcommand 'bogus'
    array sho => unrecognized subcommand 'sho'
    array show me => unexpected argument 'me'
    array show --refresh => unexpected argument '--refresh'
    array show --space => unexpected argument '--space'
    array show --data => a value is required for '--data
    array space now => unexpected argument 'now'
    array space --refresh=yes => unexpected value 'yes' for '--refresh'
    array set => nothing to change
    array set --name => a value is required for '--name <NAME>'
    array set --name '' => Invalid name
    array set --name a_b => a b: Invalid name
    array set --name a.b => a.b: Invalid name
    array set --name 12 => 12: Invalid name
    array set --eradication-delay soon => 'soon' is not a duration
    array set --eradication-delay '' => '' is not a duration
    array set --eradication-delay 7 => '7' is not a duration
    array set --eradication-delay 1w => '1w' is not a duration
    array set --eradication-delay 1.5h => '1.5h' is not a duration
    array set --eradication-delay 0s => eradication delay
    array set --eradication-delay 31d => eradication delay
    array set --eradication-delay 99999999999999999999d => is not a duration
    array set --threshold => a value is required for '--threshold <PERCENT>'
    array set --threshold 0 => '0' is not a percentage
    array set --threshold 101 => '101' is not a percentage
    array set --threshold full => 'full' is not a percentage
    array set --threshold -5 => unexpected argument '-5'
    array set --scrub-interval soon => is not a duration
    array set --scrub-interval 0s => '0s' is not an interval
    array set --scrub-interval 59min => scrub interval must be 1 hour to 366 days
    array set --scrub-interval 367d => scrub interval
    array set --scrub-pace fast => 'fast' is not a size
    array set --scrub-pace 1K => scrub pace must be 1 MiB
    array set --treshold 5 => unexpected argument '--treshold'
    array set --capacity 1T => unexpected argument '--capacity'
    array set --bandwidth 1G => unexpected argument '--bandwidth'
    array set east => unexpected argument 'east'
    array grow => not provided: --capacity <SIZE>
    array grow 1T => unexpected argument '1T'
    array grow --capacity => a value is required for '--capacity <SIZE>'
    array grow --capacity '' => '' is not a size
    array grow --capacity much => 'much' is not a size
    array grow --capacity 1M => and cannot shrink
    array grow --capacity 0 => and cannot shrink
    array grow --capacity 99999P => is not a size
    array grow --capacity 100T => The array cannot grow
    array grow --capacity 1G --size 1G => unexpected argument '--size'
    array rename east => unrecognized subcommand 'rename'
";

const OTHERS: &str = "
    scrub bogus => unrecognized subcommand 'bogus'
    scrub stat => unrecognized subcommand 'stat'
    scrub start now => unexpected argument 'now'
    scrub start --pace => a value is required for '--pace <SIZE>'
    scrub start --pace fast => 'fast' is not a size
    scrub start --pace 0 => Invalid pace
    scrub start --pace 1K => Invalid pace
    scrub start --rate 1M => unexpected argument '--rate'
    scrub status all => unexpected argument 'all'
    scrub status --pace 1M => unexpected argument '--pace'
    alert bogus => unrecognized subcommand 'bogus'
    alert show 1 => unrecognized subcommand 'show'
    alert list 1 => unexpected argument '1'
    alert list --closed => unexpected argument '--closed'
    alert list --all=yes => unexpected value 'yes' for '--all'
    alert list --filter state= => Invalid filter
    alert list --destroyed => unexpected argument '--destroyed'
    token admin => unexpected argument 'admin'
    token --old => unexpected argument '--old'
    token --url 127.0.0.1:1 => --url has no effect without --new
    token --insecure => --insecure has no effect without --new
    token --ca DIR/secret => --ca has no effect without --new
    token --new-token => unexpected argument '--new-token'
    bogus => unrecognized subcommand 'bogus'
    volumes list => unrecognized subcommand 'volumes'
    --bogus => unexpected argument '--bogus'
    --json volume list => unexpected argument '--json'
    --url 127.0.0.1:1 volume list => unexpected argument '--url'
    volume list --insecure --fingerprint 00 => --insecure cannot be combined with --fingerprint
    volume list --insecure --ca DIR/secret => --insecure cannot be combined with --ca
    volume list --fingerprint 00 --ca DIR/secret => --fingerprint cannot be combined with --ca
    volume list --fingerprint 00 => '00' is not a SHA-256 fingerprint
    volume list --ca DIR/secret => secret: not a PEM certificate
    volume list --ca DIR/none => none: no such file
    volume list --url http://127.0.0.1 => 'http://127.0.0.1' is not the address of an array
    volume list --url '' => '' is not the address of an array
    volume list --url 127.0.0.1:1 => https://127.0.0.1:1: 
    volume list --new => unexpected argument '--new'
    volume list --write-cache => unexpected argument '--write-cache'
    volume list --repair => unexpected argument '--repair'
";

const SERVE: &str = "
    serve => no directory given
    serve DIR/new => unexpected argument
    serve --data => a value is required for '--data
    serve --data DIR/secret => secret: 
    serve --data DIR/new --url http://x => unexpected argument '--url'
    serve --data DIR/new --ca x => unexpected argument '--ca'
    serve --data DIR/new --fingerprint x => unexpected argument '--fingerprint'
    serve --data DIR/new --insecure => unexpected argument '--insecure'
    serve --data DIR/new --json => unexpected argument '--json'
    serve --data DIR/new --size 1G => unexpected argument '--size'
    serve --data DIR/new --capacity => a value is required for '--capacity <SIZE>'
    serve --data DIR/new --capacity much => 'much' is not a size
    serve --data DIR/new --capacity 1M => invalid capacity 1M
    serve --data DIR/new --capacity 1P => invalid capacity 1P
    serve --data DIR/new --device DIR/none => none: 
    serve --data DIR/new --device DIR => DIR: 
    serve --data DIR/new --device DIR/secret => secret: 
    serve --data DIR/new --iscsi localhost => invalid value 'localhost' for '--iscsi <ADDR:PORT>'
    serve --data DIR/new --iscsi 127.0.0.1 => invalid value '127.0.0.1' for '--iscsi <ADDR:PORT>'
    serve --data DIR/new --iscsi 127.0.0.1:99999 => invalid value '127.0.0.1:99999'
    serve --data DIR/new --api 8443 => invalid value '8443' for '--api <ADDR:PORT>'
    serve --data DIR/new --api 127.0.0.1:0 --api 127.0.0.1:0 => cannot be used multiple times
    serve --data DIR/new --memory much => 'much' is not a size
    serve --data DIR/new --memory 1M => memory too small: 1M
    serve --data DIR/new --memory 256M --index-memory 200M => index memory exceeds half of the memory
    serve --data DIR/new --index-memory x => 'x' is not a size
    serve --data DIR/new --config DIR/none => none: no such file
    serve --data DIR/new --config DIR => DIR: 
    serve --config DIR/secret => secret: TOML parse error
    serve --config DIR/keys => unknown field `dta`
    serve --config DIR/sizes => 'much' is not a size
    serve --data DIR/new --write-cache=yes => unexpected value 'yes'
    serve --data DIR/new --name a_b --capacity 64M --iscsi 127.0.0.1:0 --api 127.0.0.1:0 => Invalid name
    serve --ephemeral --data DIR/new => --ephemeral cannot be combined with --data
    serve --ephemeral --device DIR/none => cannot be used with
    serve --data DIR/new --ready-fd 2 => --ready-fd 2: it is a standard stream
    serve --data DIR/new --log-file DIR => DIR: 
    serve --data DIR/new --log-format xml => invalid value 'xml' for '--log-format <LOG_FORMAT>'
    serve --data DIR/new --new => unexpected argument '--new'
    serve --data DIR/new --refresh => unexpected argument '--refresh'
    serve --data DIR/new --token x => unexpected argument '--token'
    serve --data DIR/new --capacity 64M --iscsi 192.0.2.1:1 --api 127.0.0.1:0 => cannot listen for iSCSI on 192.0.2.1:1
    serve --data DIR/new --capacity 64M --iscsi 127.0.0.1:0 --api 192.0.2.1:1 => cannot listen for the REST API on 192.0.2.1:1
    serve --data DIR/new --capacity 1G --capacity 2G => cannot be used multiple times
    serve serve --data DIR/new => unexpected argument 'serve'
";

const FSCK: &str = "
    fsck => no array given
    fsck DIR/none => none: no such file
    fsck DIR/none --repair => none: no such file
    fsck DIR/none --json => none: no such file
    fsck --data DIR/none => none: no such file
    fsck DIR/none --data DIR => PATH cannot be combined with --data
    fsck DIR/none DIR => unexpected argument
    fsck DIR => DIR: no array in this directory
    fsck --data DIR => DIR: no array in this directory
    fsck DIR/secret/array => array: 
    fsck DIR --fix => unexpected argument '--fix'
    fsck DIR --repair=yes => unexpected value 'yes' for '--repair'
    fsck DIR --metadata => unexpected argument '--metadata'
    fsck DIR --url 127.0.0.1:1 => unexpected argument '--url'
    fsck DIR --insecure => unexpected argument '--insecure'
    fsck DIR --pace 1M => unexpected argument '--pace'
    fsck DIR --refresh => unexpected argument '--refresh'
    fsck DIR --capacity 1G => unexpected argument '--capacity'
    fsck DIR/none --data => a value is required for '--data
";

fn words(line: &str, directory: &Path) -> Vec<String> {
    let word = |word: &str| match word {
        "''" => String::new(),
        _ => word.replace('_', " ").replace("DIR", &directory.display().to_string()),
    };
    line.split_whitespace().map(word).collect()
}

/// Runs every command of the table. `extra` is appended unless the command names an array itself.
fn check(table: &str, directory: &Path, extra: &[&str]) {
    let mut failed = Vec::new();
    for line in table.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (command, cause) = line.split_once(" => ").unwrap();
        let has_data = command.split_whitespace().any(|word| word == "--data");
        let extra = if has_data { &[][..] } else { extra };
        let mut program = ibid();
        if command.contains("--url 127.0.0.1:1") {
            program.env("IBID_TOKEN", "x");
        }
        let output = program.args(words(command, directory)).args(extra).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let cause = cause.replace("DIR", &directory.display().to_string());
        if !is_good(&output, &text, &cause) {
            failed.push(format!("{command}: {:?} {:?}\n{text}", output.status.code(), output.stdout));
        }
    }
    assert!(failed.is_empty(), "{} wrong answers:\n{}", failed.len(), failed.join("\n"));
}

/// The cause in a line with `error:`, one line with `hint:` at the end, and no other output.
fn is_good(output: &Output, text: &str, cause: &str) -> bool {
    let is_error = |line: &str| line.starts_with("error: ");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains(" INFO ")).collect();
    let hint = lines.pop().unwrap_or_default();
    let is_hint =
        hint.strip_prefix("hint: ").is_some_and(|hint| hint.chars().next().is_some_and(|c| !c.is_uppercase()));
    let names_cause = lines.iter().any(|line| line.contains(cause.trim_end()));
    matches!(output.status.code(), Some(1 | 2 | 8))
        && output.stdout.is_empty()
        && !lines.is_empty()
        && lines.iter().all(|line| is_error(line))
        && names_cause
        && is_hint
}

fn write(directory: &Path, name: &str, content: &str) {
    platform::files::replace(&directory.join(name), content.as_bytes(), platform::files::Access::Owner).unwrap();
}

fn files(directory: &Path) {
    write(directory, "secret", "twelve bytes\n");
    write(directory, "short", "short\n");
    write(directory, "keys", "dta = '/nowhere'\n");
    write(directory, "sizes", "data = '/nowhere'\ncapacity = 'much'\n");
}

#[test]
fn wrong_input_to_a_running_array_is_explained() {
    let array = Array::new("wrong-input");
    let directory = &array.scratch.0;
    files(directory);
    for command in [
        "volume create vm1 --size 1G",
        "volume create vm2 --size 1G",
        "volume create dead --size 1G",
        "volume destroy dead",
        "snap create vm1 --suffix s1",
        "snap create vm2 --suffix gone",
        "snap destroy vm2.gone",
        "host create any --iqn *",
        "host create esx1 --iqn iqn.1998-01.com.vmware:esx1",
        "host connect any vm1 --lun 1",
        "host connect any vm1.s1",
    ] {
        array.text(command);
    }
    let data = directory.to_str().unwrap();
    for table in [VOLUME, SNAP, HOST, ARRAY, OTHERS] {
        check(table, directory, &["--data", data]);
    }
}

#[test]
fn wrong_input_to_serve_and_fsck_is_explained() {
    let scratch = Scratch::new("wrong-serve");
    files(&scratch.0);
    check(SERVE, &scratch.0, &[]);
    check(FSCK, &scratch.0, &[]);
}

#[test]
fn misplaced_options_name_their_commands() {
    let hint = |words: &[&str]| {
        let output = ibid().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap().lines().last().unwrap().to_owned()
    };
    let lists = "ibid volume, ibid snap, ibid policy, ibid vgroup, ibid pod, ibid host, ibid array, ibid scrub, \
                 ibid admin, ibid api-client, ibid alert, ibid delivery";
    assert_eq!(
        hint(&["serve", "--data", "/nowhere", "--url", "http://x", "--insecure", "--json"]),
        format!("hint: write --url after one of these commands: {lists}, ibid top, ibid token")
    );
    assert_eq!(
        hint(&["serve", "--data", "/nowhere", "--json"]),
        format!(
            "hint: write --json after one of these commands: {lists}, ibid token, ibid fsck, ibid mediator list, \
             ibid mediator check, ibid doctor"
        )
    );
    assert_eq!(
        hint(&["volume", "list", "--memory", "1G"]),
        "hint: write --memory after one of these commands: ibid serve"
    );
}
