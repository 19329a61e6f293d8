//! The OpenAPI document: generated from the table of calls, the types of [`api`] and the parameters
//! that the handlers accept, and compared with `docs/openapi.json`.
//!
//! `IBID_WRITE_OPENAPI=1 cargo test -p ibid-rest openapi` writes the file.

use super::*;
use crate::rest1::calls::{CALLS, DESCRIBED_VERSION, Kind};
use crate::routes::{ROUTES, Route};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, json};

/// The file, from the folder of this crate.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
/// Parameters that are true or false.
const FLAGS: &[&str] = &[
    "allow_errors",
    "allow_throttle",
    "apply_retention",
    "destroy_contents",
    "destroyed",
    "encrypted",
    "ended",
    "eradicate_contents",
    "force",
    "overwrite",
    "refresh",
    "replicate",
    "replicate_now",
    "resource_destroyed",
    "total_item_count",
    "truncate",
    "with_default_protection",
];
/// Parameters that are whole numbers.
const NUMBERS: &[&str] = &["end_time", "limit", "offset", "resolution", "start_time", "timeout"];
/// Parameters that are text with commas, not lists.
const TEXTS: &[&str] = &["continuation_token", "filter", "mediator", "protocol", "suffix"];

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The body of a call.
enum Body {
    None,
    Object(SchemaOf),
    List(SchemaOf),
}

/// The answer of a call.
enum Found {
    /// An empty body.
    Nothing,
    /// A page of these objects.
    Items(SchemaOf),
    /// Any JSON.
    Document,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// An object, or several calls that answer with it: its type, and the types of the bodies of POST
/// and PATCH.
struct Resource {
    path: &'static str,
    item: SchemaOf,
    post: Option<SchemaOf>,
    patch: Option<SchemaOf>,
}

fn resource<T: JsonSchema>(path: &'static str) -> Resource {
    Resource { path, item: schema_of::<T>, post: None, patch: None }
}

impl Resource {
    fn post<T: JsonSchema>(self) -> Self {
        Self { post: Some(schema_of::<T>), ..self }
    }

