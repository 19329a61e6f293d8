//! Changes of administrators, and the audit trail.

use super::Draft;
use crate::admin::{Admin, Audit, Role};
use crate::name::check_name;
use crate::{CatalogError, MAX_ADMINS, MAX_AUDIT_ARGUMENTS, MAX_AUDITS, ObjectKind};

/// The administrator that every array has, with all rights. It cannot be deleted.
const BUILT_IN: &str = "admin";

impl Draft {
    /// Stores an administrator and replaces one of the same name.
    pub fn put_admin(&mut self, admin: Admin) -> Result<(), CatalogError> {
        check_name(&admin.name)?;
        if admin.name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(CatalogError::BadSetting { reason: "names of administrators have no capital letters" });
        }
        self.put(&admin)?;
        self.state.put_admin(admin);
        Ok(())
    }

    /// Creates an administrator without a token.
    pub fn create_admin(&mut self, name: &str, role: Role) -> Result<(), CatalogError> {
        if self.state.admin(name).is_some() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Admin, name: name.to_owned() });
        }
        if self.state.admins().count() >= MAX_ADMINS {
            return Err(CatalogError::LimitReached { what: "Admin", limit: MAX_ADMINS });
        }
        self.put_admin(Admin { name: name.to_owned(), role, ..Admin::default() })
    }

    /// Sets the role of an administrator. It applies to open sessions at once.
    pub fn set_role(&mut self, name: &str, role: Role) -> Result<(), CatalogError> {
        let admin = self.changeable_admin(name)?;
        self.put_admin(Admin { role, ..admin })
    }

    /// Deletes an administrator, with the token and all sessions.
    pub fn delete_admin(&mut self, name: &str) -> Result<(), CatalogError> {
        let admin = self.changeable_admin(name)?;
        self.remove(&admin);
        self.state.remove_admin(name);
        Ok(())
    }

    fn changeable_admin(&self, name: &str) -> Result<Admin, CatalogError> {
        let admin = self.state.admin(name);
        let admin = admin.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Admin, name: name.to_owned() })?;
        match admin.name == BUILT_IN {
            true => Err(CatalogError::BadSetting { reason: "the administrator 'admin' keeps its role" }),
            false => Ok(Admin::clone(admin)),
        }
    }

    /// Adds an entry to the audit trail, with the next number, and removes the oldest if there are
    /// too many. Long arguments are shortened.
    pub fn record_audit(&mut self, mut audit: Audit) -> Result<(), CatalogError> {
        audit.id = self.state.audits().last().map_or(1, |last| last.id + 1);
        if audit.arguments.len() > MAX_AUDIT_ARGUMENTS {
            audit.arguments.truncate(audit.arguments.floor_char_boundary(MAX_AUDIT_ARGUMENTS));
            audit.arguments.push('…');
        }
        while self.state.audit_count() >= MAX_AUDITS {
            let Some(oldest) = self.state.audits().next().cloned() else { break };
            self.remove(&*oldest);
            self.state.remove_audit(oldest.id);
        }
        self.put(&audit)?;
        self.state.put_audit(audit);
        Ok(())
    }
}
