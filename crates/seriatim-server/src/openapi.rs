//! The OpenAPI document: the descriptions of routes and types, and what all routes have in common.

use axum::body::Bytes;
use serde_json::Value;
use seriatim_api::{Code, Problem};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Header, InfoBuilder, ObjectBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    ResponseBuilder, Type,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};

const BEARER: &str = "bearer";
/// Errors that every route with a token can return: status, name, meaning.
const PROBLEMS: [(&str, &str, &str); 5] = [
    ("401", "Unauthorized", "The caller is not known: send a token."),
    ("403", "Forbidden", "The scopes of the token do not include this."),
    ("500", "Internal", "Stored data is damaged, or the server has a defect."),
    ("503", "Unavailable", "Busy, unavailable, fenced or in doubt: the code says which."),
    ("default", "Problem", "What went wrong."),
];

/// Makes a request safe to repeat.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct IdempotencyHeader {
    /// A request with a key that was used before gives the same answer and does nothing. 1 to 200 bytes of ASCII.
    #[expect(dead_code, reason = "it documents a header that is read by hand")]
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 200, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

/// Only if the workspace's last event has this offset.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct MatchHeader {
    /// The workspace offset that the command expects to follow, in quotes.
    #[expect(dead_code, reason = "it documents a header that is read by hand")]
    #[param(rename = "If-Match", pattern = "^\"(0|[1-9][0-9]{0,14})\"$", example = "\"4\"")]
    if_match: Option<String>,
}

/// Resumes a stream.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ResumeHeader {
    /// The `id` of the last event that the client received, or 0; for streams.
    #[expect(dead_code, reason = "it documents a header that is read by hand")]
    #[param(rename = "Last-Event-ID", pattern = "^(0|[1-9][0-9]{0,14})$")]
    last_event_id: Option<String>,
}

/// The document before any route is added.
pub(crate) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Seriatim")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Numbers that can be trusted: gap-free sequences, ids in blocks, events."));
    let mut components = Components::new();
    for (name, schema) in [(Problem::name(), Problem::schema()), (Code::name(), Code::schema())] {
        components.schemas.insert(name.into_owned(), schema);
    }
    for (status, name, description) in PROBLEMS {
        let mut response = problem(description);
        if status == "503" {
            let mut seconds = Header::new(ObjectBuilder::new().schema_type(Type::Integer).build());
            seconds.description = Some("Seconds, if the code is busy.".to_owned());
            response = response.header("Retry-After", seconds);
        }
        components.responses.insert(name.to_owned(), response.build().into());
    }
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("A token of `POST /v1/tokens`. Not needed while there are none.".to_owned());
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    OpenApiBuilder::new().info(info.build()).components(Some(components)).build()
}

fn problem(description: &str) -> ResponseBuilder {
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name("Problem"))));
    ResponseBuilder::new().description(description).content("application/problem+json", content)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// Makes an operation's id unique in the document: its tag, then its own name. Generators make one function per operation.
fn name(operation: &mut Operation) {
    let tag = operation.tags.as_ref().and_then(|tags| tags.first());
    if let (Some(tag), Some(id)) = (tag, operation.operation_id.take()) {
        operation.operation_id = Some(format!("{tag}_{id}"));
    }
}

/// Adds what every route with a token has.
fn complete(operation: &mut Operation) {
    let own = std::mem::take(&mut operation.responses.responses);
    let shared = PROBLEMS.map(|(status, name, _)| (status, RefOr::Ref(Ref::from_response_name(name))));
    operation.responses.responses =
        own.into_iter().chain(shared.map(|(status, response)| (status.to_owned(), response))).collect();
    let bearer = SecurityRequirement::new::<_, [&str; 0], &str>(BEARER, []);
    operation.security = Some(vec![bearer, SecurityRequirement::default()]);
}

/// The whole document, as it is served.
pub(crate) fn finish(mut document: OpenApi) -> Bytes {
    for (path, item) in &mut document.paths.paths {
        operations(item).for_each(name);
        if !crate::access::is_open(path) {
            operations(item).for_each(complete);
        }
    }
    let mut json = serde_json::to_value(document).unwrap_or_default();
    mark_unsigned(&mut json);
    describe_answers(&mut json);
    Bytes::from(serde_json::to_vec_pretty(&json).unwrap_or_default())
}

/// Marks integers with a minimum as unsigned 64-bit numbers. Otherwise readers of the document reject the upper half of them.
fn mark_unsigned(json: &mut Value) {
    match json {
        Value::Object(object) => {
            if object.get("format").is_some_and(|format| format == "int64") && object.contains_key("minimum")
            {
                object.insert("format".to_owned(), "uint64".into());
            }
            object.values_mut().for_each(mark_unsigned);
        }
        Value::Array(array) => array.iter_mut().for_each(mark_unsigned),
        _ => {}
    }
}

/// OpenAPI requires a description of every answer. If a route has none, this uses the description of the answer's type, or else
/// the summary of the route.
fn describe_answers(json: &mut Value) {
    let schemas = json["components"]["schemas"].clone();
    let of_type = |answer: &Value| {
        let content = answer["content"].as_object()?.values().next()?;
        let name = content["schema"]["$ref"].as_str()?.rsplit('/').next()?;
        schemas[name]["description"].as_str().map(str::to_owned)
    };
    let items = json["paths"].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
    let operations = items.filter_map(Value::as_object_mut).flat_map(serde_json::Map::values_mut);
    for operation in operations {
        let summary = operation["summary"].clone();
        let answers =
            operation["responses"].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
        for answer in answers {
            let given = answer["description"].as_str().is_some_and(|text| !text.is_empty());
            if !given && answer.get("$ref").is_none() {
                let description = of_type(answer).map_or_else(|| summary.clone(), Value::from);
                answer["description"] = description;
            }
        }
    }
}