    fn patch<T: JsonSchema>(self) -> Self {
        Self { patch: Some(schema_of::<T>), ..self }
    }
}

fn resources() -> Vec<Resource> {
    let mut all = own_resources();
    all.extend(resources_of_links());
    all
}

fn resources_of_links() -> [Resource; 4] {
    use api::*;
    [
        resource::<ArrayConnection>("/array-connections").post::<ArrayConnectionPost>().patch::<ArrayConnectionPatch>(),
        resource::<ArrayConnectionKey>("/array-connections/connection-key"),
        resource::<ArrayConnectionPath>("/array-connections/path"),
        resource::<ArrayConnectionTest>("/array-connections/test").post::<ArrayConnectionTestPost>(),
    ]
}

fn own_resources() -> Vec<Resource> {
    use api::*;
    vec![
        resource::<Admin>("/admins").post::<AdminPost>().patch::<AdminPatch>(),
        resource::<AdminApiToken>("/admins/api-tokens"),
        resource::<AdminSettings>("/admins/settings"),
        resource::<AlertWatcher>("/alert-watchers").post::<AlertWatcherPatch>().patch::<AlertWatcherPatch>(),
        resource::<TestResult>("/alert-watchers/test"),
        resource::<AlertWebHook>("/alert-webhooks").post::<AlertWebHookPatch>().patch::<AlertWebHookPatch>(),
        resource::<TestResult>("/alert-webhooks/test"),
        resource::<Alert>("/alerts"),
        resource::<ApiClient>("/api-clients").post::<ApiClientPost>().patch::<ApiClientPatch>(),
        resource::<Array>("/arrays").patch::<ArrayPatch>(),
        resource::<Performance>("/arrays/performance"),
        resource::<Scrub>("/arrays/scrub").post::<ScrubPost>(),
        resource::<ArraySpace>("/arrays/space"),
        resource::<Audit>("/audits"),
        resource::<Connection>("/connections").post::<ConnectionPost>(),
        resource::<ConnectionPerformance>("/connections/performance"),
        resource::<ContainerDefaultProtection>("/container-default-protections"),
        resource::<Controller>("/controllers"),
        resource::<Drive>("/drives"),
        resource::<Hardware>("/hardware"),
        resource::<HostGroup>("/host-groups").post::<HostGroupPatch>().patch::<HostGroupPatch>(),
        resource::<Member>("/host-groups/hosts"),
        resource::<NamedSpace>("/host-groups/space"),
        resource::<Host>("/hosts").post::<HostPost>().patch::<HostPatch>(),
        resource::<Member>("/hosts/host-groups"),
        resource::<Performance>("/hosts/performance"),
        resource::<NamedSpace>("/hosts/space"),
        resource::<IscsiSession>("/iscsi-sessions"),
        resource::<RefusedLogin>("/iscsi-sessions/refused"),
        resource::<NetworkInterface>("/network-interfaces"),
        resource::<OffloadPerformance>("/offloads/performance"),
        resource::<Policy>("/policies"),
        resource::<PolicyMember>("/policies/members"),
        resource::<Policy>("/policies/snapshot").post::<PolicyPatch>().patch::<PolicyPatch>(),
        resource::<PolicyMember>("/policies/snapshot/members").post::<PolicyMemberPost>(),
        resource::<PolicyRuleSnapshot>("/policies/snapshot/rules").post::<PolicyRuleSnapshotPost>(),
        resource::<Port>("/ports"),
        resource::<Performance>("/ports/performance"),
        resource::<ProtectionGroupSnapshot>("/protection-group-snapshots")
            .post::<ProtectionGroupSnapshotPost>()
            .patch::<ProtectionGroupSnapshotPatch>(),
        resource::<ProtectionGroup>("/protection-groups").patch::<ProtectionGroupPatch>(),
        resource::<Member>("/protection-groups/volumes"),
        resource::<Session>("/sessions"),
        resource::<SmtpServer>("/smtp-servers").patch::<SmtpServerPatch>(),
        resource::<SnmpManager>("/snmp-managers").post::<SnmpManagerPatch>().patch::<SnmpManagerPatch>(),
        resource::<TestResult>("/snmp-managers/test"),
        resource::<Subscription>("/subscriptions"),
        resource::<Support>("/support"),
        resource::<SyslogServer>("/syslog-servers").post::<SyslogServerPatch>().patch::<SyslogServerPatch>(),
        resource::<SyslogServerSettings>("/syslog-servers/settings").patch::<SyslogServerSettingsPatch>(),
        resource::<TestResult>("/syslog-servers/test"),
        resource::<VolumeGroup>("/volume-groups").post::<VolumeGroupPatch>().patch::<VolumeGroupPatch>(),
        resource::<Performance>("/volume-groups/performance"),
        resource::<NamedSpace>("/volume-groups/space"),
        resource::<Member>("/volume-groups/volumes"),
        resource::<VolumeSnapshot>("/volume-snapshots").post::<VolumeSnapshotPost>().patch::<VolumeSnapshotPatch>(),
        resource::<Volume>("/volumes").post::<VolumePost>().patch::<VolumePatch>(),
        resource::<Performance>("/volumes/performance"),
        resource::<Member>("/volumes/protection-groups"),
        resource::<VolumeSpace>("/volumes/space"),
        resource::<Tag>("/volumes/tags"),
        resource::<Tag>("/volumes/tags/batch"),
        resource::<Member>("/volumes/volume-groups"),
    ]
}

fn pod_resources() -> Vec<Resource> {
    use api::*;
    vec![
        resource::<Pod>("/pods").post::<PodPost>().patch::<PodPatch>(),
        resource::<Member>("/pods/arrays"),
        resource::<PodCheck>("/pods/check"),
        resource::<PodReplication>("/pods/discard"),
        resource::<PodHandOver>("/pods/evacuate"),
        resource::<PodReplication>("/pods/forget"),
        resource::<Performance>("/pods/performance"),
        resource::<PodReplication>("/pods/promote"),
        resource::<PodReplication>("/pods/replication"),
        resource::<PodReplication>("/pods/resign"),
        resource::<NamedSpace>("/pods/space"),
        resource::<PodVerification>("/pods/verify"),
    ]
}

/// Describes the body and the answer of a call.
fn described(route: &Route, resources: &[Resource]) -> (Body, Found) {
    if route.path == "/openapi.json" {
        return (Body::None, Found::Document);
    }
    let found = resources.iter().find(|resource| resource.path == route.path);
    let resource = found.unwrap_or_else(|| panic!("{} has no description in this file", route.path));
    let body = |body: Option<SchemaOf>| body.map_or(Body::None, Body::Object);
    match route.method {
        "POST" => (body(resource.post), Found::Items(resource.item)),
        "PATCH" => (body(resource.patch), Found::Items(resource.item)),
        "PUT" => (Body::List(schema_of::<api::TagPut>), Found::Items(resource.item)),
        "DELETE" => (Body::None, Found::Nothing),
        _ => (Body::None, Found::Items(resource.item)),
    }
}

/// Returns the parameters that a call accepts. Its handler lists them when it refuses another one.
fn parameters(rest: &Rest, route: &Route) -> Vec<String> {
    let refused = rest.refused(route.method, &format!("{}?unknown=1", &route.path[1..]), "");
    let listed = refused[0].split_once("supported: ").unwrap_or_else(|| panic!("{} {refused:?}", route.path)).1;
    let listed = listed.trim_end_matches('.');
    let mut names: Vec<String> = listed.split(", ").filter(|name| *name != "none").map(ToOwned::to_owned).collect();
    names.extend(crate::query::ALWAYS.iter().map(|name| (*name).to_owned()));
    names.sort();
    names
}

fn parameter(name: &str) -> Value {
    let (schema, is_list) = match name {
        name if FLAGS.contains(&name) => (json!({"type": "boolean"}), false),
        name if NUMBERS.contains(&name) => (json!({"type": "integer", "minimum": 0}), false),
        name if TEXTS.contains(&name) => (json!({"type": "string"}), false),
        _ => (json!({"type": "array", "items": {"type": "string"}}), true),
    };
    let mut parameter = json!({"name": name, "in": "query", "schema": schema});
    if is_list {
        parameter["style"] = json!("form");
        parameter["explode"] = json!(false);
    }
    parameter
}

fn page_of(item: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["continuation_token", "items", "more_items_remaining", "total_item_count"],
        "properties": {
            "continuation_token": {"type": ["string", "null"]},
            "items": {"type": "array", "items": item},
            "more_items_remaining": {"type": "boolean"},
            "total_item_count": {"type": ["integer", "null"], "minimum": 0},
        },
    })
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

