//! Host groups and tags.

use super::*;
use crate::{LunMap, Tag};

fn luns(catalog: &Catalog, iqn: &str) -> Vec<(u16, String)> {
    let map: Arc<LunMap> = catalog.lun_map(iqn).unwrap();
    map.entries.iter().map(|(lun, entry)| (*lun, entry.name.clone())).collect()
}

/// [`sample_catalog`] with a group `g` of both hosts, connected to `v2`.
fn grouped() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    catalog
        .change(|draft| {
            draft.create_host_group("g", 6_000)?;
            draft.add_to_host_group("G", "h1")?;
            draft.connect_group("g", "v2", None)?;
            draft.add_to_host_group("g", "h2")
        })
        .unwrap();
    (service, catalog)
}

#[test]
fn hosts_of_a_group_see_its_volumes_at_one_lun() {
    let (service, catalog) = grouped();
    // LUN 1 of the first host is in use, so the group gets LUN 2 on all hosts.
    assert_eq!(luns(&catalog, ESX1), [(1, "v1".to_owned()), (2, "v2".to_owned())]);
    assert_eq!(luns(&catalog, ESX2), [(2, "v2".to_owned())]);
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
    catalog.change(|draft| draft.remove_from_host_group("g", "h1")).unwrap();
    assert_eq!(luns(&catalog, ESX1), [(1, "v1".to_owned())]);
    catalog.change(|draft| draft.disconnect_group("g", "v2")).unwrap();
    assert!(luns(&catalog, ESX2).is_empty());
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn conflicting_host_cannot_join_a_group() {
    let (_, catalog) = grouped();
    let change = |edit: &dyn Fn(&mut crate::Draft) -> Result<(), CatalogError>| catalog.change(|draft| edit(draft));
    change(&|draft| {
        draft.create_host("h3", &HostEdit::default(), 7_000)?;
        draft.connect("h3", "v1", Some(2)).map(|_| ())
    })
    .unwrap();
    let before = catalog.state();
    let refused = change(&|draft| draft.add_to_host_group("g", "h3"));
    assert_eq!(refused, Err(CatalogError::LunInUse { host: "h3".into(), lun: 2 }));
    let refused = change(&|draft| draft.add_to_host_group("g", "h1"));
    assert_eq!(refused, Err(CatalogError::AlreadyMember { name: "h1".into(), group: "g".into() }));
    let refused = change(&|draft| draft.connect_group("g", "v1", None).map(|_| ()));
    assert!(matches!(refused, Err(CatalogError::AlreadyExists { .. })), "v1 is connected to h1 alone");
    assert_eq!(catalog.state(), before);
}

#[test]
fn shared_connections_are_removed_with_the_group_only() {
    let (_, catalog) = grouped();
    let refused = catalog.change(|draft| draft.disconnect("h1", "v2").map(|_| ()));
    assert_eq!(refused, Err(CatalogError::SharedConnection { name: "h1".into(), group: "g".into() }));
    assert!(catalog.change(|draft| draft.delete_host_group("g")).is_err());
    assert!(catalog.change(|draft| draft.disconnect("h1", "v1").and(draft.delete_host("h1")).map(|_| ())).is_err());
    let leave = |draft: &mut crate::Draft| {
        draft.remove_from_host_group("g", "h1")?;
        draft.remove_from_host_group("g", "h2")
    };
    catalog.change(leave).unwrap();
    let refused = catalog.change(|draft| draft.destroy_volume("v2", 8_000).map(|_| ()));
    assert!(matches!(refused, Err(CatalogError::Connected { .. })), "the empty group still has the volume");
    assert!(matches!(catalog.change(|draft| draft.delete_host_group("g")), Err(CatalogError::Connected { .. })));
    catalog.change(|draft| draft.disconnect_group("g", "v2").and_then(|()| draft.delete_host_group("g"))).unwrap();
    assert!(catalog.state().host_group("g").is_err());
}

#[test]
fn copyable_tags_follow_copies_of_a_volume() {
    let (service, catalog) = sample_catalog();
    let tag = |key: &str, value: &str, copyable| Tag {
        namespace: "default".into(),
        key: key.into(),
        value: value.into(),
        copyable,
    };
    catalog
        .change(|draft| {
            draft.put_tags("v1", &[tag("b", "1", true), tag("a", "2", false)])?;
            draft.put_tags("v1", &[tag("b", "3", true)])?;
            draft.copy_volume("v1", "copy", false, 9_000)
        })
        .unwrap();
    let tags = |name: &str| catalog.state().volume(name).unwrap().tags.clone();
    assert_eq!(tags("v1"), [tag("a", "2", false), tag("b", "3", true)]);
    assert_eq!(tags("copy"), [tag("b", "3", true)]);
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
    let long = "x".repeat(65);
    for bad in [tag("", "v", true), tag(&long, "v", true), tag("k", &"x".repeat(257), true), tag("k", "\n", true)] {
        assert!(catalog.change(|draft| draft.put_tags("v1", std::slice::from_ref(&bad))).is_err(), "{bad:?}");
    }
    let many: Vec<Tag> = (0..65).map(|n| tag(&n.to_string(), "v", true)).collect();
    assert!(matches!(
        catalog.change(|draft| draft.put_tags("v2", &many)),
        Err(CatalogError::LimitReached { what: "Tag", .. })
    ));
    catalog.change(|draft| draft.remove_tags("v1", |tag| tag.key == "a")).unwrap();
    assert_eq!(tags("v1"), [tag("b", "3", true)]);
}
