//! Calls about snapshot policies.

use super::Client;
use crate::ClientError;
use api::{
    Policy, PolicyMember, PolicyMemberEntry, PolicyMemberPost, PolicyPatch, PolicyRuleSnapshot,
    PolicyRuleSnapshotEntry, PolicyRuleSnapshotPost, TypedReference,
};
use ureq::http::Method;

/// Path of the calls.
const PATH: &str = "policies/snapshot";

impl Client {
    /// Lists snapshot policies; all of them if `names` is empty.
    pub fn policies(&self, names: &[String]) -> Result<Vec<Policy>, ClientError> {
        let names = names.join(",");
        let parameters = [("names", names.as_str())];
        self.list(PATH, if names.is_empty() { &[] } else { &parameters })
    }

    /// Creates a snapshot policy without rules and members.
    pub fn create_policy(&self, name: &str) -> Result<Policy, ClientError> {
        self.one(Method::POST, PATH, &[("names", name)], Some(&PolicyPatch::default()))
    }

    /// Makes the same change to several snapshot policies: to all of them, or on error to none.
    pub fn change_policies(&self, names: &[String], patch: &PolicyPatch) -> Result<Vec<Policy>, ClientError> {
        self.all(Method::PATCH, PATH, &[("names", &names.join(","))], Some(patch))
    }

    /// Deletes snapshot policies: all of them, or on error none.
    pub fn delete_policies(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, PATH, &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Lists the rules of all snapshot policies.
    pub fn policy_rules(&self) -> Result<Vec<PolicyRuleSnapshot>, ClientError> {
        self.list("policies/snapshot/rules", &[])
    }

    /// Adds a rule to a snapshot policy.
    pub fn add_policy_rule(
        &self,
        policy: &str,
        rule: PolicyRuleSnapshotEntry,
    ) -> Result<PolicyRuleSnapshot, ClientError> {
        let post = PolicyRuleSnapshotPost { rules: vec![rule] };
        self.one(Method::POST, "policies/snapshot/rules", &[("policy_names", policy)], Some(&post))
    }

    /// Removes rules: all of them, or on error none.
    pub fn remove_policy_rules(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "policies/snapshot/rules", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Lists the members of all snapshot policies.
    pub fn policy_members(&self) -> Result<Vec<PolicyMember>, ClientError> {
        self.list("policies/snapshot/members", &[])
    }

    /// Applies a snapshot policy to objects of a type, such as `volumes`.
    pub fn add_policy_members(
        &self,
        policy: &str,
        kind: &str,
        names: &[String],
    ) -> Result<Vec<PolicyMember>, ClientError> {
        let entry = |name: &String| PolicyMemberEntry {
            member: TypedReference { id: None, name: Some(name.clone()), resource_type: Some(kind.to_owned()) },
        };
        let post = PolicyMemberPost { members: names.iter().map(entry).collect() };
        self.all(Method::POST, "policies/snapshot/members", &[("policy_names", policy)], Some(&post))
    }

    /// Ends the application of a snapshot policy to objects of a type.
    pub fn remove_policy_members(&self, policy: &str, kind: &str, names: &[String]) -> Result<(), ClientError> {
        let names = names.join(",");
        let parameters = [("policy_names", policy), ("member_names", names.as_str()), ("member_types", kind)];
        self.call(Method::DELETE, "policies/snapshot/members", &parameters, None::<&()>).map(|_| ())
    }
}