/// Generators of the schemas of requests and of answers. They differ: a field with a default may be
/// absent in a request, and is always present in an answer.
struct Generators {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    /// Schemas of pages of lists, by name.
    pages: Map<String, Value>,
    /// Parameters of all calls, by name.
    parameters: Map<String, Value>,
}

impl Generators {
    fn new() -> Self {
        let at = |path: &'static str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = path.into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: at("/components/requests").for_deserialize().into_generator(),
            answers: at("/components/schemas").for_serialize().into_generator(),
            pages: Map::new(),
            parameters: Map::new(),
        }
    }

    /// Returns a reference to the page of a list of these objects.
    fn page(&mut self, item: SchemaOf) -> Value {
        let item = serde_json::to_value(item(&mut self.answers)).unwrap();
        let name = format!("{}Page", item["$ref"].as_str().unwrap().rsplit('/').next().unwrap());
        let page = json!({"$ref": format!("#/components/schemas/{name}")});
        self.pages.insert(name, page_of(&item));
        page
    }

    /// Returns a reference to a parameter.
    fn parameter(&mut self, name: &str) -> Value {
        self.parameters.insert(name.to_owned(), parameter(name));
        json!({"$ref": format!("#/components/parameters/{name}")})
    }

    /// Puts the schemas of both into the document. A schema of a request that differs from that of
    /// an answer with the same name is called `…Input`.
    fn complete(mut self, document: &mut Value) {
        let mut all = self.answers.take_definitions(true);
        let requests = self.requests.take_definitions(true);
        let mut text = serde_json::to_string(&json!({"document": document, "requests": requests})).unwrap();
        let mut names: Vec<(String, String)> = Vec::new();
        for (name, schema) in &requests {
            let plain: Value =
                serde_json::from_str(&schema.to_string().replace("/components/requests/", "/components/schemas/"))
                    .unwrap();
            let is_same = all.get(name).is_none_or(|answer| *answer == plain);
            let given = if is_same { name.clone() } else { format!("{name}Input") };
            text = text
                .replace(&format!("\"#/components/requests/{name}\""), &format!("\"#/components/schemas/{given}\""));
            names.push((name.clone(), given));
        }
        let mut done: Value = serde_json::from_str(&text).unwrap();
        for (name, given) in names {
            all.insert(given, done["requests"][&name].take());
        }
        all.extend(self.pages);
        *document = done["document"].take();
        document["components"]["parameters"] = Value::Object(self.parameters);
        document["components"]["schemas"] = Value::Object(all);
    }
}

