use super::*;
use proptest::prelude::*;

#[test]
fn thin_descriptor_matches_esxi() {
    let uuid = [0, 0, 0, 0x0b, 0x17, 0x9e, 0xe0, 0xaa, 0x3c, 0x91, 0x0d, 0x6b, 0x5e, 0x12, 0x88, 0xf1];
    let text = Descriptor::new("web01", 10 << 30, true, uuid).to_string();
    let golden = r#"# Disk DescriptorFile
version=1
encoding="UTF-8"
CID=fffffffe
parentCID=ffffffff
isNativeSnapshot="no"
createType="vmfs"

# Extent description
RW 20971520 VMFS "web01-flat.vmdk"

# The Disk Data Base 
#DDB

ddb.adapterType = "lsilogic"
ddb.geometry.cylinders = "1305"
ddb.geometry.heads = "255"
ddb.geometry.sectors = "63"
ddb.longContentID = "179ee0aa3c910d6b5e1288f1fffffffe"
ddb.thinProvisioned = "1"
ddb.uuid = "60 00 c2 9b 17 9e e0 aa-3c 91 0d 6b 5e 12 88 f1"
ddb.virtualHWVersion = "13"
"#;
    assert_eq!(text, golden);
}

#[test]
fn disk_geometry_follows_the_size() {
    let heads = |bytes: u64| DiskGeometry::of(bytes / SECTOR_BYTES).heads;
    assert_eq!([heads(1 << 20), heads(1 << 30), heads((2 << 30) - 512), heads(2 << 30)], [64, 128, 128, 255]);
    // A guest's partition table never exceeds the end of the disk.
    let geometry = DiskGeometry::of(20_971_521);
    assert!(geometry.cylinders * geometry.heads * geometry.sectors <= 20_971_521);
}

#[test]
fn other_disk_types_are_recognised() {
    let kind = |create_type: &str| {
        let text = Descriptor::new("d", 1 << 20, false, [0; 16]).to_string().replace("\"vmfs\"", create_type);
        Descriptor::parse(&text).map(|d| d.create_type)
    };
    assert_eq!(kind("\"vmfs\""), Ok(CreateType::Vmfs));
    assert_eq!(kind("\"vmfsRawDeviceMap\""), Ok(CreateType::RawDeviceMap));
    assert_eq!(kind("\"seSparse\""), Ok(CreateType::Snapshot));
    assert_eq!(kind("\"monolithicFlat\""), Ok(CreateType::HostedFlat));
    assert_eq!(kind("\"twoGbMaxExtentSparse\""), Ok(CreateType::SplitSparse));
    assert_eq!(kind("\"monolithicSparse\""), Ok(CreateType::MonolithicSparse));
    assert_eq!(kind("\"streamOptimized\""), Ok(CreateType::Hosted));
}

#[test]
fn invalid_descriptors_are_refused() {
    let good = Descriptor::new("d", 1 << 20, false, [0; 16]).to_string();
    let refused = |text: &str| Descriptor::parse(text).unwrap_err();
    assert_eq!(refused(""), DescriptorError::NotADescriptor);
    assert_eq!(refused(&good.replace("CID=fffffffe", "CID=x")), DescriptorError::Field("CID"));
    assert_eq!(refused(&good.replace("RW 2048", "RW many")), DescriptorError::Field("extent"));
    // The flat file must be in the same directory: a descriptor cannot refer to other files.
    assert_eq!(refused(&good.replace("d-flat", "../secret/d-flat")), DescriptorError::Field("extent"));
    assert_eq!(refused(&good.replace("RW 2048", "RW 99999999999999999")), DescriptorError::Field("extent"));
    let twice = good.replace("# The Disk", "RW 2048 VMFS \"e-flat.vmdk\"\n# The Disk");
    assert_eq!(refused(&twice), DescriptorError::Extents);
}

proptest! {
    #[test]
    fn descriptors_round_trip(
        name in "[a-zA-Z0-9 _.-]{1,40}",
        megabytes in 0u64..64 << 20,
        thin: bool,
        uuid: [u8; 16],
        cid: u32,
    ) {
        let descriptor = Descriptor { cid, ..Descriptor::new(&name, megabytes << 20, thin, uuid) };
        prop_assert_eq!(Descriptor::parse(&descriptor.to_string()), Ok(descriptor));
    }

    #[test]
    fn arbitrary_descriptor_text_does_not_panic(text in "\\PC*") {
        let _ = Descriptor::parse(&format!("# Disk DescriptorFile\n{text}"));
    }
}

#[test]
fn extent_type_follows_the_kind_of_disk() {
    for (kind, line) in [
        (CreateType::Vmfs, "RW 2048 VMFS \"a-flat.vmdk\""),
        (CreateType::HostedFlat, "RW 2048 FLAT \"a-flat.vmdk\""),
        (CreateType::RawDeviceMap, "RW 2048 VMFSRDM \"a-rdm.vmdk\""),
        (CreateType::MonolithicSparse, "RW 2048 SPARSE \"a.vmdk\""),
        (CreateType::SplitSparse, "RW 2048 SPARSE \"a-s001.vmdk\""),
    ] {
        let descriptor = Descriptor::of_kind(kind, "a", 1 << 20, [1; 16]);
        assert!(descriptor.to_string().contains(&format!("\n{line}\n")), "{descriptor}");
        assert_eq!(Descriptor::parse(&descriptor.to_string()).unwrap(), descriptor);
    }
}

#[test]
fn split_disk_has_a_file_for_each_2047_mib() {
    let mut descriptor = Descriptor::of_kind(CreateType::SplitSparse, "a", (4 << 30) + 512, [1; 16]);
    let text = descriptor.to_string();
    let lines =
        "\nRW 4192256 SPARSE \"a-s001.vmdk\"\nRW 4192256 SPARSE \"a-s002.vmdk\"\nRW 4097 SPARSE \"a-s003.vmdk\"\n\n";
    assert!(text.contains(lines), "{text}");
    assert!(!text.contains("thinProvisioned"));
    assert_eq!(Descriptor::parse(&text), Ok(descriptor.clone()));
    descriptor.rename("b");
    assert_eq!(descriptor.extents[2].file, "b-s003.vmdk");
}
