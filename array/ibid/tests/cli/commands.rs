//! Output of the administrative commands.

use crate::array::{Array, ibid};

const GIB: u64 = 1 << 30;

/// Replaces the random part of serial numbers with `P`s.
fn masked(array: &Array, text: &str) -> String {
    let volumes = array.json("volume list --all");
    let serial = volumes[0]["serial"].as_str().unwrap();
    let prefix = &serial[..16];
    text.replace(prefix, &"P".repeat(16)).replace(&prefix.to_ascii_lowercase(), &"p".repeat(16))
}

#[test]
fn volume_commands() {
    let array = Array::new("volumes");
    assert_eq!(array.text("volume list"), "NAME  SIZE  HOSTS  SERIAL  STATE\n");
    let made = array.text("volume create vm1 --size 1TiB");
    assert_eq!(
        masked(&array, &made),
        "NAME  SIZE  HOSTS  SERIAL                    STATE\n\
         vm1   1TiB      0  PPPPPPPPPPPPPPPP00000001  in use\n"
    );
    assert_eq!(array.json("volume create vm2 --size 1.5G")["provisioned"], 3 * GIB / 2);
    array.text("volume resize vm2 --size 2G");
    array.text("volume rename vm2 db");
    array.text("volume destroy db");
    assert_eq!(
        masked(&array, &array.text("volume list --all")),
        "NAME  SIZE  HOSTS  SERIAL                    STATE\n\
         db    2GiB      0  PPPPPPPPPPPPPPPP00000002  destroyed, eradicated in 1d 0h\n\
         vm1   1TiB      0  PPPPPPPPPPPPPPPP00000001  in use\n"
    );
    assert_eq!(array.json("volume list --destroyed")[0]["name"], "db");
    assert_eq!(array.json("volume list")[0]["name"], "vm1");
    assert_eq!(array.json("volume list --filter provisioned>1")[0]["name"], "vm1");
    array.text("volume recover db");
    array.refused("volume destroy db vm9");
    assert_eq!(array.json("volume list --destroyed").as_array().unwrap().len(), 0, "a failed request changes nothing");
    array.text("volume destroy db");
    assert_eq!(array.text("volume eradicate db"), "eradicated db\n");
    assert_eq!(array.json("volume list --all").as_array().unwrap().len(), 1);

    let shown = masked(&array, &array.text("volume show vm1"));
    let lines: Vec<&str> = shown.lines().filter(|line| !line.starts_with("created")).collect();
    assert_eq!(
        lines,
        [
            "name       vm1",
            "size       1TiB (1099511627776 bytes)",
            "serial     PPPPPPPPPPPPPPPP00000001",
            "naa        naa.624a9370pppppppppppppppp00000001",
            "state      in use",
            "source     -",
            "hosts      -",
            "written    0B",
            "bandwidth  none",
            "iops       none",
            "threshold  none: hosts are not warned",
        ]
        .into_iter()
        .chain(lines.last().copied())
        .collect::<Vec<_>>()
    );
    assert!(lines.last().unwrap().starts_with("id         624a9370-"));
}

