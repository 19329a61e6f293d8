//! `pgroup` of REST 1.x.

use super::{Request1, joined, space, time, with_time_remaining};
use crate::error::RestError;
use api::ErrorCode;
use serde_json::{Value, json};

const MEMBERS: &str = "/protection-groups/volumes";

fn show_snapshot(item: &Value) -> Value {
    json!({"name": item["name"], "source": item["source"]["name"], "created": time(&item["created"])})
}

impl Request1<'_> {
    pub(super) fn protection_group(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match (method, path) {
            ("GET", []) => {
                let names = joined(&self.args.list("names")?.unwrap_or_default());
                self.list_groups(&names).map(Value::Array)
            }
            ("GET", [name]) => {
                let is_list = self.args.has("snap");
                let listed = self.list_groups(name)?;
                Ok(if is_list { Value::Array(listed) } else { listed.into_iter().next().unwrap_or_default() })
            }
            ("POST", []) => self.snapshot_groups(),
            ("POST", [name]) => self.create_protection_group(name),
            ("PUT", [name]) => self.change_protection_group(name),
            ("DELETE", [name]) => {
                let path = if name.contains('.') { "/protection-group-snapshots" } else { "/protection-groups" };
                self.destroy(path, name)
            }
            _ => Err(RestError::NotFound),
        }
    }

    fn list_groups(&mut self, names: &str) -> Result<Vec<Value>, RestError> {
        let (is_pending, destroyed) = self.destroyed()?;
        let is_snap = self.args.flag("snap")?;
        let by = if is_snap && !names.contains('.') { "source_names" } else { "names" };
        let mut query: Vec<(&str, &str)> = destroyed.map(|value| ("destroyed", value)).into_iter().collect();
        if !names.is_empty() {
            query.push((by, names));
        }
        let (is_schedule, is_retention) = (self.args.flag("schedule")?, self.args.flag("retention")?);
        let is_space = self.args.flag("space")?;
        let items = self.get(if is_snap { "/protection-group-snapshots" } else { "/protection-groups" }, &query)?;
        let shown = |item: &Value| {
            let shown = match () {
                () if is_space => space(item),
                () if is_snap => show_snapshot(item),
                () if is_schedule => schedule(item),
                () if is_retention => retention(item),
                () => self.show_protection_group(item)?,
            };
            Ok(if is_pending { with_time_remaining(shown, item) } else { shown })
        };
        items.iter().map(shown).collect()
    }

    fn show_protection_group(&self, item: &Value) -> Result<Value, RestError> {
        let name = item["name"].as_str().unwrap_or_default();
        let members = self.get(MEMBERS, &[("group_names", name)])?;
        let volumes: Vec<&Value> = members.iter().map(|member| &member["member"]["name"]).collect();
        let volumes = if volumes.is_empty() { Value::Null } else { json!(volumes) };
        let source = &item["source"]["name"];
        Ok(json!({"name": name, "source": source, "volumes": volumes, "hosts": null, "hgroups": null, "targets": null}))
    }

    /// `POST pgroup` takes snapshots of groups.
    fn snapshot_groups(&mut self) -> Result<Value, RestError> {
        if !self.args.flag("snap")? {
            return Err(RestError::NotFound);
        }
        let sources = joined(&self.args.list("source")?.unwrap_or_default());
        let suffix = self.args.text("suffix")?;
        let retention = if self.args.flag("apply_retention")? { "true" } else { "false" };
        self.args.finish()?;
        let query = [("source_names", sources.as_str()), ("apply_retention", retention)];
        let made = self.items("POST", "/protection-group-snapshots", &query, &json!({"suffix": suffix}))?;
        Ok(Value::Array(made.iter().map(show_snapshot).collect()))
    }

    /// Refuses members and targets that groups of this array cannot have.
    fn refuse_others(&mut self, name: &str) -> Result<(), RestError> {
        for argument in ["hostlist", "hgrouplist", "addhostlist", "addhgrouplist", "targetlist", "addtargetlist"] {
            if self.args.list(argument)?.is_some_and(|list| !list.is_empty()) {
                let message = format!("'{argument}': protection groups have volumes only.");
                return Err(RestError::about(ErrorCode::Unsupported, name, message));
            }
        }
        Ok(())
    }

    fn create_protection_group(&mut self, name: &str) -> Result<Value, RestError> {
        self.refuse_others(name)?;
        let volumes = joined(&self.args.list("vollist")?.unwrap_or_default());
        self.args.finish()?;
        let names = [("names", name)];
        let made = self.one("POST", "/protection-groups", &names, &Value::Null)?;
        if let Err(error) = self.members("POST", MEMBERS, name, &volumes) {
            self.items("PATCH", "/protection-groups", &names, &json!({"destroyed": true}))?;
            self.items("DELETE", "/protection-groups", &names, &Value::Null)?;
            return Err(error);
        }
        self.show_protection_group(&made)
    }

    fn change_protection_group(&mut self, name: &str) -> Result<Value, RestError> {
        self.refuse_others(name)?;
        let added = joined(&self.args.list("addvollist")?.unwrap_or_default());
        let removed = joined(&self.args.list("remvollist")?.unwrap_or_default());
        let mut body = json!({});
        if self.action("recover")? {
            body["destroyed"] = json!(false);
        }
        if let Some(new) = self.args.text("name")? {
            body["name"] = json!(new);
        }
        if self.args.has("snap_enabled") {
            body["snapshot_schedule"]["enabled"] = json!(self.args.flag("snap_enabled")?);
        }
        for (argument, field) in [("snap_frequency", "frequency"), ("snap_at", "at")] {
            if let Some(seconds) = self.args.number(argument)? {
                body["snapshot_schedule"][field] = json!(seconds.saturating_mul(1000));
            }
        }
        for (argument, field) in [("all_for", "all_for_sec"), ("per_day", "per_day"), ("days", "days")] {
            if let Some(number) = self.args.number(argument)? {
                body["source_retention"][field] = json!(number);
            }
        }
        self.args.finish()?;
        if name.contains('.') {
            return Ok(show_snapshot(&self.one("PATCH", "/protection-group-snapshots", &[("names", name)], &body)?));
        }
        self.members("POST", MEMBERS, name, &added)?;
        self.members("DELETE", MEMBERS, name, &removed)?;
        let changed = match body.as_object().is_some_and(serde_json::Map::is_empty) {
            true => self.one("GET", "/protection-groups", &[("names", name)], &Value::Null)?,
            false => self.one("PATCH", "/protection-groups", &[("names", name)], &body)?,
        };
        self.show_protection_group(&changed)
    }
}

/// Returns the schedule of a group; times are in seconds.
fn schedule(item: &Value) -> Value {
    let schedule = &item["snapshot_schedule"];
    let seconds = |millis: &Value| millis.as_u64().map(|millis| millis / 1000);
    json!({"name": item["name"], "snap_enabled": schedule["enabled"], "snap_frequency": seconds(&schedule["frequency"]),
        "snap_at": seconds(&schedule["at"]), "replicate_enabled": false, "replicate_frequency": 0, "replicate_at": null,
        "replicate_blackout": null})
}

fn retention(item: &Value) -> Value {
    let kept = &item["source_retention"];
    json!({"name": item["name"], "all_for": kept["all_for_sec"], "per_day": kept["per_day"], "days": kept["days"],
        "target_all_for": 0, "target_per_day": 0, "target_days": 0})
}