fn operation(rest: &Rest, route: &Route, resources: &[Resource], generators: &mut Generators) -> Value {
    let (body, found) = described(route, resources);
    let name = format!("{}{}", route.method.to_lowercase(), route.path.replace(['/', '-', '.'], "_"));
    let answer = match found {
        Found::Nothing => json!({"description": "Done; the body is empty."}),
        Found::Document => json!({"description": "This document.", "content": content(&json!({"type": "object"}))}),
        Found::Items(item) => {
            json!({"description": "The objects, or one page of them.", "content": content(&generators.page(item))})
        }
    };
    let mut operation = json!({
        "operationId": name,
        "tags": [route.path.split('/').nth(1)],
        "description": format!("Needs the role `{}` or a higher one.", route.role.name()),
        "x-ibid-role": route.role.name(),
        "parameters": parameters(rest, route).iter().map(|name| generators.parameter(name)).collect::<Vec<_>>(),
        "responses": {
            "200": answer,
            "default": {"$ref": "#/components/responses/Error"},
        },
    });
    let schema = match body {
        Body::None => return operation,
        Body::Object(schema) => serde_json::to_value(schema(&mut generators.requests)).unwrap(),
        Body::List(schema) => json!({"type": "array", "items": schema(&mut generators.requests)}),
    };
    operation["requestBody"] = json!({"content": content(&schema)});
    operation
}

