//! Delivery of alerts: limits, and secrets that are stored sealed.

use super::*;
use crate::{
    AlertWatcher, DeliverySettings, MAX_DESTINATIONS, MailEncryption, ObjectKind, Secret, Severity, SnmpManager,
    WebHook,
};

fn watcher(name: &str) -> AlertWatcher {
    AlertWatcher { name: name.to_owned(), enabled: true, minimum: Severity::Info }
}

fn edit(catalog: &Catalog, edit: impl FnOnce(&mut DeliverySettings)) -> Result<(), CatalogError> {
    catalog.change(|draft| {
        draft.edit_delivery(|settings| {
            edit(settings);
            Ok(())
        })
    })
}

fn with_secrets(settings: &mut DeliverySettings) {
    settings.mail.encryption = Some(MailEncryption::Tls);
    settings.mail.user_name = Some("array".to_owned());
    settings.mail.password = Some(Secret::new("password of the mail server"));
    let (host, community) = ("nms".to_owned(), Secret::new("community of a manager"));
    settings.snmp_managers.push(SnmpManager { name: "nms".to_owned(), host, port: 162, community });
    settings.web_hooks.push(WebHook {
        name: "chat".to_owned(),
        url: "https://chat.example.org/hook".to_owned(),
        secret: Secret::new("secret of a web hook"),
        enabled: true,
        minimum: Severity::Warning,
        ca_certificate: None,
    });
}

#[test]
fn delivery_secrets_are_sealed_when_stored() {
    let (service, catalog) = new();
    edit(&catalog, with_secrets).unwrap();
    let stored = String::from_utf8(service.get(b"delivery").unwrap()).unwrap();
    for secret in ["password of", "community of", "secret of"] {
        assert!(!stored.contains(secret), "{stored}");
    }
    let again = open(&service).unwrap();
    assert_eq!(again.state().delivery(), catalog.state().delivery());
    assert!(!again.state().delivery().is_locked());

    let other_key = Catalog::open(service.clone(), &array_init()).unwrap();
    let unlocked = other_key.unlock(SecretKeys::new(&[[9; 32]])).unwrap();
    assert!(unlocked.is_delivery_locked && other_key.state().delivery().is_locked());
    // A new key in front of the old one seals all secrets again.
    let both = Catalog::open(service.clone(), &array_init()).unwrap();
    both.unlock(SecretKeys::new(&[[9; 32], [7; 32]])).unwrap();
    let new_key = Catalog::open(service, &array_init()).unwrap();
    assert!(!new_key.unlock(SecretKeys::new(&[[9; 32]])).unwrap().is_delivery_locked);
}

#[test]
fn delivery_secrets_without_a_key_are_refused() {
    let service: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let catalog = Catalog::open(service, &array_init()).unwrap();
    assert!(matches!(edit(&catalog, with_secrets), Err(CatalogError::NoSecretKey { .. })));
    edit(&catalog, |settings| settings.watchers.push(watcher("ops@example.org"))).unwrap();
}

#[test]
fn destinations_are_unique_and_limited() {
    let (_, catalog) = new();
    edit(&catalog, |settings| settings.watchers.push(watcher("ops@example.org"))).unwrap();
    let twice = edit(&catalog, |settings| settings.watchers.push(watcher("OPS@example.org")));
    assert!(matches!(twice, Err(CatalogError::AlreadyExists { kind: ObjectKind::AlertWatcher, .. })));
    let many = edit(&catalog, |settings| {
        settings.watchers = (0..=MAX_DESTINATIONS).map(|n| watcher(&format!("{n}@example.org"))).collect();
    });
    assert_eq!(many, Err(CatalogError::LimitReached { what: "Alert watcher", limit: MAX_DESTINATIONS }));
    for wrong in ["", "line\nbreak@example.org", &"x".repeat(256)] {
        let refused = edit(&catalog, |settings| settings.watchers.push(watcher(wrong)));
        assert!(matches!(refused, Err(CatalogError::BadSetting { .. })), "{wrong}");
    }
    let open_password = edit(&catalog, |settings| settings.mail.user_name = Some("array".to_owned()));
    assert!(matches!(open_password, Err(CatalogError::BadSetting { .. })));
    assert_eq!(catalog.state().delivery().watchers.len(), 1);
}