#[test]
fn pod_commands() {
    let array = Array::new("pods");
    let rows = |text: &str| -> Vec<String> {
        // The time of creation differs.
        let words = |line: &str| line.split_whitespace().take(7).collect::<Vec<_>>().join(" ");
        text.lines().skip(1).map(words).collect()
    };
    assert_eq!(rows(&array.text("pod create dc1 --quota 3G")), ["dc1 0 0B 3GiB 0B ibid online"]);
    array.text("volume create dc1::vm1 --size 1G");
    array.text("volume create vm2 --size 2G");
    let serial = array.json("volume list vm2")[0]["serial"].clone();
    let moved = array.json("volume move vm2 dc1");
    assert_eq!((&moved[0]["name"], &moved[0]["serial"]), (&"dc1::vm2".into(), &serial));
    assert_eq!(rows(&array.text("pod list")), ["dc1 2 3GiB 3GiB 0B ibid online"]);
    let full = array.refused("volume create dc1::vm3 --size 1M");
    assert!(
        full.contains("Quota limit reached") && full.contains("hint: run `ibid pod set POD --quota SIZE`"),
        "{full}"
    );
    assert!(array.refused("pod set dc1 --quota 1G").contains("--ignore-usage"));
    assert_eq!(array.json("pod set dc1 --quota 1G --ignore-usage")[0]["quota_limit"], GIB);
    assert_eq!(rows(&array.text("pod set dc1 --quota none")), ["dc1 2 3GiB none 0B ibid online"]);
    assert_eq!(array.json("pod clone dc1 test")[0]["source"]["name"], "dc1");
    assert_eq!(array.json("volume list --filter pod.name='test'")[0]["name"], "test::vm1");
    array.text("pod rename test lab");
    assert_eq!(array.json("volume move lab::vm1 --out")[0]["name"], "vm1");
    assert!(array.refused("pod destroy lab").contains("--contents"));
    array.text("pod destroy lab --contents");
    assert!(array.text("pod list --all").contains("destroyed, eradicated in 1d 0h"));
    assert_eq!(array.json("pod list").as_array().unwrap().len(), 1);
    array.text("pod recover lab");
    assert_eq!(array.json("pod list --sort name- --limit 1")[0]["volume_count"], 1);
    array.text("pod destroy lab --contents");
    assert!(array.refused("pod eradicate lab").contains("--contents"));
    assert_eq!(array.text("pod eradicate lab --contents"), "eradicated lab\n");
    assert!(array.refused("pod recover lab").contains("hint: run `ibid pod list --all`"));
    assert_eq!(array.json("pod monitor dc1")[0]["name"], "dc1");
    assert!(array.refused("volume create dc1::g/v --size 1G").contains("Volume group cannot be in a pod"));
    let help = ibid().args(["volume", "move", "vm1"]).output().unwrap();
    assert_eq!(help.status.code(), Some(2), "a pod or --out is needed");
}

#[test]
fn host_commands() {
    let array = Array::new("hosts");
    array.text("volume create vm1 --size 1G");
    array.text("volume create vm2 --size 1G");
    assert_eq!(
        array.text("host create esx1 --iqn iqn.1998-01.com.vmware:ESX1 --personality esxi"),
        "NAME  VOLUMES  CHAP  IQNS\n\
         esx1        0  -     iqn.1998-01.com.vmware:esx1\n"
    );
    array.text("host create any --iqn *");
    assert_eq!(array.text("host connect esx1 vm2"), "HOST  LUN  VOLUME\nesx1    1  vm2\n");
    assert_eq!(array.json("host connect esx1 vm1 --lun 0")["lun"], 0);
    assert_eq!(
        array.text("host show esx1"),
        "name         esx1\n\
         iqns         iqn.1998-01.com.vmware:esx1\n\
         personality  esxi\n\
         chap         -\n\
         volumes      2\n\
         \n\
         HOST  LUN  VOLUME\n\
         esx1    0  vm1\n\
         esx1    1  vm2\n"
    );
    let secret = array.scratch.0.join("secret");
    platform::files::replace(&secret, b"twelve bytes\n", platform::files::Access::Owner).unwrap();
    let secret = secret.display();
    array.text(&format!("host set esx1 --chap-user esx --chap-secret-file {secret} --add-iqn iqn.2026-11.org.test:b"));
    assert_eq!(
        array.text("host list"),
        "NAME  VOLUMES  CHAP     IQNS\n\
         any         0  -        *\n\
         esx1        2  one-way  iqn.1998-01.com.vmware:esx1,iqn.2026-11.org.test:b\n"
    );
    assert_eq!(array.text("host prefer esx1 ibid"), "esx1 prefers ibid\n");
    assert!(array.text("host show esx1").contains("\npreferred arrays  ibid\n"));
    assert_eq!(
        array.refused("host prefer esx1 other"),
        "error: other: A preferred array is this array or a connected one.\n\
         hint: run `ibid array connections` to list the connected arrays\n"
    );
    assert_eq!(array.text("host prefer esx1 --none"), "esx1 prefers no array\n");
    let nothing = ibid().args(["host", "prefer", "esx1"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2), "an array or --none is needed");
    assert_eq!(array.text("host disconnect esx1 vm1"), "disconnected vm1 from esx1\n");
    array.text("host rename any all");
    assert_eq!(array.text("host delete all"), "deleted all\n");
}

