use super::*;
use proptest::prelude::*;

#[test]
fn vmx_matches_esxi() {
    let vmx = Vmx { disks: vec!["web01.vmdk".into()], ..Vmx::new("web01") };
    let golden = r#".encoding = "UTF-8"
config.version = "8"
virtualHW.version = "11"
displayName = "web01"
guestOS = "windows8srv-64"
memSize = "8192"
numvcpus = "4"
scsi0.present = "TRUE"
scsi0.virtualDev = "pvscsi"
scsi0:0.present = "TRUE"
scsi0:0.fileName = "web01.vmdk"
scsi0:0.deviceType = "scsi-hardDisk"
"#;
    assert_eq!(vmx.to_string(), golden);
}

#[test]
fn vmx_keys_match_in_any_case_and_order() {
    let text = "DISPLAYNAME=\"a\"\nmemsize = \"64\"\nvirtualhw.version=\"7\"\nconfig.version = \"8\"\n";
    let vmx = Vmx::parse(text).unwrap();
    assert_eq!((vmx.display_name.as_str(), vmx.memory_mib, vmx.hardware_version), ("a", 64, 7));
    assert_eq!(Vmx::parse(&text.replace("64", "lots")), Err(VmxError::Key("memSize")));
    assert_eq!(Vmx::parse("displayName = \"a\""), Err(VmxError::NotAVmx));
}

proptest! {
    #[test]
    fn vmx_round_trips(name in "[^\\x00]{0,40}", disk in "\\PC{1,40}", memory_mib: u32, template: bool) {
        let vmx = Vmx { memory_mib, template, disks: vec![disk], ..Vmx::new(&name) };
        prop_assert_eq!(Vmx::parse(&vmx.to_string()), Ok(vmx));
    }
}
