//! `volume` of REST 1.x: volumes and their snapshots.

use super::{Request1, joined, performance, space, time, with_time_remaining};
use crate::error::RestError;
use catalog::{MAX_BANDWIDTH_LIMIT, MAX_IOPS_LIMIT};
use serde_json::{Value, json};

fn show(item: &Value) -> Value {
    json!({"name": item["name"], "size": item["provisioned"], "serial": item["serial"], "source": item["source"]["name"],
        "created": time(&item["created"])})
}

/// Whether a name is that of a snapshot.
fn is_snapshot(name: &str) -> bool {
    name.contains('.')
}

impl Request1<'_> {
    pub(super) fn volume(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match (method, path) {
            ("GET", []) => {
                let names = self.args.list("names")?.unwrap_or_default();
                self.list_volumes(&names).map(Value::Array)
            }
            ("GET", [name]) => {
                let is_list = self.args.flag("snap")?;
                self.show_volume(name, is_list)
            }
            ("GET", [name, side @ ("host" | "hgroup")]) => self.connections_of_volume(name, *side == "hgroup"),
            ("POST", []) => self.create_snapshots(),
            ("POST", [name]) => self.create_volume(name),
            ("PUT", [name]) => self.change_volume(name),
            ("DELETE", [name]) => self.destroy_volume(name),
            ("POST" | "DELETE", [name, "pgroup", group]) => {
                self.args.finish()?;
                self.items(
                    method,
                    "/protection-groups/volumes",
                    &[("group_names", group), ("member_names", name)],
                    &Value::Null,
                )?;
                Ok(json!({"name": name, "protection_group": group}))
            }
            _ => Err(RestError::NotFound),
        }
    }

    /// Takes the arguments that select destroyed objects. Returns the parameter `destroyed`.
    pub(super) fn destroyed(&mut self) -> Result<(bool, Option<&'static str>), RestError> {
        let is_pending = self.args.flag("pending")?;
        let is_only = self.args.flag("pending_only")?;
        let destroyed = match (is_pending, is_only) {
            (_, true) => Some("true"),
            (true, false) => None,
            (false, false) => Some("false"),
        };
        Ok((is_pending || is_only, destroyed))
    }

    fn list_volumes(&mut self, names: &[String]) -> Result<Vec<Value>, RestError> {
        let (is_pending, destroyed) = self.destroyed()?;
        let names = joined(names);
        let is_snap = self.args.flag("snap")?;
        let name = if is_snap && !names.contains('.') { "source_names" } else { "names" };
        let mut query: Vec<(&str, &str)> = destroyed.map(|value| ("destroyed", value)).into_iter().collect();
        if !names.is_empty() {
            query.push((name, &names));
        }
        if self.action("monitor")? {
            query.retain(|(name, _)| *name == "names");
            return Ok(self.get("/volumes/performance", &query)?.iter().map(performance).collect());
        }
        if self.args.flag("connect")? {
            let query: &[(&str, &str)] = if names.is_empty() { &[] } else { &[("volume_names", &names)] };
            let show = |item: &Value| json!({"name": item["volume"]["name"], "host": item["host"]["name"], "hgroup": item["host_group"]["name"], "lun": item["lun"]});
            return Ok(self.get("/connections", query)?.iter().map(show).collect());
        }
        if self.args.flag("protect")? {
            let query: &[(&str, &str)] = if names.is_empty() { &[] } else { &[("member_names", &names)] };
            let show =
                |item: &Value| json!({"name": item["member"]["name"], "protection_group": item["group"]["name"]});
            return Ok(self.get("/protection-groups/volumes", query)?.iter().map(show).collect());
        }
        let is_space = self.args.flag("space")?;
        let is_qos = self.args.flag("qos")?;
        let items = self.get(if is_snap { "/volume-snapshots" } else { "/volumes" }, &query)?;
        let shown = |item: &Value| {
            let shown = match (is_space, is_qos) {
                (true, _) => space(item),
                (false, true) => {
                    let qos = &item["qos"];
                    json!({"name": item["name"], "bandwidth_limit": qos["bandwidth_limit"], "iops_limit": qos["iops_limit"]})
                }
                (false, false) => show(item),
            };
            if is_pending { with_time_remaining(shown, item) } else { shown }
        };
        Ok(items.iter().map(shown).collect())
    }

    /// Answers with one volume or snapshot, or with the list of the snapshots of a volume.
    fn show_volume(&mut self, name: &str, is_list: bool) -> Result<Value, RestError> {
        if !is_list && !is_snapshot(name) {
            let listed = self.list_volumes(&[name.to_owned()])?;
            // Performance and connections are lists, also of one volume.
            let is_one = listed.len() == 1 && listed[0].get("time").is_none() && listed[0].get("lun").is_none();
            return Ok(if is_one { listed.into_iter().next().unwrap_or_default() } else { Value::Array(listed) });
        }
        let (is_pending, destroyed) = self.destroyed()?;
        let by = if is_snapshot(name) { "names" } else { "source_names" };
        let mut query = vec![(by, name)];
        query.extend(destroyed.map(|value| ("destroyed", value)));
        let is_space = self.args.flag("space")?;
        let shown = |item: &Value| {
            let shown = if is_space { space(item) } else { show(item) };
            if is_pending { with_time_remaining(shown, item) } else { shown }
        };
        let items: Vec<Value> = self.get("/volume-snapshots", &query)?.iter().map(shown).collect();
        Ok(if is_list { Value::Array(items) } else { items.into_iter().next().unwrap_or_default() })
    }

    /// Lists the connections of a volume: private ones, or those of host groups.
    fn connections_of_volume(&mut self, name: &str, is_shared: bool) -> Result<Value, RestError> {
        let size = self.one("GET", "/volumes", &[("names", name)], &Value::Null)?["provisioned"].clone();
        let items = self.get("/connections", &[("volume_names", name)])?;
        let wanted = items.iter().filter(|item| item["host_group"]["name"].is_null() != is_shared);
        let show = |item: &Value| {
            let (host, group) = (&item["host"]["name"], &item["host_group"]["name"]);
            let mut shown = json!({"name": name, "host": host, "lun": item["lun"], "size": size});
            if is_shared {
                shown["hgroup"] = group.clone();
            }
            shown
        };
        Ok(Value::Array(wanted.map(show).collect()))
    }

    fn create_volume(&mut self, name: &str) -> Result<Value, RestError> {
        let source = self.args.text("source")?;
        let overwrite = if self.args.flag("overwrite")? { "true" } else { "false" };
        let body = match (source, self.args.size("size")?) {
            (Some(source), size) => json!({"source": {"name": source}, "provisioned": size}),
            (None, size) => json!({"provisioned": size}),
        };
        self.args.finish()?;
        let made = self.one("POST", "/volumes", &[("names", name), ("overwrite", overwrite)], &body)?;
        Ok(show(&made))
    }

    /// `POST volume` takes snapshots of volumes at one instant.
    fn create_snapshots(&mut self) -> Result<Value, RestError> {
        if !self.args.flag("snap")? {
            return Err(RestError::NotFound);
        }
        let sources = joined(&self.args.list("source")?.unwrap_or_default());
        let suffix = self.args.text("suffix")?;
        self.args.finish()?;
        let made =
            self.items("POST", "/volume-snapshots", &[("source_names", &sources)], &json!({"suffix": suffix}))?;
        Ok(Value::Array(made.iter().map(show).collect()))
    }

    fn change_volume(&mut self, name: &str) -> Result<Value, RestError> {
        let truncate = if self.args.flag("truncate")? { "true" } else { "false" };
        let mut body = json!({});
        if self.action("recover")? {
            body["destroyed"] = json!(false);
        }
        if let Some(new) = self.args.text("name")? {
            body["name"] = json!(new);
        }
        if let Some(size) = self.args.size("size")? {
            body["provisioned"] = json!(size);
        }
        // An empty limit is none.
        for (limit, none) in [("bandwidth_limit", MAX_BANDWIDTH_LIMIT), ("iops_limit", MAX_IOPS_LIMIT)] {
            match self.args.take(limit) {
                None => {}
                Some(Value::String(text)) if text.is_empty() => body["qos"][limit] = json!(none),
                Some(value) => {
                    self.args.put(limit, value);
                    body["qos"][limit] = json!(self.args.size(limit)?);
                }
            }
        }
        self.args.finish()?;
        let changed = match is_snapshot(name) {
            true => self.one("PATCH", "/volume-snapshots", &[("names", name)], &body)?,
            false => self.one("PATCH", "/volumes", &[("names", name), ("truncate", truncate)], &body)?,
        };
        Ok(show(&changed))
    }

    fn destroy_volume(&mut self, name: &str) -> Result<Value, RestError> {
        let path = if is_snapshot(name) { "/volume-snapshots" } else { "/volumes" };
        self.destroy(path, name)
    }

    /// Destroys an object, or eradicates it if the arguments say so.
    pub(super) fn destroy(&mut self, path: &str, name: &str) -> Result<Value, RestError> {
        let is_final = self.args.flag("eradicate")?;
        self.args.finish()?;
        match is_final {
            true => self.items("DELETE", path, &[("names", name)], &Value::Null)?,
            false => self.items("PATCH", path, &[("names", name)], &json!({"destroyed": true}))?,
        };
        Ok(json!({"name": name}))
    }
}