#[test]
fn array_show_and_announcement() {
    let array = Array::new("array");
    let shown = array.text("array show");
    let endpoints = array.endpoints();
    let facts: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for (name, value) in [("target", &endpoints["iqn"]), ("portals", &endpoints["iscsi"][0])] {
        assert!(facts.contains(&vec![name, value.as_str().unwrap()]), "{shown}");
    }
    assert_eq!(array.json("array show")["array"]["name"], "ibid");
    let announced = &array.served.announced;
    for part in ["array   ibid\n", "target  iqn.2026-11.org.ibid:", "portal  127.0.0.1:", "api     https://127.0.0.1:"]
    {
        assert!(announced.contains(part), "{announced}");
    }
}

#[test]
fn refused_requests_have_hints() {
    let array = Array::new("refusals");
    array.text("volume create vm1 --size 1G");
    array.text("host create any --iqn *");
    array.text("host connect any vm1");
    for (words, error) in [
        (
            "volume destroy vm1",
            "error: vm1: Volume cannot be deleted due to existing connections.\n\
             hint: run `ibid host disconnect HOST VOLUME` first\n",
        ),
        (
            "host delete any",
            "error: any: Host cannot be deleted due to existing connections.\n\
             hint: run `ibid host disconnect HOST VOLUME` for each of its volumes first\n",
        ),
        (
            "volume show vm9",
            "error: vm9: Volume does not exist.\nhint: run `ibid volume list --all` to list the volumes\n",
        ),
        (
            "volume resize vm1 --size 512M",
            "error: vm1: Resize would truncate the volume; pass --truncate (truncate=true) to allow it.\n\
             hint: run `ibid volume resize NAME --size SIZE --truncate` to discard the data\n",
        ),
        (
            "volume create vm1 --size 1G",
            "error: vm1: Volume already exists.\n\
             hint: choose another name; `ibid volume list --all` lists those in use, `ibid volume copy --overwrite` replaces one\n",
        ),
        (
            "volume recover vm1",
            "error: vm1: Volume is not destroyed.\n\
             hint: it is in use; run `ibid volume destroy NAME` before eradicating it\n",
        ),
        (
            "volume copy vm1 vm1 --overwrite",
            "error: vm1: Volume cannot be overwritten with itself.\n\
             hint: choose a snapshot of it, or another volume, as the source\n",
        ),
        (
            "host connect any vm1 --lun 2",
            "error: vm1: Connection already exists.\n\
             hint: run `ibid host show HOST` for its LUN; disconnect the volume first to change it\n",
        ),
        (
            "host set any --chap-user x",
            "error: Invalid CHAP settings: 'host_password' is missing.\n\
             hint: give --chap-secret-file FILE as well\n",
        ),
        (
            "volume list --filter nmae='x'",
            "error: Invalid filter: no field 'nmae'.\n\
             hint: write a filter such as \"name='vm-*' and provisioned > 1099511627776\"; --json shows the fields\n",
        ),
        (
            "volume create v --size much",
            "error: 'much' is not a size\nhint: write a number with K, M, G, T or P, such as 64G or 1.5TiB\n",
        ),
        (
            "host set any",
            "error: nothing to change\nhint: give at least one setting; `ibid host set --help` lists them\n",
        ),
    ] {
        assert_eq!(array.refused(words), error, "{words}");
    }
}

