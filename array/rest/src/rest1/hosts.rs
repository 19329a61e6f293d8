//! `host` and `hgroup` of REST 1.x.

use super::{Request1, joined, performance, space};
use crate::error::RestError;
use api::ErrorCode;
use serde_json::{Value, json};

fn show(item: &Value) -> Value {
    json!({"name": item["name"], "iqn": item["iqns"], "wwn": [], "nqn": [], "hgroup": item["host_group"]["name"]})
}

impl Request1<'_> {
    pub(super) fn host(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match (method, path) {
            ("GET", []) => {
                let names = joined(&self.args.list("names")?.unwrap_or_default());
                self.list_hosts(&names).map(Value::Array)
            }
            ("GET", [name]) => {
                let listed = self.list_hosts(name)?;
                let is_one = listed.len() == 1 && listed[0].get("time").is_none() && listed[0].get("lun").is_none();
                Ok(if is_one { listed.into_iter().next().unwrap_or_default() } else { Value::Array(listed) })
            }
            ("GET", [name, "volume"]) => self.volumes_of_host(name),
            ("POST", [name]) => self.put_host("POST", name),
            ("PUT", [name]) => self.put_host("PATCH", name),
            ("DELETE", [name]) => {
                self.args.finish()?;
                self.items("DELETE", "/hosts", &[("names", name)], &Value::Null)?;
                Ok(json!({"name": name}))
            }
            ("POST" | "DELETE", [name, "volume", volume]) => self.connect(method, ("host_names", name), volume),
            _ => Err(RestError::NotFound),
        }
    }

    fn list_hosts(&mut self, names: &str) -> Result<Vec<Value>, RestError> {
        let query: Vec<(&str, &str)> = if names.is_empty() { Vec::new() } else { vec![("names", names)] };
        if self.action("monitor")? {
            return Ok(self.get("/hosts/performance", &query)?.iter().map(performance).collect());
        }
        let is_all = self.args.flag("all")?;
        let is_space = self.args.flag("space")?;
        let is_chap = self.args.flag("chap")?;
        let is_personality = self.args.flag("personality")?;
        if is_space {
            return Ok(self.get("/hosts/space", &query)?.iter().map(space).collect());
        }
        let items = self.get("/hosts", &query)?;
        if is_all {
            return self.hosts_with_volumes(&items);
        }
        let shown = |item: &Value| match (is_chap, is_personality) {
            (true, _) => {
                let mut shown = item["chap"].clone();
                shown["name"] = item["name"].clone();
                shown
            }
            (false, true) => json!({"name": item["name"], "personality": item["personality"]}),
            (false, false) => show(item),
        };
        Ok(items.iter().map(shown).collect())
    }

    /// Lists hosts with a line for each of their volumes, at least one.
    fn hosts_with_volumes(&self, items: &[Value]) -> Result<Vec<Value>, RestError> {
        let connections = self.get("/connections", &[])?;
        let mut rows = Vec::new();
        for item in items {
            let row = |volume: &Value, lun: &Value| {
                let mut shown = show(item);
                (shown["vol"], shown["lun"]) = (volume.clone(), lun.clone());
                shown
            };
            let before = rows.len();
            let own = connections.iter().filter(|connection| connection["host"]["name"] == item["name"]);
            rows.extend(own.map(|connection| row(&connection["volume"]["name"], &connection["lun"])));
            if rows.len() == before {
                rows.push(row(&Value::Null, &Value::Null));
            }
        }
        Ok(rows)
    }

    fn volumes_of_host(&mut self, name: &str) -> Result<Value, RestError> {
        let (is_private, is_shared) = (self.args.flag("private")?, self.args.flag("shared")?);
        let items = self.get("/connections", &[("host_names", name)])?;
        let is_wanted = |item: &&Value| match item["host_group"]["name"].is_null() {
            true => !is_shared || is_private,
            false => !is_private || is_shared,
        };
        let show = |item: &Value| json!({"name": name, "vol": item["volume"]["name"], "lun": item["lun"], "hgroup": item["host_group"]["name"]});
        Ok(Value::Array(items.iter().filter(is_wanted).map(show).collect()))
    }

    /// Creates or changes a host.
    fn put_host(&mut self, method: &str, name: &str) -> Result<Value, RestError> {
        let mut body = json!({});
        for (argument, field) in [("iqnlist", "iqns"), ("addiqnlist", "add_iqns"), ("remiqnlist", "remove_iqns")] {
            if let Some(list) = self.args.list(argument)? {
                body[field] = json!(list);
            }
        }
        for argument in ["wwnlist", "addwwnlist", "remwwnlist", "nqnlist", "addnqnlist", "remnqnlist"] {
            if self.args.list(argument)?.is_some_and(|list| !list.is_empty()) {
                let message = format!("'{argument}': the array has iSCSI ports only; use an IQN.");
                return Err(RestError::about(ErrorCode::Unsupported, name, message));
            }
        }
        for field in ["host_user", "host_password", "target_user", "target_password"] {
            if let Some(text) = self.args.text(field)? {
                body["chap"][field] = json!(text);
            }
        }
        for field in ["name", "personality"] {
            if let Some(text) = self.args.text(field)? {
                body[field] = json!(text);
            }
        }
        self.args.finish()?;
        Ok(show(&self.one(method, "/hosts", &[("names", name)], &body)?))
    }

    /// Connects or disconnects a volume of a host or of a host group.
    fn connect(&mut self, method: &str, initiator: (&str, &str), volume: &str) -> Result<Value, RestError> {
        let body = match self.args.number("lun")? {
            Some(lun) => json!({"lun": lun}),
            None => Value::Null,
        };
        self.args.finish()?;
        let made = self.one(method, "/connections", &[initiator, ("volume_names", volume)], &body)?;
        let mut shown = json!({"name": initiator.1, "vol": volume});
        if method == "POST" {
            shown["lun"] = made["lun"].clone();
        }
        Ok(shown)
    }

    pub(super) fn host_group(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match (method, path) {
            ("GET", []) => {
                let names = self.args.list("names")?;
                let names = joined(&names.unwrap_or_default());
                let query: Vec<(&str, &str)> = if names.is_empty() { Vec::new() } else { vec![("names", &names)] };
                if self.args.flag("space")? {
                    return Ok(Value::Array(self.get("/host-groups/space", &query)?.iter().map(space).collect()));
                }
                let groups = self.get("/host-groups", &query)?;
                groups.iter().map(|group| self.show_group(&group["name"])).collect()
            }
            ("GET", [name]) => {
                let group = self.one("GET", "/host-groups", &[("names", name)], &Value::Null)?;
                self.show_group(&group["name"])
            }
            ("GET", [name, "volume"]) => {
                let items = self.get("/connections", &[("host_group_names", name)])?;
                let mut rows: Vec<Value> = Vec::new();
                for item in items {
                    let row = json!({"name": name, "vol": item["volume"]["name"], "lun": item["lun"]});
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
                Ok(Value::Array(rows))
            }
            ("POST", [name]) => self.create_group(name),
            ("PUT", [name]) => self.change_group(name),
            ("DELETE", [name]) => {
                self.args.finish()?;
                self.items("DELETE", "/host-groups", &[("names", name)], &Value::Null)?;
                Ok(json!({"name": name}))
            }
            ("POST" | "DELETE", [name, "volume", volume]) => self.connect(method, ("host_group_names", name), volume),
            _ => Err(RestError::NotFound),
        }
    }

    fn show_group(&self, name: &Value) -> Result<Value, RestError> {
        let members = self.get("/host-groups/hosts", &[("group_names", name.as_str().unwrap_or_default())])?;
        let hosts: Vec<&Value> = members.iter().map(|member| &member["member"]["name"]).collect();
        Ok(json!({"name": name, "hosts": hosts}))
    }

    fn create_group(&mut self, name: &str) -> Result<Value, RestError> {
        let hosts = joined(&self.args.list("hostlist")?.unwrap_or_default());
        self.args.finish()?;
        self.items("POST", "/host-groups", &[("names", name)], &Value::Null)?;
        if let Err(error) = self.members("POST", "/host-groups/hosts", name, &hosts) {
            self.items("DELETE", "/host-groups", &[("names", name)], &Value::Null)?;
            return Err(error);
        }
        self.show_group(&json!(name))
    }

    fn change_group(&mut self, name: &str) -> Result<Value, RestError> {
        let added = joined(&self.args.list("addhostlist")?.unwrap_or_default());
        let removed = joined(&self.args.list("remhostlist")?.unwrap_or_default());
        let new = self.args.text("name")?;
        self.args.finish()?;
        self.members("POST", "/host-groups/hosts", name, &added)?;
        self.members("DELETE", "/host-groups/hosts", name, &removed)?;
        if let Some(new) = &new {
            self.items("PATCH", "/host-groups", &[("names", name)], &json!({"name": new}))?;
        }
        self.show_group(&json!(new.as_deref().unwrap_or(name)))
    }

    /// Adds or removes members of a group, if there are any.
    pub(super) fn members(&self, method: &str, path: &str, group: &str, names: &str) -> Result<(), RestError> {
        if names.is_empty() {
            return Ok(());
        }
        self.items(method, path, &[("group_names", group), ("member_names", names)], &Value::Null).map(|_| ())
    }
}