fn fixed_paths() -> Value {
    let session = json!({"description": "The session token; with `x-ibid-session: cookie` a cookie instead.", "schema": {"type": "string"}});
    json!({
        "/api/api_version": {"get": {
            "operationId": "get_api_version",
            "tags": ["session"],
            "description": "Needs no session.",
            "security": [],
            "responses": {"200": {"description": "The versions of this interface.", "content": content(&json!({"$ref": "#/components/schemas/ApiVersions"}))}},
        }},
        "/api/2.26/events": {"get": {
            "operationId": "get_events",
            "tags": ["session"],
            "description": "A stream of the kinds of objects that change, with the first message `resync`. Any role. Ends with the session.",
            "parameters": [
                {"name": "kinds", "in": "query", "description": "Kinds, with commas between; all without it.", "schema": {"type": "string"}},
                {"name": "last-event-id", "in": "header", "description": "Continues after this message.", "schema": {"type": "string"}},
            ],
            "responses": {
                "200": {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
                "default": {"$ref": "#/components/responses/Error"},
            },
        }},
        "/api/2.26/login": {"post": {
            "operationId": "post_login",
            "tags": ["session"],
            "description": "Opens a session. Needs no session, but an API token.",
            "security": [{"token": []}],
            "responses": {
                "200": {"description": "The session is open.", "headers": {"x-auth-token": session}},
                "default": {"$ref": "#/components/responses/Error"},
            },
        }},
        (api::TOKEN_PATH): {"post": {
            "operationId": "post_oauth2_token",
            "tags": ["session"],
            "description": "Exchanges an ID token of an API client for an access token (RFC 8693). Needs no session.",
            "security": [],
            "requestBody": {"required": true, "content": {"application/x-www-form-urlencoded": {"schema": {
                "type": "object",
                "required": ["grant_type", "subject_token", "subject_token_type"],
                "properties": {
                    "grant_type": {"const": api::GRANT_TYPE},
                    "subject_token": {"type": "string", "description": "A JSON Web Token, signed with RS256."},
                    "subject_token_type": {"const": api::ID_TOKEN_TYPE},
                },
            }}}},
            "responses": {
                "200": {"description": "The access token.", "content": content(&json!({"$ref": "#/components/schemas/AccessToken"}))},
                "400": {"description": "No access token.", "content": content(&json!({"$ref": "#/components/schemas/TokenError"}))},
                "default": {"$ref": "#/components/responses/Error"},
            },
        }},
        "/api/2.26/logout": {"post": {
            "operationId": "post_logout",
            "tags": ["session"],
            "description": "Ends the session.",
            "responses": {"200": {"description": "The session is closed."}, "default": {"$ref": "#/components/responses/Error"}},
        }},
    })
}

/// Describes the calls of REST 1.x: arguments are in the query of a GET, otherwise in the body.
fn paths_of_rest1(paths: &mut Value) {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let schema = |kind: Kind| match kind {
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number => json!({"type": "integer", "minimum": 0}),
        Kind::Size => json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
        Kind::Text => json!({"type": "string"}),
        Kind::List => list.clone(),
    };
    for call in CALLS {
        let names = call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
        let mut parameters: Vec<Value> = names.map(in_path).collect();
        let mut operation = json!({
            "operationId": format!("rest1_{}{}", call.method.to_lowercase(), call.path.replace('/', "_").replace(['{', '}'], "")),
            "tags": ["REST 1.x"],
            "responses": {
                "200": {"description": "The objects, or the object.", "content": content(&json!({"type": ["array", "object"]}))},
                "default": {"$ref": "#/components/responses/Errors1"},
            },
        });
        if call.method == "GET" {
            let in_query = |(name, kind): &(&str, Kind)| {
                let mut parameter = json!({"name": name, "in": "query", "schema": schema(*kind)});
                if *kind == Kind::List {
                    (parameter["style"], parameter["explode"]) = (json!("form"), json!(false));
                }
                parameter
            };
            parameters.extend(call.args.iter().map(in_query));
        } else if !call.args.is_empty() {
            let properties: Map<String, Value> =
                call.args.iter().map(|(name, kind)| ((*name).to_owned(), schema(*kind))).collect();
            let body = json!({"type": "object", "additionalProperties": false, "properties": properties});
            operation["requestBody"] = json!({"content": content(&body)});
        }
        operation["parameters"] = json!(parameters);
        paths[format!("/api/{DESCRIBED_VERSION}{}", call.path)][call.method.to_lowercase()] = operation;
    }
    let session = |method: &str, description: &str| {
        json!({
            "operationId": format!("rest1_{method}_session"),
            "tags": ["REST 1.x"],
            "description": description,
            "responses": {
                "200": {"description": "The administrator.", "content": content(&json!({"type": "object"}))},
                "default": {"$ref": "#/components/responses/Errors1"},
            },
        })
    };
    let path = format!("/api/{DESCRIBED_VERSION}/auth/session");
    paths[&path]["post"] =
        session("post", "Opens a session, whose cookie `session` the answer sets. Needs no session.");
    paths[&path]["post"]["security"] = json!([]);
    let token = json!({"type": "object", "required": ["api_token"], "properties": {"api_token": {"type": "string"}}});
    paths[&path]["post"]["requestBody"] = json!({"required": true, "content": content(&token)});
    paths[&path]["delete"] = session("delete", "Ends the session.");
}

fn document() -> Value {
    let (rest, mut resources, mut generators) = (Rest::new(), resources(), Generators::new());
    resources.extend(pod_resources());
    let mut paths = fixed_paths();
    paths_of_rest1(&mut paths);
    for route in ROUTES {
        let path = format!("/api/{}{}", api::VERSION, route.path);
        paths[&path][route.method.to_lowercase()] = operation(&rest, route, &resources, &mut generators);
    }
    schema_of::<api::ApiVersions>(&mut generators.answers);
    schema_of::<api::ErrorBody>(&mut generators.answers);
    schema_of::<api::AccessToken>(&mut generators.answers);
    schema_of::<api::TokenError>(&mut generators.answers);
    let key = |name: &str, description: &str| json!({"type": "apiKey", "in": "header", "name": name, "description": description});
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ibid",
            "version": api::VERSION,
            "description": "Administration of an Ibid array, in a subset of the dialect of FlashArray REST 2.26. docs/rest.md explains it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"session": []}, {"access": []}],
        "paths": paths,
        "components": {
            "responses": {"Errors1": {
                "description": "The call changed nothing.",
                "content": content(&json!({"type": "array", "items": {"type": "object", "properties": {
                    "ctx": {"type": ["string", "null"]},
                    "code": {"type": ["integer", "null", "string"]},
                    "msg": {"type": "string"},
                }}})),
            }, "Error": {
                "description": "The call changed nothing. `code` is for programs, `message` for people.",
                "content": content(&json!({"anyOf": [
                    {"$ref": "#/components/schemas/ErrorBody"},
                    {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}},
                ]})),
            }},
            "securitySchemes": {
                "session": key(AUTH_TOKEN_HEADER, "Session token of `login`."),
                "access": {"type": "http", "scheme": "bearer", "description": "Access token of an API client."},
                "token": key(API_TOKEN_HEADER, "API token of an administrator."),
            },
        },
    });
    generators.complete(&mut document);
    document
}