#[test]
fn token_and_certificate_checks() {
    let array = Array::new("tokens");
    let first = array.text("token");
    let url = array.endpoints()["url"].as_str().unwrap().to_owned();
    let remote = |token: &str, extra: &[&str]| {
        let mut command = ibid();
        command.args(["volume", "list", "--json"]).args(extra).env("IBID_URL", &url).env("IBID_TOKEN", token.trim());
        command.output().unwrap()
    };
    assert!(remote(&first, &["--insecure"]).status.success());
    let certificate = array.scratch.0.join("certificate.pem");
    assert!(remote(&first, &["--ca", certificate.to_str().unwrap()]).status.success());
    let untrusting = String::from_utf8(remote(&first, &[]).stderr).unwrap();
    assert!(untrusting.starts_with("error: no trusted certificate given\nhint: "), "{untrusting}");
    let distrusting = String::from_utf8(remote(&first, &["--fingerprint", &"0".repeat(64)]).stderr).unwrap();
    assert!(
        distrusting.contains("the server's certificate is not the trusted one\nhint: compare the fingerprint "),
        "{distrusting}"
    );

    let second = array.text("token --new");
    assert_ne!(first, second);
    assert_eq!(array.text("token"), second, "the file has the new token");
    assert!(remote(&second, &["--insecure"]).status.success());
    let refused = String::from_utf8(remote(&first, &["--insecure"]).stderr).unwrap();
    assert!(refused.starts_with("error: API token not accepted by the array\nhint: "), "{refused}");
}

#[test]
fn missing_array_has_a_hint() {
    let output = ibid().args(["volume", "list"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: no array given\nhint: give --data DIR"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn help_has_examples() {
    for words in [&["--help"][..], &["serve", "--help"], &["volume", "create", "--help"], &["host", "create", "--help"]]
    {
        let output = ibid().args(words).output().unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains("Example"), "{words:?}");
    }
}

#[test]
fn pods_on_two_arrays_need_confirmation() {
    let array = Array::new("stretched");
    array.text("pod create dc1");
    assert_eq!(array.text("pod why dc1"), "Pod dc1 is on this array alone; it waits for nothing.\n");
    assert!(array.text("pod list --replication").starts_with("NAME  VOLUMES  SIZE  STATE  ARRAYS  TIE RULE"));
    assert_eq!(array.json("pod list --replication").as_array().unwrap().len(), 0);
    let refused = array.refused("pod stretch dc1 beta --mediator 192.0.2.9");
    assert!(refused.contains("Pod dc1 cannot be stretched to beta"), "{refused}");
    for (command, question) in
        [("unstretch dc1 beta", "Remove pod dc1 from beta?"), ("discard dc1", "Discard the content of pod dc1")]
    {
        let refused = array.refused(&format!("pod {command}"));
        assert!(refused.contains(question) && refused.contains("hint: add --yes to confirm it"), "{refused}");
    }
    let confirmed = array.refused("pod unstretch dc1 beta --yes");
    assert!(confirmed.contains("Pod dc1 is not on array beta."), "{confirmed}");
    for command in ["promote dc1", "promote dc1 --force --yes", "resign dc1", "discard dc1 --yes"] {
        let alone = array.refused(&format!("pod {command}"));
        let expected = "the pod is on this array alone.\nhint: run `ibid pod stretch POD ARRAY`";
        assert!(alone.contains(expected), "{command}: {alone}");
    }
    assert!(array.refused("pod prefer dc1 beta").contains("need a second array"));
    assert!(array.refused("pod mediator dc1 192.0.2.9").contains("needs a second array"));
    assert_eq!(array.text("pod mediator dc1 none"), "", "nothing changes");
    assert!(array.refused("pod why dc9").contains("Pod does not exist."));
}