#[test]
fn openapi_document_is_up_to_date() {
    let text = format!("{:#}\n", document());
    if std::env::var_os("IBID_WRITE_OPENAPI").is_some() {
        #[allow(clippy::disallowed_methods, reason = "a test writes the file on request")]
        return std::fs::write(FILE, &text).unwrap();
    }
    let stored = crate::openapi::DOCUMENT;
    let differs = stored.lines().zip(text.lines()).position(|(stored, made)| stored != made);
    let hint = "run IBID_WRITE_OPENAPI=1 cargo test -p ibid-rest openapi";
    assert!(stored == text, "docs/openapi.json is out of date from line {differs:?}: {hint}");
}

#[test]
fn openapi_document_has_every_call() {
    let document = Rest::new().call("GET", "2.26/openapi.json", "").1;
    assert_eq!(document["openapi"], "3.1.0");
    let mut calls = 0;
    for route in ROUTES {
        let operation = &document["paths"][format!("/api/2.26{}", route.path)][route.method.to_lowercase()];
        assert_eq!(operation["x-ibid-role"], route.role.name(), "{} {}", route.method, route.path);
        calls += 1;
    }
    let paths = document["paths"].as_object().unwrap().values();
    let described: usize = paths.map(|methods| methods.as_object().unwrap().len()).sum();
    let others = 5 + CALLS.len() + 2;
    assert_eq!(described, calls + others, "and versions, login, logout, events, access tokens; REST 1.x with sessions");
}

#[test]
fn openapi_references_exist() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let path = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(path).is_some_and(|found| !found.is_null()), "{reference}");
                }
                fields.values().for_each(|value| check(value, document));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, document)),
            _ => {}
        }
    }
    let document = Rest::new().call("GET", "2.26/openapi.json", "").1;
    check(&document, &document);
}
